"""Several categories in a cell: counts by a double loop, and new rows."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from pmvge.errors import TableError
from pmvge.tables import Feature, LinkTable, Notes, ViewTable, graph_from_frames, read_rows
from pmvge.tables.columns.category_encodings import Categories
from pmvge.tables.columns.fitting import fit_categories
from pmvge.tables.columns.recipe import Recipe
from pmvge.tables.columns.saved import read_recipe

CELLS = ["a|b|a", " b ", None, "c||d", "", "a | e"]


def counts(cells, values, separator):
    """Return the count of each value in each cell by a double loop."""
    X = np.zeros((len(cells), len(values)))
    for i, cell in enumerate(cells):
        for part in (cell or "").split(separator):
            if part.strip() in values:
                X[i, values.index(part.strip())] += 1
    return X


@pytest.mark.parametrize("separator", ["|", ";", ", ", " "])
def test_counts(separator) -> None:
    cells = [None if cell is None else cell.replace("|", separator) for cell in CELLS]
    array = pa.array(cells, pa.string())
    fitted = fit_categories("g", [array], Feature("categories", separator=separator))
    assert fitted.values == ("a", "b", "c", "d", "e")
    assert (fitted.rest, fitted.missing, fitted.width) == (False, True, 6)
    notes = Notes()
    X = fitted.encode({"g": array}, notes)
    split = None if separator == " " else separator.strip()
    np.testing.assert_array_equal(X[:, :5], counts(cells, list("abcde"), split))
    assert X[:, 5].tolist() == [0, 0, 1, 0, 1, 0]
    assert notes["g", "missing"] == 2


def test_lists_are_cells_too() -> None:
    texts = pa.array(["a|b", None, "", "b|b"])
    lists = pa.array([["a", "b"], None, [], ["b", "b"]], pa.list_(pa.string()))
    fitted = fit_categories("g", [lists], Feature("categories"))
    for cells in (texts, lists, lists.cast(pa.large_list(pa.string()))):
        found = fitted.encode({"g": cells}, Notes())
        assert found.tolist() == [[1, 1, 0], [0, 0, 1], [0, 0, 1], [0, 2, 0]]


def test_the_most_frequent_get_a_feature_and_the_others_share_one() -> None:
    cells = pa.array(["a|b", "a|c", "a|b|d"])
    fitted = fit_categories("g", [cells], Feature("categories", size=2))
    assert (fitted.values, fitted.rest, fitted.missing) == (("a", "b"), True, False)
    notes = Notes()
    assert fitted.encode({"g": pa.array(["c|d|x", "a"])}, notes).tolist() == [[0, 0, 3], [1, 0, 0]]
    assert notes["g", "unseen"] == 0
    exact = fit_categories("g", [cells], Feature("categories"))
    exact.encode({"g": pa.array(["c|x|y", "a"])}, notes)
    assert notes["g", "unseen"] == 2


def test_many_categories_are_sparse() -> None:
    cells = pa.array([f"v{n}|v{n + 1}" for n in range(300)])
    X = fit_categories("g", [cells], Feature("categories")).encode({"g": cells}, Notes())
    assert (X.shape, X.nnz, X.sum()) == ((300, 301), 600, 600)


def test_fitted_on_training_rows_saved_and_applied_to_new_ones() -> None:
    films = pd.DataFrame({"film": [1, 2, 3], "genres": ["war;love", "war", None]})
    seen = pd.DataFrame({"user": [1, 2, 3], "film": [1, 2, 3]})
    feature = {"kind": "categories", "separator": ";"}
    graph = graph_from_frames(
        {"film": ViewTable(films, "film", {"genres": feature}), "user": None},
        {("user", "film"): LinkTable(seen, ("user", "film"))},
    )
    assert graph.views["film"].tolist() == [[1, 1, 0], [0, 1, 0], [0, 0, 1]]
    plain = graph.tables["views"]["film"]["recipe"]
    assert Recipe.from_dict(plain).to_dict() == plain
    notes = Notes()
    new = pd.DataFrame({"film": [9], "genres": ["love;space;love"]})
    ((ids, X),) = read_rows(graph.tables, "film", new, notes=notes)
    assert (ids.tolist(), X.tolist()) == ([9], [[2, 0, 0]])
    assert notes["genres", "unseen"] == 1


def test_damaged_descriptions_are_refused() -> None:
    fitted = Categories(("g",), ("a",), False, False, "|")
    plain = Recipe("id", (fitted,), False).to_dict()
    assert read_recipe("v", plain).encodings == (fitted,)
    for key, value in (("separator", ""), ("separator", 3), ("values", ["a", "a"]), ("rest", 1)):
        damaged = {**plain, "blocks": [{**plain["blocks"][0], key: value}]}
        with pytest.raises(ValueError, match="invalid value"):
            read_recipe("v", damaged)


@pytest.mark.parametrize(
    "options",
    [{"kind": "category", "separator": "|"}, {"kind": "categories", "separator": ""}],
)
def test_separators_are_for_categories(options) -> None:
    with pytest.raises(TableError, match="separator: expected a text, with kind categories"):
        Feature.of("here", options)
