"""Names of entities: stored with a model, and found by ``PMvGE.find``."""

import copy

import numpy as np
import pandas as pd
import pytest

from pmvge import MultiViewGraph, PMvGE
from pmvge.errors import InputError

TITLES = ["Alien", "Heat", "heat", "Solaris", "Solaris", "7"]


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    graph = MultiViewGraph(
        {"user": 5, "film": 6},
        {("user", "film"): rng.poisson(1.0, size=(5, 6))},
        ids={"film": [7, 3, 9, 1, 4, 100], "user": ["ann", "bob", "cy", "dan", "eve"]},
    )
    fitted = PMvGE(2, max_steps=2, random_state=0, progress=False).fit(graph)
    texts = {"film": {"title": TITLES, "year": ["1979"] * 6}}
    return fitted.label({"user": {"town": list("xyxyx")}}, columns=texts, names={"film": "title"})


@pytest.fixture(scope="module", params=["fitted", "loaded"])
def either(request, model, tmp_path_factory):
    if request.param == "fitted":
        return model
    folder = tmp_path_factory.mktemp("names")
    model.save(folder)
    return PMvGE.load(folder)


def test_names_and_columns_are_kept(either):
    assert either.names_["film"].tolist() == TITLES
    assert set(either.names_) == {"film"}
    assert either.columns_["film"]["year"].tolist() == ["1979"] * 6
    assert either.labels_["user"]["town"].tolist() == list("xyxyx")
    assert either.describe()["views"]["film"]["name"] == "title"


MISSING = {
    "texts": (["ann", None, float("nan"), pd.NA, "nan"], ["ann", "", "", "", "nan"]),
    "without None": (["ann", float("nan"), "b", "c", "d"], ["ann", "", "b", "c", "d"]),
    "numbers": (np.array([0.1, np.nan, 2, 3, 4], np.float32), ["0.1", "", "2.0", "3.0", "4.0"]),
    "categories": (pd.Categorical(["x", None, "y", "x", "x"]), ["x", "", "y", "x", "x"]),
    "strings": (pd.Series(["x", None, "y", "x", "x"], dtype="string"), ["x", "", "y", "x", "x"]),
    "days": (
        np.array(["2020-01-01", "NaT", "2020-01-02", "2020-01-03", "2020-01-04"], "M8[D]"),
        ["2020-01-01", "", "2020-01-02", "2020-01-03", "2020-01-04"],
    ),
}


@pytest.mark.parametrize("case", MISSING)
def test_missing_labels_are_empty(model, case):
    values, expected = MISSING[case]
    named = copy.copy(model).label({"user": {"town": values}}, names={"user": "town"})
    assert named.labels_["user"]["town"].tolist() == expected
    assert named.names_["user"].tolist() == expected


@pytest.mark.parametrize(
    ("text", "id_"),
    [
        ("Alien", 7),
        ("alien", 7),
        ("9", 9),
        (9, 9),
        ("heat", 9),
        ("Heat", 3),
        ("7", 7),
        ("100", 100),
    ],
)
def test_an_id_comes_first_then_an_equal_name_then_one_in_another_case(either, text, id_):
    assert either.find("film", text).tolist() == [id_]


def test_several_texts_and_views_without_names(either):
    assert either.find("film", ["Alien", "1"]).tolist() == [7, 1]
    assert either.find("user", "eve").tolist() == ["eve"]


@pytest.mark.parametrize(
    ("view", "text", "says"),
    [
        ("film", "Solaris", "film: 2 entities are named 'Solaris': expected an id, one of 1, 4"),
        ("film", "HEAT", "film: 2 entities are named 'HEAT': expected an id, one of 3, 9"),
        ("film", "Aliens", r"similar: 'Alien' \(7\)"),
        ("film", "lie", r"similar: 'Alien' \(7\)"),
        ("film", "101", r"'101' is not among the 6 ids and names of 'film'; similar: '7' \(100\)"),
        ("film", "qqq", r"of 'film', such as 'Alien' \(7\), 'Heat' \(3\), 'heat' \(9\)"),
        ("user", "evee", "'evee' is not among the 5 ids of 'user'; similar: 'eve'"),
        ("user", "Alien", "not among the 5 ids of 'user', such as 'ann', 'bob', 'cy'"),
        ("films", "Alien", "unknown view 'films'"),
    ],
)
def test_unknown_and_ambiguous_texts_are_errors(either, view, text, says):
    with pytest.raises(InputError, match=says):
        either.find(view, text)


def test_of_equally_similar_ids_those_with_the_same_beginning_come_first():
    ids = [f"f{n:05}" for n in range(300)]
    model = PMvGE(2, max_steps=1, random_state=0, progress=False)
    model.fit(MultiViewGraph({"a": 300}, {("a", "a"): ([0, 1], [1, 2])}, {"a": ids}))
    with pytest.raises(InputError, match="similar: 'f00120', 'f00121', 'f00122', 'f00123', 'f001"):
        model.find("a", "f0012")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"names": {"film": "titel"}},
            "names of 'film': unknown column 'titel'.*did you mean 'tit",
        ),
        ({"names": {"films": "title"}}, "names: unknown view 'films'"),
        ({"columns": {"film": {"a": ["x"]}}}, r"columns 'a' of view 'film': expected 6 values"),
    ],
)
def test_invalid_names_are_errors(model, given, says):
    with pytest.raises(InputError, match=says):
        model.label(**given)


def test_a_label_can_hold_the_names(model):
    other = PMvGE(2, max_steps=1, random_state=0, progress=False)
    other.fit(MultiViewGraph({"a": 3}, {("a", "a"): ([0, 1], [1, 2])}))
    other.label({"a": {"word": ["x", "y", "z"]}}, names={"a": "word"})
    assert other.find("a", "z").tolist() == [2]
