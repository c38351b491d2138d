"""Every SQL statement in the source is built from constants and quoted names and strings.

Names of tables, columns and files are quoted by ``quote_ident``, and strings by ``quote_literal``;
tests/model/test_attacks.py tests both. Ids and values are not in statements: they are columns of
registered tables. The checker follows every expression that is executed back to its parts.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import pmvge

SOURCE = Path(pmvge.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

QUOTING_FUNCTIONS = {"quote_ident", "quote_literal"}
# Functions that return SQL, and their files: what they return is checked, too.
SQL_FUNCTIONS = {
    "_number_facts": "tables/guessing/profile.py",
    "_try_cast": "tables/columns/casts.py",
    "list_files": "tables/sources/connection.py",
    "_identifier": "tables/sources/postgres.py",
    "_text": "tables/sources/postgres.py",
    "_value": "tables/sources/postgres.py",
    "_scan": "tables/sources/text.py",
    "_index_column": "tables/sources/columnar.py",
    "select_named": "tables/sources/header.py",
    "_replace_cells": "tables/sources/staging.py",
    "_as_text": "tables/columns/id_casts.py",
    "_weight": "tables/joining.py",
    "_is_integer": "tables/columns/id_casts.py",
    "_word_facts": "tables/guessing/profile.py",
    "cast_id": "tables/columns/id_casts.py",
    "normalize_id": "tables/columns/id_casts.py",
    "cast_amount": "tables/sources/amounts.py",
    "is_swapped": "tables/sources/amounts.py",
    "_digits": "tables/sources/amounts.py",
    "cast": "tables/columns/casts.py",
    "is_invalid": "tables/columns/casts.py",
    "select_typed": "tables/columns/casts.py",
}
# Functions whose arguments are SQL.
SQL_ARGUMENTS = {
    "_as_text",
    "_is_integer",
    "normalize_id",
    "cast_amount",
    "is_swapped",
    "_digits",
}
# Methods and functions that execute SQL, and the position of the SQL among their arguments.
METHODS = {
    "execute": 0,
    "executemany": 0,
    "executescript": 0,
    "from_query": 0,
    "sql": 0,
    "execute_unnamed": 0,
}
FUNCTIONS = {"fetch_all": 1, "fetch_batches": 1, "first_invalid": 3, "select_named": 2}
# Expressions that are allowed, (file, function, expression), and the reason.
ALLOWED = {
    (
        "tables/sources/staging.py",
        "stage",
        "source.query",
    ): "SQL that the user wrote in the project file",
    ("tables/sources/databases.py", "stage_database", "source.query"): "the same",
    ("tables/sources/postgres.py", "copy_postgres", "query.rstrip().removesuffix(';')"): "the same",
    ("tables/sources/databases.py", "_copy_sqlite", "query"): "built by stage_database",
    ("tables/sources/connection.py", "fetch_all", "query"): "the callers are checked",
    ("tables/columns/recipe.py", "fetch_batches", "query"): "the same",
    ("tables/columns/unreadable.py", "first_invalid", "condition"): "the same",
    ("tables/sources/header.py", "select_named", "rows"): "the same",
    (
        "tables/columns/casts.py",
        "select_typed",
        "others",
    ): "ids and labels, built by cast_id and quote_ident",
    ("tables/views.py", "stage_view", "rows"): "built by select_typed",
    ("tables/new_rows.py", "select_rows", "rows"): "the same",
    (
        "tables/guessing/profile.py",
        "_fetch_facts",
        "facts",
    ): "built by _number_facts and _word_facts",
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Scope:
    """A function, and the loops of the comprehensions around an expression in it."""

    function: Function
    loops: tuple[ast.comprehension, ...] = ()
    seen: frozenset[str] = frozenset()


class SqlChecker:
    """Find the parts of a file's SQL that are neither constant nor quoted."""

    def __init__(self, file: str, source: str) -> None:
        self.file, self.tree = file, ast.parse(source)
        self.functions = [node for node in ast.walk(self.tree) if isinstance(node, Function)]

    def violations(self) -> list[str]:
        found = []
        for function in self.functions:
            for node in ast.walk(function):
                if (statement := executed(node)) is not None:
                    found += [*self.check(statement, Scope(function))]
                makes = SQL_FUNCTIONS.get(function.name) == self.file
                if isinstance(node, ast.Return | ast.Yield) and makes and node.value:
                    many = isinstance(node.value, ast.Tuple)
                    look = self.check_each if many else self.check
                    found += [*look(node.value, Scope(function))]
        outside = ast.Module([n for n in self.tree.body if not isinstance(n, Function)], [])
        inner = {id(node) for function in self.functions for node in ast.walk(function)}
        found += [
            f"{self.file}: executed outside of a function: {ast.unparse(node)}"
            for node in ast.walk(outside)
            if executed(node) is not None and id(node) not in inner
        ]
        return found

    def check(self, sql: ast.expr, scope: Scope) -> Iterator[str]:
        """Yield the parts of an SQL expression that are neither constant nor quoted."""
        if (self.file, scope.function.name, ast.unparse(sql)) in ALLOWED:
            return
        match sql:
            case ast.Constant():
                return
            case ast.JoinedStr(values):
                parts = [v.value for v in values if isinstance(v, ast.FormattedValue)]
            case ast.BinOp(left, _, right):
                parts = [left, right]
            case ast.IfExp(_, body, orelse):
                parts = [body, orelse]
            case ast.BoolOp(_, values):
                parts = values
            case ast.Call(ast.Name(name)) if name in QUOTING_FUNCTIONS or name in ("int", "len"):
                return
            case ast.Call(ast.Name(name) | ast.Attribute(_, name), args) if name in SQL_FUNCTIONS:
                parts = args if name in SQL_ARGUMENTS else []
            case ast.Call(ast.Attribute(template, "format"), args):
                parts = [template, *args]
            case ast.Call(ast.Name("max" | "min"), args):  # of numbers
                parts = args
            case ast.Call(ast.Attribute(ast.Constant(str()), "join"), [items]):
                yield from self.check_each(items, scope)
                return
            case ast.Subscript(ast.Dict() | ast.Name() as table):
                yield from self.check_each(table, scope)
                return
            case ast.Name(name):
                yield from self.check_name(name, scope)
                return
            case _:
                yield self.describe(sql, scope)
                return
        for part in parts:
            yield from self.check(part, scope)

    def check_each(self, items: ast.expr, scope: Scope) -> Iterator[str]:
        """Yield such parts of all items of a collection."""
        match items:
            case ast.List(elts) | ast.Tuple(elts) | ast.Dict(_, elts):
                for one in elts:
                    yield from self.check(one, scope)
            case (
                ast.ListComp(one, loops)
                | ast.GeneratorExp(one, loops)
                | ast.DictComp(_, one, loops)
            ):
                yield from self.check(one, replace(scope, loops=(*loops, *scope.loops)))
            case ast.Call(ast.Name("map"), [ast.Name(name), *_]) if name in QUOTING_FUNCTIONS:
                return
            case ast.BinOp(left, _, right):
                yield from self.check_each(left, scope)
                yield from self.check_each(right, scope)
            case ast.Call(ast.Attribute(inner, "values"), []) | ast.Subscript(inner):
                yield from self.check_each(inner, scope)
            case ast.Name(name):
                yield from self.check_name(name, scope, each=True)
            case _:
                yield self.describe(items, scope)

    def check_name(self, name: str, scope: Scope, *, each: bool = False) -> Iterator[str]:
        """Yield such parts of all values of a name in its function, or else in its module."""
        if name in scope.seen or (self.file, scope.function.name, name) in ALLOWED:
            return
        levels = [scope.loops, [*ast.walk(scope.function)], self.tree.body]
        found = ([value for node in level for value in bound(node, name)] for level in levels)
        values = next(filter(None, found), [])
        unchecked = self.is_argument(name, scope.function)
        if unchecked or (unchecked is None and not values):
            yield self.describe(ast.Name(name), scope)
        for is_all, value in values:
            look = self.check_each if each != is_all else self.check
            yield from look(value, replace(scope, seen=scope.seen | {name}))

    def is_argument(self, name: str, function: Function) -> bool | None:
        """Return whether a name is an unchecked argument of a function; None if it is none."""
        for argument in function.args.args + function.args.kwonlyargs:
            if argument.arg == name:
                annotation = argument.annotation
                number = annotation is not None and ast.unparse(annotation) == "int"
                piece = function.name in SQL_ARGUMENTS and SQL_FUNCTIONS[function.name] == self.file
                return not number and not piece
        return None

    def describe(self, sql: ast.expr, scope: Scope) -> str:
        return f"{self.file}, {scope.function.name}: {ast.unparse(sql)}"


