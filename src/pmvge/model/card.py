"""The model card: what a model was fitted to, how well it predicts, and its limits, in Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pmvge.errors import truncate
from pmvge.model.describe import setting_text
from pmvge.storage import replace_file
from pmvge.version import __version__

FILE = "model_card.md"  # beside model.json; not part of the model, so that it can be edited
MAX_PAIRS = 10**6  # entity pairs that scores are computed from; more are sampled
SCORES = {
    "roc_auc": "AUC",
    "average_precision": "AP",
    "recall@10": "recall@10",
    "ndcg@10": "nDCG@10",
}
RIVALS = {"features only": "features_only", "popularity list": "popularity"}


def write_card(folder: Path, text: str) -> None:
    """Write the model card into the folder of a model; raise StorageError if that fails."""
    replace_file(folder / FILE, lambda path: path.write_text(text, encoding="utf-8"))


def card_text(
    facts: Mapping[str, Any],
    results: Mapping[str, Any] | None,
    *,
    early_stopping: bool,
    links: bool,
) -> str:
    """Return the model card, from a model's description and the scores of its held-out links.

    ``early_stopping`` says whether the held-out links were used in training, and ``links`` whether
    the links are saved with the model.
    """
    sections = [
        _summary(facts),
        "## Data\n\n" + _data(facts),
        "## Scores\n\n" + _scores(results, early_stopping),
        "## Settings\n\n" + _settings(facts),
        "## Limits\n\n" + _limits(facts, results, links),
        "## Use\n\n" + _use(facts),
    ]
    return "\n\n".join(sections) + "\n"


def _text(value: object, max_length: int = 80) -> str:
    """Return user-defined text as one short line in which nothing is markup."""
    line = truncate(" ".join(str(value).split()), max_length)
    line = line.encode("utf-8", "replace").decode()
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]|#~$])", r"\\\1", line)


def _code(value: object) -> str:
    """Return user-defined text as code; backticks are replaced."""
    return f"`{truncate(' '.join(str(value).split()), 80).replace('`', chr(39))}`"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _pair(pair: Sequence[str]) -> str:
    return " – ".join(map(_text, pair))


def _summary(facts: Mapping[str, Any]) -> str:
    views = facts["views"]
    entities = sum(view["n"] for view in views.values())
    return (
        "# Model card\n\n"
        f"A multi-view graph embedding (PMvGE): vectors of {facts['n_components']:,} numbers for "
        f"{entities:,} entities of {len(views):,} views, {', '.join(map(_text, views))}. It "
        "predicts the expected weight of links between them. Written by pmvge "
        f"{__version__}; this file is not read when the model is loaded, and can be edited."
    )


def _data(facts: Mapping[str, Any]) -> str:
    views = [
        [
            _text(view),
            f"{entry['n']:,}",
            entry["features"],
            _text(entry["encoder"]),
            _text(", ".join(entry["labels"])) or "–",
        ]
        for view, entry in facts["views"].items()
    ]
    text = _table(["view", "entities", "features", "encoder", "labels"], views)
    links = [
        [
            _pair(facts["alpha"][key]["pair"]),
            f"{part['links']:,}",
            f"{part['weight']:,.6g}",
            f"{part['held_out']:,}",
        ]
        for key, part in facts["links"].items()
    ]
    if not links:
        pairs = ", ".join(_pair(entry["pair"]) for entry in facts["alpha"].values())
        return (
            f"{text}\n\nView pairs with links: {pairs or 'none'}. The model has no training links."
        )
    return f"{text}\n\n{_table(['view pair', 'training links', 'weight', 'held-out links'], links)}"


def _scores(results: Mapping[str, Any] | None, early_stopping: bool) -> str:
    if not results or not results["pairs"]:
        return "There are no held-out links to score the model with."
    pairs, rows = results["pairs"], []
    for key, own in pairs.items():
        columns = [name for name in SCORES if name in own]
        rows.append([f"**{_text(key)}**", *(f"{own[name]:.3f}" for name in columns)])
        for title, rival in RIVALS.items():
            if values := (results.get(rival) or {"pairs": {}})["pairs"].get(key):
                rows.append([title, *(f"{values[name]:.3f}" for name in columns)])
    text = _table(["view pair", *(SCORES[name] for name in columns)], rows)
    sampled = any("sampled_queries" in own for own in pairs.values())
    notes = [
        "Held-out links among all pairs without a training link. Features only leaves out what the "
        "model learned of each known entity, as for new ones; the popularity list ranks partners "
        "by their total weight."
    ]
    notes += ["Scores are estimated on a sample of the queries."] * sampled
    notes += ["The held-out links were also used for early stopping."] * early_stopping
    return f"{text}\n\n{' '.join(notes)}"


def _settings(facts: Mapping[str, Any]) -> str:
    trained, changed = facts["training"], facts["changed_settings"]
    lines = [f"similarity {_code(facts['similarity'])}, family {_code(facts['family'])}"]
    lines += [f"{trained['steps']:,} steps in {trained['seconds']:.0f} s, seed {trained['seed']}"]
    lines += [f"{name} = {_code(setting_text(name, value))}" for name, value in changed.items()]
    return "\n".join(f"- {line}" for line in lines)


def _limits(facts: Mapping[str, Any], results: Mapping[str, Any] | None, links: bool) -> str:
    views = facts["views"]
    featureless = [view for view, entry in views.items() if entry["features"] == "none"]
    lines = [_text(text, 500) for text in (results or {}).get("warnings", ())]
    lines += ["New entities have no effects of their own: they are predicted from features alone."]
    if featureless:
        names = ", ".join(map(_text, featureless))
        lines.append(f"New entities of {names} have no features: they need first links (fold_in).")
    missing = [
        f"{_pair(facts['alpha'][key]['pair'])} ({', '.join(open_)})"
        for key, kinds in facts["calibrated"].items()
        if (open_ := [kind for kind, entry in kinds.items() if entry is None])
    ]
    if missing:
        lines.append(
            "Expected weights of new entities are not calibrated and can be wrong by a factor; "
            f"rankings are valid: {'; '.join(missing)}."
        )
    lines += [
        "The model repeats what was recorded: entities that were shown more often have more links, "
        "and a missing link is no proof of a lack of interest. It says nothing about causes.",
        "The folder has the ids of all entities"
        + (" and the training links" if links else "")
        + ": treat it like the data.",
    ]
    return "\n".join(f"- {line}" for line in lines)


def _use(facts: Mapping[str, Any]) -> str:
    pair = next((entry["pair"] for entry in facts["alpha"].values()), None)
    lines = ["from pmvge import PMvGE", "", 'model = PMvGE.load("FOLDER")']
    if pair is not None:
        a, b = (truncate(repr(view), 80).replace("`", "'") for view in pair)
        lines.append(f"ids, weights = model.search({a}, among={b}, k=10)")
    code = "\n".join(lines)
    return f"```python\n{code}\n```\n\nOr: `pmvge search FOLDER --help`, `pmvge report FOLDER`."
