"""A model and its data as one HTML file that opens offline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pmvge.errors import InputError
from pmvge.model import Background, PMvGE
from pmvge.pages import Section, count, document, duration, number, skipped
from pmvge.report.sections.details import details
from pmvge.report.sections.links import calibration, distributions, examples
from pmvge.report.sections.scores import scores
from pmvge.report.sections.space import space
from pmvge.report.sections.training import training
from pmvge.report.summary import PairData, check_model, evaluation_of, pair_data
from pmvge.storage import replace_file

__all__ = ["write_report"]
NO_LINKS = "the report was written without the links of the training"


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

    Everything is in the file: it needs no network, and asks for nothing. The same model,
    background and seed give the same file. It is replaced in one step: a reader sees the old
    report or the new one.

    Parameters
    ----------
    path
        Of the HTML file; its folder is made if it is not there.
    background
        Links and labels of the training. Without it there are no comparisons with links.
    title
        Heading of the page.
    evaluation
        ``{"pairs": {"view,view": {metric: value}}, "overall": {metric: value}}``; by default
        computed from the held-out links of the background.
    k
        Partners in each retrieval example.
    seed
        Of the samples that are drawn, and of the map.
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InputError(f"k must be a positive integer, got {k!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InputError(f"seed must be an integer, 0 or larger, got {seed!r}")
    check_model(model, background)
    pairs = pair_data(model, background) if background else []
    results = evaluation
    if results is None and background is not None:
        results = evaluation_of(model, background)
    parts = [training(model), space(model, background, seed)]
    parts += _compared(model, background, pairs, k, seed)
    parts += [scores(results, pairs), details(model, background)]
    page = document(
        title or "PMvGE", _sentence(model, background), _tiles(model, background, results), parts
    )
    place = Path(path)
    replace_file(place, lambda partial: partial.write_bytes(page.encode()))
    return place


def _compared(
    model: PMvGE, background: Background | None, pairs: list[PairData], k: int, seed: int
) -> list[Section]:
    """The sections that need links."""
    if background is None:
        names = {
            "calibration": "Calibration",
            "distributions": "Degrees and similarities",
            "examples": "Retrieval examples",
        }
        return [skipped(anchor, name, NO_LINKS) for anchor, name in names.items()]
    return [
        calibration(pairs, seed),
        distributions(pairs, model.view_names_, seed),
        examples(model, background, pairs, k, seed),
    ]


def _counts(model: PMvGE, background: Background | None) -> tuple[int, int, int]:
    """Entities, links of training, links held out."""
    links = background.links.values() if background else ()
    held = background.held_out.values() if background else ()
    return sum(map(len, model.ids_.values())), sum(map(len, links)), sum(map(len, held))


def _sentence(model: PMvGE, background: Background | None) -> str:
    entities, links, held = _counts(model, background)
    parts = [f"{count(entities, 'entity')} of {count(len(model.view_names_), 'view')}"]
    pairs = count(len(model.alpha_error_), "view pair")
    if background:
        parts.append(f"{count(links, 'link')} in {pairs}")
        if held:
            parts.append(f"{count(held, 'link')} held out")
    else:
        parts.append(f"links in {pairs}")
    dimensions = count(model.n_components, "dimension")
    trained = f", trained in {duration(model.history_[-1].seconds)}" if len(model.history_) else ""
    return f"{', '.join(parts[:-1])} and {parts[-1]}: one space of {dimensions}{trained}."


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
        tiles.append(("training time", duration(model.history_[-1].seconds)))
    overall = (results or {}).get("overall") or {}
    if "roc_auc" in overall:
        tiles.append(("held-out AUC", number(overall["roc_auc"])))
    elif model.history_.best:
        tiles.append(("validation gain", number(model.history_.best.validation)))
    return tiles
