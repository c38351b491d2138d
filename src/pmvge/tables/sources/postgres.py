"""Tables and queries of a PostgreSQL server: arrays are copied as lists, other values as text.

pg8000 is written in Python, needs no client library, and passes on the bytes of COPY without
looking at them. DuckDB's own extension for PostgreSQL would have to be downloaded.
"""

from __future__ import annotations

import getpass
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import duckdb

from pmvge.errors import TableError, choose, one_line, short
from pmvge.tables.sources.connection import quote_ident, quote_literal, temporary_file
from pmvge.tables.sources.source import Source, without_password

SSL_MODES = ("disable", "verify-full")  # an encrypted session with anyone is not offered
# A table of the search path is named alone, another one by its schema, too.
_TABLES = """
SELECT CASE WHEN pg_table_is_visible(c.oid) THEN c.relname ELSE n.nspname || '.' || c.relname END
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE strpos({kinds}, c.relkind::text) > 0 AND n.nspname NOT LIKE 'pg\\_%'
    AND n.nspname <> 'information_schema' ORDER BY 1"""
_BASE, _VIEWS = "rpf", "vm"  # tables that hold rows, here or elsewhere; queries of other tables
_ELEMENTS = """
SELECT a.oid, e.typname FROM pg_type a JOIN pg_type e ON e.oid = a.typelem
WHERE a.typcategory = 'A'"""
_INTEGERS, _NUMBERS = ("int2", "int4", "int8"), ("float4", "float8", "numeric")


def copy_postgres(db: duckdb.DuckDBPyConnection, name: str, source: Source) -> None:
    """Copy the rows of a table or query into a table ``name`` of the connection.

    The rows go through a temporary file, so that they may exceed memory. Arrays, written as JSON,
    become lists of integers, numbers or texts; those of more dimensions become one long list. Other
    values are texts. The session is read-only, and the server executes one statement at a time.
    Raise TableError if the server cannot be reached, or the table or query is not valid.
    """
    address, file = str(source.database), temporary_file(db, ".csv")
    with _connect(address) as server:
        if source.query is None:
            known = _names(server)
            if not source.table:
                raise TableError(
                    f"{without_password(address)}: expected a table, as in ADDRESS:TABLE; there "
                    f"are {', '.join(known[:8]) or 'none'}"
                )
            choose("table", source.table, known, without_password(address), error=TableError)
        query = source.query or f"SELECT * FROM {_identifier(server, str(source.table))}"
        rows = f"(\n{query.rstrip().removesuffix(';')}\n) AS t"
        described = server.execute_unnamed(f"SELECT * FROM {rows} LIMIT 0").columns
        names = [str(column["name"]) for column in described]
        if len({column.lower() for column in names}) < len(names):
            raise TableError(f"{source}: expected distinct column names, got {short(names)}")
        elements = dict(server.execute_unnamed(_ELEMENTS).rows)
        kinds = {str(column["name"]): elements.get(column["type_oid"]) for column in described}
        texts = ", ".join(_text(column, kind is not None) for column, kind in kinds.items())
        with file.open("wb") as stream:
            server.execute_unnamed(
                f"COPY (SELECT {texts} FROM {rows}) TO STDOUT "
                "(FORMAT csv, FORCE_QUOTE *, ENCODING 'UTF8')",
                stream=stream,
            )
    columns = ", ".join(f"{quote_literal(column)}: 'VARCHAR'" for column in names)
    values = ", ".join(_value(column, kind) for column, kind in kinds.items())
    db.execute(
        f"CREATE TEMP TABLE {quote_ident(name)} AS SELECT {values} FROM read_csv("
        f"{quote_literal(str(file))}, auto_detect = false, header = false, delim = ',', "
        "quote = '\"', escape = '\"', nullstr = '', allow_quoted_nulls = false, "
        f"max_line_size = 268435456, columns = {{{columns}}})"
    )
    file.unlink()


def _text(column: str, is_array: bool) -> str:
    """Return the server's SQL of a column as text; that of an array is JSON, ``[0.5, 1.0]``."""
    name = f"t.{quote_ident(column)}"
    if not is_array:
        return f"to_json({name}) #>> '{{}}'"
    return f"CASE WHEN {name} IS NOT NULL THEN to_json(ARRAY(SELECT unnest({name}))) END"