def executed(node: ast.AST) -> ast.expr | None:
    """Return the SQL that a call executes; None if it executes none."""
    match node:
        case ast.Call(ast.Attribute(_, name), args) if name in METHODS and args:
            return args[METHODS[name]]
        case ast.Call(ast.Name(name), args) if name in FUNCTIONS:
            return args[FUNCTIONS[name]]
    return None


def bound(node: ast.AST, name: str) -> Iterator[tuple[bool, ast.expr]]:
    """Yield what a node assigns to a name: (False, value), or (True, collection of values)."""
    match node:
        case ast.Assign([ast.Name(found)], value) | ast.AnnAssign(ast.Name(found), _, value):
            yield from [(False, value)] if found == name and value is not None else []
        case ast.NamedExpr(ast.Name(found), value) | ast.AugAssign(ast.Name(found), _, value):
            yield from [(False, value)] if found == name else []
        case ast.Call(ast.Attribute(ast.Name(found), "append"), [value]) if found == name:
            yield False, ast.List([value])
        case ast.For(ast.Name(found), value) | ast.comprehension(ast.Name(found), value):
            yield from [(True, value)] if found == name else []
        case ast.Assign([ast.Tuple(targets)], value):
            yield from _unpacked(targets, [value], name)
        case ast.For(ast.Tuple(targets), value) | ast.comprehension(ast.Tuple(targets), value):
            rows = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
            yield from _unpacked(targets, rows, name)


