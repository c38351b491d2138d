"""Columns of which most values cannot be read: messages with a query that converts them."""

import re

import pytest

from pmvge.errors import TableError
from pmvge.tables import LinkTable, Project, Source, ViewTable, read_tables


def read(folder, kind, source="items.csv", weight=None):
    links = LinkTable("links.csv", ("u", "i"), weight)
    view = ViewTable(source, "id", {"x": kind}, standardize=False)
    project = Project({"items": view, "u": ViewTable()}, {("u", "items"): links}, {}, folder)
    return read_tables(project).graph


def write(folder, cells) -> None:
    rows = [f"00{at},{cell}" for at, cell in enumerate(cells)]
    (folder / "items.csv").write_text("\n".join(["id,x", *rows]))
    rows = [f"u{at},00{at},{cell}" for at, cell in enumerate(cells)]
    (folder / "links.csv").write_text("\n".join(["u,i,w", *rows]))


def query_in(error) -> str:
    """Return the query in a message, on the file of the table."""
    return re.search(r'query = """(.*)"""', str(error.value))[1].replace("'FILE'", "'items.csv'")


@pytest.mark.parametrize(
    ("cells", "kind", "wanted"),
    [
        (["about 2.50", "about -3", "1"], "numeric", [2.5, -3, 1]),
        (["2/13/1970", "1/3/1970", "1/4/1970"], "date", [43, 2, 3]),
    ],
)
def test_most_values_are_converted_by_a_query(tmp_path, cells, kind, wanted) -> None:
    write(tmp_path, cells)
    with pytest.raises(TableError) as error:
        read(tmp_path, kind)
    assert "on_error" not in str(error.value)
    graph = read(tmp_path, kind, Source(query=query_in(error)))
    assert graph.views["items"][:, 0].tolist() == wanted
    assert graph.ids["items"].tolist() == ["000", "001", "002"]


def test_a_few_values_may_be_missing(tmp_path) -> None:
    write(tmp_path, ["about 2.50", "3", "1"])
    with pytest.raises(TableError, match=r'correct them, or set on_error = "missing"'):
        read(tmp_path, "numeric")


def test_dates_have_a_list_of_formats(tmp_path) -> None:
    write(tmp_path, ["1975-02-01", "2/13/1975", "1975-02-01"])
    formats = r"expected dates \(1975-02-01, 1975-02-01 13:45:00, 01.02.1975 or 01-Feb-1975\), but"
    with pytest.raises(TableError, match=formats):
        read(tmp_path, "date")


def test_most_weights_are_not_dropped(tmp_path) -> None:
    write(tmp_path, ["about 2", "about 3", "1"])
    with pytest.raises(TableError, match="weight column 'w': expected numbers, but 2 ar") as error:
        read(tmp_path, "category", weight="w")
    assert "on_error" not in str(error.value)
    assert 'AS "w"' in query_in(error)
    write(tmp_path, ["about 2", "3", "1"])
    with pytest.raises(TableError, match=r'or drop these rows with on_error = "missing"'):
        read(tmp_path, "category", weight="w")
