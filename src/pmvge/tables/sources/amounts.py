"""Amounts: numbers with a currency, a percent sign or thousands separators, such as $1,234.50.

A cell is read by itself, so that new rows are read as those of the training. The last of two
separators is the decimal one. A single comma before three digits separates thousands in a cell
with a currency; a single point is a decimal point. ``decimal = ","`` swaps the two. Cells such as
3,5 and 1,234 without a currency are no amounts, see DECIMAL_COMMA; 192.168.100.200 is none, either.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pmvge.tables.sources.connection import quote_literal

_CODES = (
    "USD|EUR|GBP|JPY|CNY|INR|CHF|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|RON|BGN|RUB|UAH|TRY|ILS|BRL|"
    "MXN|ARS|CLP|COP|ZAR|KRW|SGD|HKD|TWD|THB|IDR|MYR|PHP|VND|AED|SAR"
)
_CURRENCY = rf"(?:[A-Z]{{0,2}}\$|[€£¥₹₩₽₺₪₫฿₴]|{_CODES}|kr\.?|zł|Kč|Fr\.|Rs\.?)"
_BLANK = "[ \t\u00a0\u202f\u2009]*"
_GAP = " \u00a0\u202f\u2009'’"  # between thousands
# An amount with a currency or a percent sign: its signs and its digits are the groups.
_MARKED = (
    rf"^{_BLANK}([-+]?){_BLANK}(?:{_CURRENCY}{_BLANK}([-+]?)([0-9.,{_GAP}]*[0-9.])"
    rf"|([0-9.,{_GAP}]*[0-9.]){_BLANK}(?:{_CURRENCY}|%)){_BLANK}$"
)
_MARK = "="  # before the digits of a cell with a currency
_POINT = (  # 1,234.5 and, with a currency, 1,234 and 5 and 5.25
    rf"{_MARK}[-+]?(?:[0-9]{{1,3}}(?:[,{_GAP}][0-9]{{3}})+(?:\.[0-9]*)?|[0-9]*\.[0-9]+|[0-9]+\.?)"
    r"|[-+]?[0-9]{1,3}(?:,[0-9]{3})+\.[0-9]+|[-+]?[0-9]{1,3}(?:,[0-9]{3}){2,}"
)
_COMMA = (  # 1.234,5 and, with a currency, 5,25
    rf"{_MARK}[-+]?(?:[0-9]{{1,3}}(?:[{_GAP}][0-9]{{3}})+,[0-9]+|[0-9]+,[0-9]{{1,2}}|0,[0-9]+"
    r"|[0-9]+,[0-9]{4,})"
    rf"|{_MARK}?[-+]?[0-9]{{1,3}}(?:\.[0-9]{{3}})+,[0-9]+"
    rf"|{_MARK}[-+]?[0-9]{{1,3}}(?:\.[0-9]{{3}}){{2,}}"
)
_SWAPPED = (  # what decimal = "," changes, besides DECIMAL_COMMA
    rf"{_MARK}[-+]?(?:[0-9]{{1,3}}(?:[.{_GAP}][0-9]{{3}})+(?:,[0-9]+)?|[0-9]+,[0-9]+)"
    r"|[-+]?[0-9]{1,3}(?:\.[0-9]{3})+,[0-9]+"
)
_EITHER = re.compile(rf"{_MARK}?[-+]?[0-9]{{1,3}},[0-9]{{3}}")


def _digits(text: str) -> str:
    """Return the SQL of a text without its currency, after a mark; other texts are unchanged."""
    return rf"regexp_replace({text}, {quote_literal(_MARKED)}, '{_MARK}\1\2\3\4')"


def cast_amount(text: str) -> str:
    """Return the SQL of an amount as DOUBLE; it is NULL for other texts."""
    digits = _digits(text)
    point = rf"regexp_replace({digits}, {quote_literal(f'[{_MARK},{_GAP}]')}, '', 'g')"
    comma = rf"regexp_replace({digits}, {quote_literal(f'[{_MARK}.{_GAP}]')}, '', 'g')"
    return (
        f"CASE WHEN regexp_full_match({digits}, {quote_literal(_POINT)}) "
        f"THEN TRY_CAST({point} AS DOUBLE) "
        f"WHEN regexp_full_match({digits}, {quote_literal(_COMMA)}) "
        f"THEN TRY_CAST(replace({comma}, ',', '.') AS DOUBLE) END"
    )


def is_swapped(text: str) -> str:
    """Return the SQL condition that ``decimal = ","`` changes the separators of an amount."""
    return f"regexp_full_match({_digits(text)}, {quote_literal(_SWAPPED)})"


def is_amount(cell: str) -> bool:
    """Return whether a cell is an amount, also one that ``decimal = ","`` reads only.

    >>> [is_amount(cell) for cell in ("$5", "45,50 €", "1,234.50", "1,234", "5")]
    [True, True, True, False, False]
    """
    return _is_point(cell) or _is_comma(cell)


def _plain(cell: str) -> str:
    match = re.fullmatch(_MARKED, cell)
    return cell if match is None else _MARK + "".join(group or "" for group in match.groups())


def _is_point(cell: str) -> bool:
    return re.fullmatch(_POINT, _plain(cell)) is not None


def _is_comma(cell: str) -> bool:
    return re.fullmatch(_COMMA, _plain(cell)) is not None


def decimal_evidence(cells: Sequence[str]) -> tuple[str | None, str | None, str | None]:
    """Return the first amounts with a decimal point, a decimal comma, and one that may be either.

    >>> decimal_evidence(["$5", "$1,234", "45,50 €"])
    (None, '45,50 €', '$1,234')
    """
    point = comma = either = None
    for cell in cells:
        if _EITHER.fullmatch(_plain(cell)):
            either = either or cell
        elif _is_comma(cell):
            comma = comma or cell
        elif _is_point(cell) and re.search(r",.*[.,]|\.(?![0-9]{3}\D*$)", _plain(cell)):
            point = point or cell
    return point, comma, either
