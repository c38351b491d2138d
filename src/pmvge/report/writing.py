"""Write a report of a model and its data to one HTML file that works offline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pmvge.errors import InputError
from pmvge.model import Background, PMvGE
from pmvge.pages import (
    Section,
    document,
    format_count,
    format_duration,
    format_number,
    skipped_section,
)
from pmvge.report.sections.details import details
from pmvge.report.sections.links import calibration, distributions, examples
from pmvge.report.sections.scores import scores
from pmvge.report.sections.space import space
from pmvge.report.sections.training import training
from pmvge.report.summary import PairData, check_model, evaluation_of, pair_data
from pmvge.storage import replace_file

__all__ = ["write_report"]
NO_LINKS = "the report was written without the training links"


def write_report(
    path: str | Path,
    model: PMvGE,
    background: Background | None = None,
    *,
    title: str | None = None,
    evaluation: Mapping[str, Any] | None = None,
    k: int = 5,
    seed: int = 0,
) -> Path:
    """Write a report of a fitted model to one HTML file, and return its path.

    The file contains everything and makes no network requests. The same model, background and
    seed give the same file. An existing file is replaced atomically.

    Parameters
    ----------
    path
        Path of the HTML file. Missing folders are created.
    model
        A fitted model.
    background
        Links and labels of the training data. Without it, sections that need links are left out.
    title
        Heading of the page.
    evaluation
        ``{"pairs": {"view,view": {metric: value}}, "overall": {metric: value}}``; by default
        computed from the held-out links of the background.
    k
        Number of partners in each retrieval example.
    seed
        Seed of the samples and of the map.

    Raises
    ------
    NotFitted
        If the model is not fitted.
    InputError
        If ``k`` or ``seed`` is invalid, or the background does not match the model.
    StorageError
        If the file cannot be written.
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InputError(f"k: expected an integer >= 1, got {k!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InputError(f"seed: expected an integer >= 0, got {seed!r}")
    check_model(model, background)
    pairs = pair_data(model, background) if background else []
    results = evaluation
    if results is None and background is not None:
        results = evaluation_of(model, background)
    sections = [training(model), space(model, background, seed)]
    sections += _link_sections(model, background, pairs, k, seed)
    sections += [scores(results, pairs), details(model, background)]
    page = document(
        title or "PMvGE",
        _summary(model, background),
        sections,
        kind="Model report",
        tiles=_tiles(model, background, results),
    )
    path = Path(path)
    replace_file(path, lambda partial: partial.write_bytes(page.encode()))
    return path


def _link_sections(
    model: PMvGE, background: Background | None, pairs: list[PairData], k: int, seed: int
) -> list[Section]:
    """Return the sections that need links."""
    if background is None:
        names = {
            "calibration": "Calibration",
            "distributions": "Degrees and similarities",
            "examples": "Retrieval examples",
        }
        return [skipped_section(anchor, name, NO_LINKS) for anchor, name in names.items()]
    return [
        calibration(pairs, seed),
        distributions(pairs, model.view_names_, seed),
        examples(model, background, pairs, k, seed),
    ]


def _counts(model: PMvGE, background: Background | None) -> tuple[int, int, int]:
    """Return the numbers of entities, training links and held-out links."""
    links = background.links.values() if background else ()
    held = background.held_out.values() if background else ()
    return sum(map(len, model.ids_.values())), sum(map(len, links)), sum(map(len, held))


def _summary(model: PMvGE, background: Background | None) -> str:
    entities, links, held = _counts(model, background)
    views = format_count(len(model.view_names_), "view")
    parts = [f"{format_count(entities, 'entity')} in {views}"]
    pairs = format_count(len(model.alpha_error_), "view pair")
    if background:
        parts.append(f"{format_count(links, 'training link')} in {pairs}")
        if held:
            parts.append(f"{format_count(held, 'held-out link')}")
    else:
        parts.append(f"links in {pairs}")
    sentence = f"{', '.join(parts[:-1])} and {parts[-1]}."
    sentence += f" Vectors have {format_count(model.n_components, 'dimension')}."
    if len(model.history_):
        sentence += f" Training took {format_duration(model.history_[-1].seconds)}."
    return sentence


def _tiles(
    model: PMvGE, background: Background | None, results: Mapping[str, Any] | None
) -> list[tuple[str, str]]:
    entities, links, held = _counts(model, background)
    tiles = [("views", f"{len(model.view_names_):,}"), ("entities", f"{entities:,}")]
    if background:
        tiles.append(("training links", f"{links:,}"))
    if held:
        tiles.append(("held-out links", f"{held:,}"))
    tiles.append(("dimensions", f"{model.n_components:,}"))
    if len(model.history_):
        tiles.append(("training time", format_duration(model.history_[-1].seconds)))
    overall = (results or {}).get("overall") or {}
    if "roc_auc" in overall:
        tiles.append(("held-out AUC", format_number(overall["roc_auc"])))
    elif model.history_.best:
        tiles.append(("validation gain", format_number(model.history_.best.validation)))
    return tiles
