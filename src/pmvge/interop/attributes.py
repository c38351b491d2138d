"""Check that nodes or edges have an attribute that was asked for by name."""

from __future__ import annotations

from collections.abc import Iterable

from pmvge.errors import GraphError, choose


def check_attribute(
    where: str,
    parameter: str,
    name: str | None,
    default: str,
    found: Iterable[Iterable[str]],
) -> None:
    """Raise GraphError, which starts with ``where``, if no node or edge has an attribute.

    ``found`` yields the attributes of each of them. None stands for no attribute, and the
    ``default`` may be missing: only a name that the caller chose must exist.
    """
    if name is None or name == default:
        return
    known = {key for keys in found for key in keys}
    choose("attribute", name, sorted(known, key=str), f"{where}: {parameter}", error=GraphError)
