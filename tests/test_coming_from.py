"""The code on the page for users of other libraries runs: theirs, where installed, and ours.

`make` installs all libraries but mmvec; without a C compiler LightFM is missing.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # of the libraries

PAGE = (Path(__file__).parents[1] / "docs" / "coming-from.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))
LIBRARIES = {
    "LightFM": "lightfm",
    "implicit": "implicit",
    "cca-zoo": "cca_zoo",
    "PyTorch Geometric": "torch_geometric",
    "mmvec": "biom",  # mmvec itself is not installed; its tables are
}


def code(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


@cache
def run(*blocks: str) -> dict[str, Any]:
    (setup,) = code(PAGE[: PAGE.index("\n## ")])
    names: dict[str, Any] = {}
    for block in (setup, *blocks):
        exec(block, names)
    return names


def auc(names: dict[str, Any], scores: Any) -> float:
    """Return the AUC of held-out links among pairs that are not in training."""
    pairs = names["train"].toarray() == 0
    return float(roc_auc_score(names["held_out"][pairs], np.asarray(scores)[pairs]))


def test_the_sections_are_those_of_the_issue() -> None:
    assert list(SECTIONS) == list(LIBRARIES)


@pytest.mark.parametrize("section", ["LightFM", "implicit", "PyTorch Geometric"])
def test_both_find_held_out_links(section) -> None:
    pytest.importorskip(LIBRARIES[section], reason="needs an extra: bench or interop")
    names = run(*code(SECTIONS[section]))
    theirs, ours = auc(names, names["their_scores"]), auc(names, names["our_scores"])
    assert theirs > 0.65  # their code is used as it is meant
    assert ours > 0.75


def test_identities_are_known_and_excluded() -> None:
    names = run(code(SECTIONS["LightFM"])[1])
    known = set(np.flatnonzero(names["train"].toarray()[0]))
    assert known.isdisjoint(int(film[1:]) for film in names["best"][0])
    assert names["our_scores"].sum() == pytest.approx(names["train"].sum(), rel=1e-3)


def test_cca() -> None:
    pytest.importorskip("cca_zoo", reason="needs the extra baselines")
    theirs, ours = code(SECTIONS["cca-zoo"])
    names = run(theirs)
    assert min(np.corrcoef(names["a"][:, k], names["b"][:, k])[0, 1] for k in range(2)) > 0.5
    names = run(ours)
    assert (names["found"][:, 0] == np.arange(100)).mean() > 0.2  # chance is 0.01


def test_pyg_keeps_the_graph() -> None:
    pytest.importorskip("torch_geometric", reason="needs the extra interop")
    names = run(*code(SECTIONS["PyTorch Geometric"]))
    (edges,) = (store.edge_index for store in names["back"].edge_stores)
    found = np.zeros((200, 100))
    rows, columns = (edges if edges[0].max() >= 100 else edges.flip(0)).numpy()
    found[rows, columns] = 1
    np.testing.assert_array_equal(found, names["train"].toarray())


def test_microbes() -> None:
    pytest.importorskip("biom", reason="needs the extra interop")
    (ours,) = code(SECTIONS["mmvec"])
    names = run(ours)
    assert names["best"].shape == (1, 5)
    # A microbe and its best metabolites occur in the same samples.
    one, others = (names[key].astype(float) for key in ("microbe_counts", "metabolite_counts"))
    related = (others - others.mean(0)).T @ (one - one.mean(0))[:, names["common"]]
    best = [int(name[1:]) for name in names["best"][0]]
    assert related[best].mean() > related.mean()
    # The metabolites of a sample are found from its microbes.
    found = [int(name[1:]) for name in names["metabolites"][0]]
    assert others[0, found].mean() > 2 * others[0].mean()
