"""Amounts of money and numbers with thousands separators as features, weights and new rows."""

import math

import pytest

from pmvge.errors import TableError
from pmvge.tables import (
    LinkTable,
    Project,
    Source,
    ViewTable,
    read_tables,
    rows_of,
    rows_of_records,
    sketch_project,
)
from pmvge.tables.sources.dialect import Dialect

AMOUNTS = {
    "$83.99": 83.99,
    "45,50 €": 45.5,
    "€2,589": 2589,
    "€ 2.589,50": 2589.5,
    "1,234,567": 1234567,
    "1,234.5": 1234.5,
    "1.234,5": 1234.5,
    "-$5": -5,
    "$-5.00": -5,
    "USD 12": 12,
    "12.5 EUR": 12.5,
    "US$ 1,000": 1000,
    "1 234,50 €": 1234.5,
    "1\u00a0234 kr": 1234,
    "CHF 1'234.50": 1234.5,
    "₹12,345.00": 12345,
    "£.50": 0.5,
    "12.5 %": 12.5,
    "2.589 €": 2.589,
}
COMMAS = {"45,50 €": 45.5, "€2,589": 2.589, "2.589 €": 2589, "1.234.567 €": 1234567, "3,5": 3.5,
          "1.234,5": 1234.5, "$83.99": 83.99, "1 234,50 kr": 1234.5, "1.5": 1.5}  # fmt: skip
OTHERS = ["3,5", "1,234", "12 34", "$", "a 5 €", "5 € 6", "1,23,456.0", "1.234.567", "5 apples"]


def read(prices, decimal=".", **options):
    """Return the table of a view with these prices, without scaling, and its graph."""
    cells = {"id": [f"i{at:03d}" for at in range(len(prices))], "price": list(prices)}
    source = Source(frame=cells, dialect=Dialect(decimal=decimal))
    view = ViewTable(source, "id", {"price": "numeric"}, standardize=False, **options)
    links = LinkTable({"u": ["a"] * len(prices), "i": cells["id"]}, ("u", "i"))
    return read_tables(Project({"items": view, "u": ViewTable()}, {("u", "items"): links})).graph


@pytest.mark.parametrize(
    ("cells", "decimal"), [(AMOUNTS, "."), (COMMAS, ",")], ids=["dot", "comma"]
)
def test_amounts_are_numbers_in_training_and_in_new_rows(cells, decimal) -> None:
    graph = read(cells, decimal)
    wanted = pytest.approx(list(cells.values()))
    assert graph.views["items"][:, 0].tolist() == wanted
    frame = {"id": list(cells), "price": list(cells)}
    assert rows_of(graph.tables, "items", frame)[1][:, 0].tolist() == wanted
    records = [{"price": cell} for cell in cells]
    assert rows_of_records(graph.tables, "items", records)[1][:, 0].tolist() == wanted


@pytest.mark.parametrize("cell", OTHERS)
def test_other_cells_are_errors(cell) -> None:
    with pytest.raises(TableError, match="column 'price': expected numbers"):
        read(["$1.00", cell])


def test_plain_numbers_have_the_same_bits() -> None:
    cells = ["0.1", "1e-5", " 7 ", "3.", ".5", "-0", "1e400", "12345678901234567"]
    found = read(cells, on_error="missing").views["items"][:, 0]
    numbers = [float(cell) for cell in cells if math.isfinite(float(cell))]
    fill = sum(numbers) / len(numbers)
    numbers = [float(c) if math.isfinite(float(c)) else fill for c in cells]
    assert found.tolist() == pytest.approx(numbers, rel=1e-6)


@pytest.mark.parametrize("on_error", ["stop", "missing"])
def test_amounts_are_weights(on_error) -> None:
    links = {"u": ["a", "b", "c"], "i": ["x", "y", "z"], "w": ["$1.50", "2,000.50 USD", "3"]}
    table = LinkTable(links, ("u", "i"), "w", on_error=on_error)
    project = Project({"u": ViewTable(), "i": ViewTable()}, {("u", "i"): table})
    assert read_tables(project).graph.links["u", "i"].weights.tolist() == [1.5, 2000.5, 3.0]


def write(folder, price, amount) -> None:
    items = [f"i{n}\t{'rbg'[n % 3]}ed lamp {n % 9}\t{price(n)}" for n in range(60)]
    (folder / "items.csv").write_text("\n".join(["item_id\ttitle\tprice", *items]))
    rows = [f"u{n % 30}\ti{n * 7 % 60}\t{amount(n)}" for n in range(600)]
    (folder / "purchases.csv").write_text("\n".join(["user\titem_id\tamount", *rows]))


def test_init_guesses_amounts(tmp_path) -> None:
    write(tmp_path, lambda n: f"${n + 1},234.{n % 90 + 10}", lambda n: f"€{n % 7 + 1}.50")
    found = sketch_project(tmp_path)
    assert found.project.views["items"].features["price"].kind == "numeric"
    assert found.project.links["user", "items"].weight == "amount"
    assert not [note for note in found.notes if "price" in note]


def test_init_finds_decimal_commas_of_amounts(tmp_path) -> None:
    write(tmp_path, lambda n: f"{n % 5}.{n + 100},5{n % 5} €" if n % 2 else f"{n + 1}.000 €",
          lambda n: "1")  # fmt: skip
    found = sketch_project(tmp_path)
    view = found.project.views["items"]
    assert (view.features["price"].kind, view.source.dialect.decimal) == ("numeric", ",")
    assert "items.csv has numbers with a decimal comma" in found.notes


def test_init_says_that_a_comma_in_amounts_separates_thousands(tmp_path) -> None:
    write(tmp_path, lambda n: f"€{n + 1},{n + 100}", lambda n: "1")
    says = "items.csv: column 'price': '€1,100' is read as 1100; decimal = \",\" makes the comma"
    for answers, decimal, noted in (({}, ".", True), ({"items.csv:decimal": ","}, ",", False)):
        found = sketch_project(tmp_path, answers)
        view = found.project.views["items"]
        assert (view.features["price"].kind, view.source.dialect.decimal) == ("numeric", decimal)
        assert any(note.startswith(says) for note in found.notes) == noted


def test_init_says_how_a_mixed_column_is_read(tmp_path) -> None:
    write(tmp_path, lambda n: [f"${n}.99", f"{n},50 €", f"€2,{n + 100}"][n % 3], lambda n: "1")
    found = sketch_project(tmp_path)
    assert found.project.views["items"].features["price"].kind == "numeric"
    assert (
        "items.csv: column 'price' has decimal points and decimal commas: '1,50 €' is read as 1.50"
    ) in found.notes


def test_words_among_amounts_are_missing_values(tmp_path) -> None:
    write(tmp_path, lambda n: f"${n}.99" if n % 10 else "free", lambda n: "1")
    view = sketch_project(tmp_path).project.views["items"]
    assert (view.features["price"].kind, view.source.dialect.na_values) == ("numeric", ("free",))
