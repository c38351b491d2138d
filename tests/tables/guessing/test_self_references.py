"""Columns of integers that may refer to rows of their own table."""

import numpy as np
import pandas as pd
import pytest

from pmvge.tables import UnsureError, sketch_project


def save(folder, column) -> None:
    rng = np.random.default_rng(0)
    products = pd.DataFrame({"product_id": np.arange(101, 131), "price": rng.random(30)})
    orders = pd.DataFrame({"order_id": np.arange(1, 301), column: rng.integers(1, 61, 300)})
    orders["product_id"] = rng.integers(101, 131, 300)
    orders["quantity"] = rng.integers(1, 9, 300)
    products.to_csv(folder / "products.csv", index=False)
    orders.to_csv(folder / "orders.csv", index=False)


def test_small_integers_of_another_entity_are_a_question(tmp_path) -> None:
    save(tmp_path, "shop_id")
    with pytest.raises(UnsureError, match=r"whose ids does column 'shop_id' hold\?"):
        sketch_project(tmp_path)
    found = sketch_project(tmp_path, {"orders.csv:shop_id": "none"})
    assert ("orders", "orders") not in found.project.links
    found = sketch_project(tmp_path, {"orders.csv:shop_id": "orders"})
    assert ("orders", "orders") in found.project.links


@pytest.mark.parametrize("column", ["parent_id", "previousOrderId"])
def test_names_of_references_to_the_same_table(tmp_path, column) -> None:
    save(tmp_path, column)
    assert ("orders", "orders") in sketch_project(tmp_path).project.links
