"""Write a report of a model and its data to one HTML file that works offline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pmvge.errors import InputError, StorageError
from pmvge.model import PMvGE
from pmvge.pages import (
    Section,
    document,
    skipped_section,
)
from pmvge.report.opening import opening, summary
from pmvge.report.sections.details import details
from pmvge.report.sections.effects import effects
from pmvge.report.sections.explained import TITLE as EXPLAINED
from pmvge.report.sections.explained import explained
from pmvge.report.sections.links import calibration, distributions, examples
from pmvge.report.sections.scores import scores
from pmvge.report.sections.space import space
from pmvge.report.sections.training import training
from pmvge.report.summary import PairData, evaluation_of, pair_data
from pmvge.storage import replace_file

__all__ = ["write_report"]
NO_LINKS = "the model was saved without its training links"
ORDER = (  # what people want to see first
    "space",
    "examples",
    "explained",
    "evaluation",
    "calibration",
    "distributions",
    "effects",
    "training",
    "details",
)


def write_report(
    path: str | Path,
    model: PMvGE,
    *,
    title: str | None = None,
    evaluation: Mapping[str, Any] | None = None,
    k: int = 5,
    seed: int = 0,
) -> Path:
    """Write a report of a fitted model to one HTML file, and return its path.

    The file contains everything and makes no network requests. The same model and seed give the
    same file. An existing file is replaced atomically. Sections that need links are left out if the
    model was saved without them. The map is coloured by the labels of the model
    (:meth:`PMvGE.label <pmvge.PMvGE.label>`).

    Parameters
    ----------
    path
        Path of the HTML file, in a folder that exists.
    model
        A fitted model.
    title
        Heading of the page.
    evaluation
        ``{"pairs": {"view,view": {metric: value}}, "overall": {metric: value}}``; by default
        :meth:`PMvGE.evaluate <pmvge.PMvGE.evaluate>` of the held-out links, with sampled queries
        for view pairs of more than 20 million entity pairs.
    k
        Number of partners in each retrieval example.
    seed
        Seed of the samples and of the map.

    Raises
    ------
    NotFitted
        If the model is not fitted.
    InputError
        If ``k`` or ``seed`` is invalid.
    StorageError
        If the file cannot be written.
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InputError(f"k: expected an integer >= 1, got {k!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InputError(f"seed: expected an integer >= 0, got {seed!r}")
    check_folder(Path(path))
    facts = model.describe()
    pairs = pair_data(model)
    results = evaluation_of(model) if evaluation is None else evaluation
    sections = [training(model), space(model, seed)]
    sections += _link_sections(model, facts, pairs, k, seed)
    sections += [scores(results, pairs)]
    sections += [section for section in [effects(facts)] if section is not None]
    sections += [details(facts)]
    page = document(
        title or "PMvGE",
        summary(facts),
        sorted(sections, key=lambda section: ORDER.index(section.anchor)),
        kind="Model report",
        tiles=_tiles(facts),
        opening=opening(facts, results),
    )
    path = Path(path)
    replace_file(path, lambda partial: partial.write_bytes(page.encode()))
    return path


def check_folder(path: Path) -> None:
    """Raise StorageError if the folder of a file does not exist: it may be a misspelt name."""
    if not path.parent.is_dir():
        raise StorageError(
            f"{path}: cannot be written: there is no folder {path.parent}; create it first"
        )


def _link_sections(
    model: PMvGE, facts: Mapping[str, Any], pairs: list[PairData], k: int, seed: int
) -> list[Section]:
    """Return the sections that need links."""
    if model.links_ is None:
        names = {
            "calibration": "Calibration",
            "distributions": "Degrees and similarities",
            "examples": "Examples",
            "explained": EXPLAINED,
        }
        return [skipped_section(anchor, name, NO_LINKS) for anchor, name in names.items()]
    return [
        calibration(pairs, facts, seed),
        distributions(pairs, model.view_names_, seed, model.similarity_.explain()),
        examples(model, pairs, k, seed),
        explained(model, pairs, seed),
    ]


def _counts(facts: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return the numbers of entities, training links and held-out links."""
    links = facts["links"].values()
    entities = sum(view["n"] for view in facts["views"].values())
    return entities, sum(p["links"] for p in links), sum(p["held_out"] for p in links)


def _tiles(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    entities, links, held = _counts(facts)
    tiles = [("views", f"{len(facts['views']):,}"), ("entities", f"{entities:,}")]
    if facts["links"]:
        tiles.append(("training links", f"{links:,}"))
    if held:
        tiles.append(("held-out links", f"{held:,}"))
    return [*tiles, ("dimensions", f"{facts['n_components']:,}")]
