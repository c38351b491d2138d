"""How well held-out links are foretold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pmvge.pages import Section, data, escaped, number, pair_name, skipped, table
from pmvge.report.summary import PairData

EXPLAINED = {
    "links": "held-out links that were judged",
    "queries": "entities that ask: those with held-out links",
    "sampled_queries": "entities that were drawn to ask, where all would be too many",
    "pairs": "pairs of entities that were judged: all that are not linked in training",
    "observed": "the weight of the held-out links",
    "exposure": "the held-out weight that is expected where the model expects 1",
    "roc_auc": "chance that a held-out link is expected more than a pair without one; 0.5 is luck",
    "average_precision": "precision, averaged over the ranks of the held-out links; 1 is best",
    "recall": "share of an entity’s held-out partners among its first {k}",
    "ndcg": "the same, counting more what comes first; 1 is best",
    "poisson_deviance": "how far expected weights are from observed ones; lower is better",
    "expected_over_observed": "total expected over total observed weight of the judged pairs; "
    "below 1 where a link is either trained on or held out: training takes the most expected ones",
}
SHORT = {
    "roc_auc": "ROC AUC",
    "average_precision": "avg. precision",
    "ndcg": "nDCG",
    "poisson_deviance": "deviance",
    "expected_over_observed": "exp. / obs.",
    "sampled_queries": "sampled",
}


def scores(results: Mapping[str, Any] | None, pairs: Sequence[PairData]) -> Section:
    """How well held-out links are foretold."""
    title = "Evaluation"
    if not results or not results.get("pairs"):
        return skipped("evaluation", title, "there are no held-out links to judge the model by")
    by_pair, total = results["pairs"], results.get("overall")
    columns = list(dict.fromkeys(name for row in by_pair.values() for name in row))
    columns.sort(key=_place)
    pair_names = {",".join(part.pair): pair_name(part.pair) for part in pairs}

    def row(name: str, values: Mapping[str, Any]) -> list[str]:
        return [name, *(escaped(_value(c, values[c])) if c in values else "–" for c in columns)]

    rows = [row(pair_names.get(name, data(name)), values) for name, values in by_pair.items()]
    if total:
        rows.append(row("overall", total))
    explained = "".join(
        f"<dt>{escaped(_short(name))}</dt><dd>{_explanation(name)}</dd>"
        for name in columns
        if _explanation(name)
    )
    head = ["view pair", *(escaped(_short(name)) for name in columns)]
    body = table(head, rows, last="total" if total else "")
    lead = "Links that training has not seen, against all pairs that are not linked in training."
    return Section(
        "evaluation",
        title,
        lead,
        f'<div class="card">{body}</div><dl class="explained">{explained}</dl>',
    )


def _value(name: str, value: Any) -> str:
    """Shares with three decimals, one below the other; all else as numbers are."""
    share = name.partition("@")[0] in ("roc_auc", "average_precision", "recall", "ndcg")
    return (
        f"{value:.3f}" if share and isinstance(value, float) and value == value else number(value)
    )


def _short(name: str) -> str:
    base, at, k = name.partition("@")
    return SHORT.get(base, base.replace("_", " ")) + at + k


def _explanation(name: str) -> str:
    base, _, k = name.partition("@")
    return EXPLAINED.get(base, "").replace("{k}", escaped(k))


def _place(name: str) -> int:
    base = name.partition("@")[0]
    return list(EXPLAINED).index(base) if base in EXPLAINED else len(EXPLAINED)
