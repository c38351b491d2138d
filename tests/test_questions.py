"""Each answer on the page of questions is run, and does what it says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pmvge import MultiViewGraph
from pmvge.errors import GraphError

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "questions.md").read_text()

pytestmark = pytest.mark.slow  # a fit, and the same again


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> dict[str, Any]:
    """Return the names that the code of the page defines."""
    folder = tmp_path_factory.mktemp("questions")
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    names: dict[str, Any] = {}
    exec(code.replace('"questions-model"', repr(str(folder / "model"))), names)
    return names


def test_there_are_twelve_questions() -> None:
    assert re.findall(r"^## (\d+)\.", PAGE, re.MULTILINE) == [str(k) for k in range(1, 13)]


def test_1_cold_start(page) -> None:
    at = [int(name[1:]) for name in page["best_users"][0]]
    assert (page["taste"][at] == 2).mean() > 0.7  # the film has genre 2
    assert (page["expected"] > 0).all()


def test_2_probabilities(page) -> None:
    assert page["mu"].sum() == pytest.approx(page["likes"].sum(), rel=1e-3)
    probability = page["probability"]
    assert ((probability > 0) & (probability < 1)).all()
    assert probability.sum() == pytest.approx(page["likes"].sum(), rel=0.2)


def test_3_nan(page) -> None:
    views = {"film": page["damaged"], "user": 120}
    with pytest.raises(GraphError, match="NaN"):
        MultiViewGraph(views, {("user", "film"): np.nonzero(page["likes"])})
    assert np.isfinite(page["repaired"]).all()
    assert page["repaired"].shape == (90, 7)


def test_4_seeds(page) -> None:
    for view, vectors in page["model"].embeddings_.items():
        assert vectors.tobytes() == page["again"].embeddings_[view].tobytes()


def test_5_popularity(page) -> None:
    assert "popularity" in page["results"]
    degrees = page["likes"].sum(axis=0)
    with_bias = np.corrcoef(page["mu"][0], degrees)[0, 1]
    by_taste = np.corrcoef(np.exp(page["by_taste"][0]), degrees)[0, 1]
    assert abs(by_taste) < with_bias


def test_6_several_positives(page) -> None:
    row, held = page["row"], page["model"].links_.held_out["user", "film"]
    assert row["links"] == len(held)
    assert row["queries"] < row["links"]


def test_7_weights(page) -> None:
    links = page["twice"].links["a", "b"].matrix().toarray()
    assert links.tolist() == [[0, 2], [3, 0]]


def test_8_sizes(page) -> None:
    shapes = {view: Y.shape for view, Y in page["vectors"].items()}
    assert shapes == {"user": (120, 8), "film": (90, 8), "word": (50, 8)}


def test_9_saving_and_search(page) -> None:
    assert page["nearest"].tolist() == page["exact"].tolist()
    assert page["index"].recall > 0.9
    assert len({*page["near"].tolist()} & {*page["exact"].tolist()}) >= 4
    for view, vectors in page["model"].embeddings_.items():
        assert np.array_equal(vectors, page["loaded"].embeddings_[view])


def test_10_slow_evaluation(page) -> None:
    assert page["sampled"]["sampled_queries"] < page["row"]["queries"]


def test_11_new_nodes(page) -> None:
    films = page["model"].embed("film", ids=page["graph"].ids["film"])
    scores = (page["newcomer"] @ films.T)[0]
    genre = page["genre"]
    assert scores[genre == 1].mean() > scores[genre != 1].mean()


def test_12_extras_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for name in set(extras) - {"bench", "dev", "docs"}:
        assert f"`{name}`" in PAGE, name
    named = PAGE[PAGE.index("## 12.") :]
    assert set(re.findall(r"`(\w+)` \(", named)) <= set(extras)
