"""A table of a folder, with what is guessed about it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from pmvge.tables.columns.id_casts import MAX_EXACT, ROUNDED
from pmvge.tables.guessing.matching import Column
from pmvge.tables.guessing.profile import Profile
from pmvge.tables.sources.source import Source


@dataclass(eq=False)
class Table:
    """A table of the folder, with its guessed id and foreign keys."""

    name: str
    source: Source
    raw: str
    types: Mapping[str, str]
    columns: Mapping[str, Profile]
    declared: Mapping[str, str]
    notes: tuple[str, ...] = ()  # on how its file is written
    key: str | None = None
    normalize_ids: bool = False  # whether other tables write its ids with other padding
    foreign: dict[str, str] = field(default_factory=dict)  # column -> table whose ids it holds

    def column(self, name: str) -> Column:
        """Return a column, for match rates."""
        return Column(self.name, name, self.raw, self.types)

    @property
    def rounded(self) -> dict[str, str]:
        """Columns of floating-point numbers so large that digits are lost, with a note on each."""
        return {
            column: f"{self.source}: column {column!r}: numbers up to {profile.maximum:.0f} are "
            f"{ROUNDED}"
            for column, profile in self.columns.items()
            if (profile.maximum or 0) > MAX_EXACT.get(self.types[column], math.inf)
        }
