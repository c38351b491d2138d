"""How the cells of a text file are written: delimiter, header, encoding, missing values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from pmvge.errors import TableError, choose, short
from pmvge.tables.sources.text_encoding import encoding_name

DELIMITERS = (",", "\t", ";", "|", "::", " ")
DECIMAL_COMMA = r"[-+]?\d+,\d+"  # a number such as 3,5


@dataclass(frozen=True)
class Dialect:
    """How a text file is written. Other sources use ``na_values`` only.

    Parameters
    ----------
    delimiter
        The text between two cells of a row. None: guess it from the first line.
    header
        Whether the first line has the names of the columns. If it has not, columns are named
        ``column1``, ``column2``, ...; a tuple of names is for the first columns of such a file.
    encoding
        The name of a text encoding of Python, such as "utf-8", "cp1252" or "gb18030". A file in
        UTF-8 or UTF-16 is recognised and needs no encoding.
    decimal
        "." or ",": how numbers are written. With "," the cell ``3,5`` is the number 3.5.
    na_values
        Cells that are missing values, besides empty ones, NA, N/A, NaN and null.
    """

    delimiter: str | None = None
    header: bool | tuple[str, ...] = True
    encoding: str = "utf-8"
    decimal: str = "."
    na_values: tuple[str, ...] = ()

    @classmethod
    def of(cls, where: str, given: Mapping[str, Any]) -> Dialect:
        """Return the dialect of options; raise TableError, which starts with ``where``."""
        options: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in given.items()
        }
        if "encoding" in options:
            options["encoding"] = encoding_name(where, options["encoding"])
        if "decimal" in options:
            choose("decimal", options["decimal"], (".", ","), where, error=TableError)
        delimiter = options.get("delimiter")
        if delimiter is not None and not (isinstance(delimiter, str) and 1 <= len(delimiter) <= 4):
            raise TableError(
                f"{where}: delimiter: expected one to four characters, got {short(delimiter)}"
            )
        header = options.get("header", True)
        if not isinstance(header, bool) and not (_are_names(header) and header):
            raise TableError(
                f"{where}: header: expected true, false or a list of distinct column names, "
                f"got {short(given['header'])}"
            )
        na_values = options.get("na_values", ())
        if not (isinstance(na_values, tuple) and all(isinstance(v, str) for v in na_values)):
            raise TableError(
                f"{where}: na_values: expected a list of strings, got {short(given['na_values'])}"
            )
        return cls(**options)

    def to_dict(self) -> dict[str, Any]:
        """Return the options that differ from the defaults, as JSON and TOML can store them."""
        plain = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                plain[field.name] = list(value) if isinstance(value, tuple) else value
        return plain

    def column_names(self, n: int) -> list[str]:
        """Return the names of the n columns of a file without a header."""
        given = self.header if isinstance(self.header, tuple) else ()
        return [*given[:n], *(f"column{at}" for at in range(len(given) + 1, n + 1))]


DEFAULT = Dialect()
KEYS = tuple(field.name for field in fields(Dialect))


def _are_names(names: Any) -> bool:
    return (
        isinstance(names, tuple)
        and all(isinstance(name, str) and name.strip() for name in names)
        and len({name.lower() for name in names}) == len(names)
    )