def _unpacked(
    targets: list[ast.expr], rows: list[ast.expr], name: str
) -> Iterator[tuple[bool, ast.expr]]:
    for at, target in enumerate(targets):
        if isinstance(target, ast.Name) and target.id == name:
            for row in rows:
                known = isinstance(row, ast.Tuple)
                yield (False, row.elts[at]) if known else (True, row)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_sql_is_constant_or_quoted(path: Path) -> None:
    checker = SqlChecker(path.relative_to(SOURCE).as_posix(), path.read_text("utf-8"))
    assert checker.violations() == []


@pytest.mark.parametrize(
    "line",
    [
        'db.execute(f"SELECT * FROM {table}")',
        'db.execute(f"SELECT {quote_ident(column)} FROM t WHERE id = {value!r}")',
        'db.execute("SELECT * FROM " + table)',
        'db.execute("SELECT %s" % value)',
        'db.execute("SELECT {}".format(value))',
        "db.sql(table)",
        'fetch_all(db, f"SELECT {value} FROM {quote_ident(table)}")',
        'name = table\n    fetch_all(db, f"SELECT * FROM {name}")',
        'all = [quote_ident(table)]\n    all.append(value)\n    fetch_all(db, ", ".join(all))',
        'fetch_all(db, "SELECT " + ", ".join(c for c in columns))',
        'fetch_all(db, "SELECT " + ", ".join(columns))',
        'fetch_all(db, "SELECT " + ", ".join([quote_ident(column)] + columns))',
        'a, b = quote_ident(table), value\n    fetch_all(db, f"SELECT {b} FROM {a}")',
        'for name in columns:\n        fetch_all(db, f"SELECT {name}")',
        'what = quote_ident(table) if value else table\n    fetch_all(db, f"SELECT {what}")',
        'fetch_all(db, f"SELECT {str(value)}")',
        'fetch_all(db, f"SELECT {_as_text(table)}")',
        "db.executescript(value)",
    ],
)
def test_unquoted_parts_are_found(line: str) -> None:
    source = f"def f(db, table, column, value, columns):\n    {line}\n"
    assert SqlChecker("tables/new.py", source).violations()


@pytest.mark.parametrize(
    "line",
    [
        'db.execute("SELECT 1")',
        'db.execute(f"SELECT {quote_ident(column)} FROM t WHERE id = {quote_literal(value)}")',
        'db.execute("SELECT * FROM t WHERE id = ?", [value])',
        'a, b = (quote_ident(c) for c in columns)\n    fetch_all(db, f"SELECT {a}, {b}")',
        'fetch_all(db, "SELECT " + ", ".join(map(quote_ident, columns)))',
        'fetch_all(db, f"SELECT {_as_text(quote_ident(column))} LIMIT {len(columns)}")',
    ],
)
def test_quoted_parts_are_accepted(line: str) -> None:
    source = f"def f(db, table, column, value, columns):\n    {line}\n"
    assert SqlChecker("tables/new.py", source).violations() == []


def test_the_checker_finds_the_statements() -> None:
    """The lists above name the functions that execute SQL, and no expression that is gone."""
    calls = [
        node
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if executed(node) is not None
    ]
    assert len(calls) > 40
    for file, function, expression in ALLOWED:
        tree = ast.parse((SOURCE / file).read_text("utf-8"))
        (found,) = [n for n in ast.walk(tree) if isinstance(n, Function) and n.name == function]
        assert expression in ast.unparse(found)