def _value(column: str, element: str | None) -> str:
    """Return DuckDB's SQL of a copied column; ``element`` is the type of an array's elements."""
    name = quote_ident(column)
    if element is None:
        return name
    if element in _INTEGERS:
        return f"CAST(CAST({name} AS JSON) AS BIGINT[]) AS {name}"
    if element in _NUMBERS:
        return f"CAST(CAST({name} AS JSON) AS DOUBLE[]) AS {name}"
    return f"CAST(CAST({name} AS JSON) AS VARCHAR[]) AS {name}"


def postgres_tables(address: str) -> list[str]:
    """Return the sorted names of the tables of a database; of its views if it has no tables.

    A view repeats rows of other tables. A name has its schema, ``schema.table``, unless the schema
    is in the search path.
    """
    with _connect(address) as server:
        return _names(server, _BASE) or _names(server)


def _names(server: Any, kinds: str = _BASE + _VIEWS) -> list[str]:
    query = _TABLES.format(kinds=quote_literal(kinds))
    return [str(row[0]) for row in server.execute_unnamed(query).rows]


def _identifier(server: Any, table: str) -> str:
    """Return a name of :func:`postgres_tables` as SQL; a visible table may have a dot in it."""
    visible = server.execute_unnamed(
        "SELECT 1 FROM pg_class c WHERE pg_table_is_visible(c.oid) AND "
        f"c.relname = {quote_literal(table)}"
    ).rows
    return ".".join(map(quote_ident, [table] if visible else table.split(".", 1)))


@contextmanager
def _connect(address: str) -> Iterator[Any]:
    """Open a read-only session; errors of the server and the network become TableError.

    What the address leaves out is taken from PGHOST, PGPORT, PGUSER, PGPASSWORD and PGDATABASE.
    """
    where = without_password(address)
    try:
        from pg8000 import Error
        from pg8000.native import Connection
    except ImportError as error:
        raise TableError(
            f"{where}: PostgreSQL needs pg8000: pip install 'pmvge[formats]'"
        ) from error
    try:
        server = Connection(**_options(where, address))
    except (Error, OSError) as error:
        raise TableError(f"{where}: cannot connect: {_message(error)}") from error
    try:
        yield server
    except (Error, OSError) as error:
        raise TableError(f"{where}: cannot be read: {_message(error)}") from error
    finally:
        server.close()


def _options(where: str, address: str) -> dict[str, Any]:
    """Return the arguments of pg8000 for an address, as libpq would read it."""
    parts = urlsplit(address)
    given = dict(parse_qsl(parts.query))
    for key in given:
        choose(
            "option", key, ("host", "port", "user", "password", "sslmode"), where, error=TableError
        )
    environment = os.environ
    user = unquote(parts.username or "") or given.get("user") or environment.get("PGUSER")
    host = unquote(parts.hostname or "") or given.get("host") or environment.get("PGHOST")
    try:
        port = parts.port or int(given.get("port") or environment.get("PGPORT") or 5432)
    except ValueError as error:
        raise TableError(f"{where}: expected a port number, got {error}") from error
    mode = choose("sslmode", given.get("sslmode", "disable"), SSL_MODES, where, error=TableError)
    options: dict[str, Any] = {
        "user": user or getpass.getuser(),
        "password": unquote(parts.password or "")
        or given.get("password")
        or environment.get("PGPASSWORD"),
        "database": unquote(parts.path[1:]) or environment.get("PGDATABASE"),
        "ssl_context": ssl.create_default_context() if mode == "verify-full" else None,
        "application_name": "pmvge",
        "startup_params": {"default_transaction_read_only": "on"},
    }
    if host is not None and host.startswith("/"):
        return options | {"host": None, "unix_sock": f"{host}/.s.PGSQL.{port}"}
    return options | {"host": host or "localhost", "port": port}


def _message(error: BaseException) -> str:
    """Return the server's own message, without the fields around it.

    pg8000 raises an error of the network if the server refuses a connection and closes it.
    """
    detail = error.args[0] if error.args else None
    if isinstance(detail, dict) and "M" in detail:
        return one_line(detail["M"])
    return one_line(error) if error.__context__ is None else _message(error.__context__)
