"""``pmvge tune``: better settings, found on held-out links."""

from __future__ import annotations

import typer


def tune() -> None:
    """Placeholder."""
    raise typer.Exit
