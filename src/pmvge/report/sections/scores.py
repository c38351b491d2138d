"""The section with the scores of held-out links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pmvge.graph import pair_key
from pmvge.pages import (
    Section,
    escape_html,
    format_number,
    pair_name,
    skipped_section,
    table,
    user_text,
)
from pmvge.report.summary import PairData

EXPLAINED = {
    "links": "held-out links that were scored",
    "queries": "entities with held-out links",
    "sampled_queries": "queries that were sampled, where there are too many to use all",
    "pairs": "pairs of entities that were scored: all without a training link",
    "observed": "total weight of the held-out links",
    "in_training": "links of the evaluated table that were in training and are left out",
    "exposure": "expected held-out weight of a pair whose expected weight is 1",
    "roc_auc": "area under the ROC curve: probability that a held-out link has a larger expected "
    "weight than a pair without a link; 0.5 is random",
    "average_precision": "average precision: precision averaged over the ranks of the held-out "
    "links; 1 is best",
    "recall": "share of an entity’s held-out partners among its first {k}; 1 is best",
    "ndcg": "as recall, with more weight on the first ranks; 1 is best",
    "poisson_deviance": "deviation of observed from expected weights; lower is better",
    "deviance": "deviation of observed from expected weights; lower is better",
    "expected_over_observed": "total expected over total observed weight of the scored pairs; "
    "below 1 if each link is either in training or held out, because pairs with training links, "
    "which have the largest expected weights, are not scored",
    "held_out_score": "log-probability of what is held out, in nats per held-out link; higher is "
    "better, and comparable between families",
}
MAIN = ("roc_auc", "average_precision", "recall", "ndcg")  # in the first table
COUNTS = ("links", "queries", "sampled_queries", "pairs", "observed")  # alike for all rows
BESIDE = {"features only": "features_only", "popularity": "popularity"}  # rows, and their results
SHORT = {
    "roc_auc": "AUC",
    "average_precision": "AP",
    "ndcg": "nDCG",
    "poisson_deviance": "deviance",
    "expected_over_observed": "exp. / obs.",
    "sampled_queries": "sampled",
}


def scores(results: Mapping[str, Any] | None, pairs: Sequence[PairData]) -> Section:
    """Return the section with the scores of held-out links.

    The first table has how well links are ranked, and is narrow enough for a phone; the second one
    has all other numbers.
    """
    title = "Scores"
    if not results or not results.get("pairs"):
        return skipped_section("evaluation", title, "there are no held-out links")
    by_pair, total = results["pairs"], results.get("overall")
    columns = list(dict.fromkeys(name for row in by_pair.values() for name in row))
    columns.sort(key=_order)
    pair_names = {pair_key(part.pair): pair_name(part.pair) for part in pairs}

    main = [name for name in columns if name.partition("@")[0] in MAIN]
    others = [name for name in columns if name not in main]

    beside = {title: results[key] for title, key in BESIDE.items() if results.get(key)}
    lines = [
        ("", pair_names.get(name, user_text(name)), values, _rivals(beside, name))
        for name, values in by_pair.items()
    ]
    if total and len(by_pair) > 1:
        rivals = {title: part.get("overall") for title, part in beside.items()}
        lines.append(("total", "overall", total, rivals))
    tables = "".join(
        f'<div class="card">{_table(lines, part)}</div>' for part in (main, others) if part
    )
    explained = "".join(
        f"<dt>{escape_html(_short(name))}</dt><dd>{_explanation(name)}</dd>"
        for name in columns
        if _explanation(name)
    )
    lead = "Held-out links, compared with all pairs without a training link."
    for part in beside.values():
        if part["pairs"]:
            lead += f" {escape_html(part.get('meaning', ''), None)}"
    warnings = "".join(
        f'<p class="warning">{escape_html(text, None)}</p>' for text in results.get("warnings", ())
    )
    return Section(
        "evaluation",
        title,
        lead,
        f'{warnings}{tables}<dl class="explained">{explained}</dl>',
    )


def _table(
    lines: Sequence[tuple[str, str, Mapping[str, Any], Mapping[str, Any]]], columns: Sequence[str]
) -> str:
    """Return a table of some metrics; the lines are (row class, name, values, rivals)."""

    def row(name: str, values: Mapping[str, Any]) -> list[str]:
        return [name, *(escape_html(_value(c, values[c])) if c in values else "–" for c in columns)]

    rows, row_classes = [], []
    for row_class, name, values, rivals in lines:
        rows.append(row(name, values))
        row_classes.append(row_class)
        for rival_name, rival in rivals.items():
            shown = {c: v for c, v in (rival or {}).items() if c in columns and c not in COUNTS}
            if shown:
                rows.append(row(rival_name, shown))
                row_classes.append("rival")
    head = ["view pair", *(escape_html(_short(name)) for name in columns)]
    return table(head, rows, row_classes=row_classes)


def _rivals(beside: Mapping[str, Any], pair: str) -> dict[str, Any]:
    return {title: part["pairs"].get(pair) for title, part in beside.items()}


def _value(name: str, value: Any) -> str:
    """Return a value as text: shares with three decimals, others as :func:`format_number` does."""
    is_share = name.partition("@")[0] in ("roc_auc", "average_precision", "recall", "ndcg")
    if is_share and isinstance(value, float) and value == value:
        return f"{value:.3f}"
    return format_number(value)


def _short(name: str) -> str:
    base, at, k = name.partition("@")
    return SHORT.get(base, base.replace("_", " ")) + at + k


def _explanation(name: str) -> str:
    base, _, k = name.partition("@")
    return EXPLAINED.get(base, "").replace("{k}", escape_html(k))


def _order(name: str) -> int:
    base = name.partition("@")[0]
    return list(EXPLAINED).index(base) if base in EXPLAINED else len(EXPLAINED)
