"""Tables of entities with an empty and a repeated id: the tables that refer to them show it."""

import pytest

from pmvge.errors import TableError
from pmvge.tables import UnsureError, read_tables, sketch_project

CATEGORIES = ("home", "office", "garden")


def write(path, header, rows) -> None:
    path.write_text("\n".join([header, *rows]) + "\n")


def products(titles, key="P-{:04d}".format) -> list[str]:
    """Return 150 products, one more row with the id of another, and one without an id."""
    rows = [f"{key(n)},{titles(n)},{CATEGORIES[n % 3]},{n % 40 + 0.5}" for n in range(150)]
    return [*rows, f"{key(3)},{titles(200)},home,1.5", f",{titles(201)},office,2.5"]


def write_shops(folder, key="P-{:04d}".format) -> None:
    write(folder / "shops.csv", "shop,city", [f"S{n:03d},{'abc'[n % 3]}x" for n in range(40)])
    orders = [f"S{n % 40:03d},{key(n * 7 % 150)},{n % 5 + 1}" for n in range(2000)]
    write(folder / "orders.csv", "shop,product,qty", orders)


@pytest.mark.parametrize("distinct_titles", [False, True])
@pytest.mark.parametrize("key", ["P-{:04d}".format, "{}".format], ids=["texts", "integers"])
def test_a_column_that_another_table_refers_to_is_the_id(tmp_path, distinct_titles, key) -> None:
    write_shops(tmp_path, key)
    titles = (lambda n: f"red lamp {n}") if distinct_titles else (lambda n: f"red lamp {n % 30}")
    write(tmp_path / "products.csv", "sku,title,category,price", products(titles, key))
    found = sketch_project(tmp_path)
    assert found.project.views["products"].id == "sku"
    assert found.project.links["shops", "products"].columns == ("shop", "product")
    (note,) = [note for note in found.notes if note.startswith("products.csv: id column 'sku'")]
    assert "1 of 152 ids are empty and 1 of 152 rows repeat an id" in note
    assert len(read_tables(found.project).graph.ids["products"]) == 150


def test_an_id_that_no_table_refers_to_is_offered(tmp_path) -> None:
    rows = products(lambda n: f"red lamp {n % 30}")
    write(tmp_path / "products.csv", "sku,title,category,price", rows)
    with pytest.raises(UnsureError) as unsure:
        sketch_project(tmp_path)
    assert (
        "if a row describes an entity, name its id: --choose products.csv:id=sku; choose a reading"
    ) in str(unsure.value)


def test_a_view_without_an_id_names_the_choice(tmp_path) -> None:
    rows = products(lambda n: f"red lamp {n % 30}")
    write(tmp_path / "products.csv", "sku,title,category,price", rows)
    with pytest.raises(TableError) as error:
        sketch_project(tmp_path, {"products.csv:as": "view"})
    assert str(error.value) == (
        "products.csv: no id column found: no column has a distinct value in every row; name it, "
        "such as --choose products.csv:id=sku"
    )


def test_a_table_that_refers_to_two_others_is_more_likely_links(tmp_path) -> None:
    write_shops(tmp_path)
    rows = [f"P-{n:04d},{n % 40 + 0.5}" for n in range(150)]
    write(tmp_path / "products.csv", "product,price", rows)
    rows = [f"O{n % 980},S{n % 40:03d},P-{n * 7 % 150:04d},{n % 5 + 1}" for n in range(1000)]
    write(tmp_path / "orders.csv", "order_id,shop,product,qty", rows)
    with pytest.raises(UnsureError, match="20 of 1,000 rows repeat an id") as unsure:
        sketch_project(tmp_path)
    assert list(unsure.value.question.choices) == ["links", "view"]
