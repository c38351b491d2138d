"""A single table of transactions: the message names the two columns, and they can be chosen."""

import pytest

from pmvge.errors import TableError
from pmvge.tables import UnsureError, sketch_project


@pytest.fixture
def orders(tmp_path):
    rows = [
        f"O{n:05d},{'ab'[n % 2]}x,S{n % 40:03d},P{n * 7 % 150:03d},{n % 5 + 1},${n % 90}.50"
        for n in range(900)
    ]
    header = "order_id,status,shop,product,qty,total"
    (tmp_path / "orders.csv").write_text("\n".join([header, *rows]))
    return tmp_path


def test_the_message_names_the_two_most_likely_columns(orders) -> None:
    with pytest.raises(TableError, match="no link table found") as error:
        sketch_project(orders)
    assert str(error.value).endswith(
        "if a row links two entities, name their columns: --choose orders.csv:columns=shop,product"
    )


def test_columns_can_be_chosen(orders) -> None:
    project = sketch_project(orders, {"orders.csv:columns": "shop,product"}).project
    link = project.links["shop", "product"]
    assert (link.columns, link.weight) == (("shop", "product"), "qty")
    project = sketch_project(orders, {"orders.csv:columns": "status,shop"}).project
    assert list(project.links) == [("status", "shop")]
    with pytest.raises(TableError, match=r"--choose orders.csv:columns: no column 'shp'.*'shop'"):
        sketch_project(orders, {"orders.csv:columns": "shp,product"})
    with pytest.raises(TableError, match="columns: expected 2 columns of ids, got 'shop'"):
        sketch_project(orders, {"orders.csv:columns": "shop"})


def test_the_first_reading_has_no_id_of_the_rows(orders) -> None:
    with pytest.raises(UnsureError) as unsure:
        sketch_project(orders, {"orders.csv:as": "links"})
    assert next(iter(unsure.value.question.choices)) == "shop,product"


def test_columns_of_described_views_can_be_chosen(orders) -> None:
    shops = [f"S{n:03d},{n % 7}" for n in range(40)]
    (orders / "shops.csv").write_text("\n".join(["shop,size", *shops]))
    chosen = {"orders.csv:columns": "shop,product"}
    assert list(sketch_project(orders, chosen).project.links) == [("shops", "product")]
    products = [f"P{n:03d},{n % 7}" for n in range(150)]
    (orders / "products.csv").write_text("\n".join(["product,size", *products]))
    assert list(sketch_project(orders, chosen).project.links) == [("shops", "products")]
