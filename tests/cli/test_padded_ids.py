"""With normalize_ids, every command takes ids with and without padding, as a whole."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pmvge import Embeddings, PMvGE
from pmvge.errors import InputError
from pmvge.tables import read_rows

QUICK = ("--set", "max_steps=5", "--set", "n_components=4", "--set", "patience=null")


@pytest.fixture(scope="module", params=["numbers", "texts"])
def folder(run, request, tmp_path_factory) -> Path:
    """A model whose films have padded ids: numbers only, or with a text among them."""
    folder = tmp_path_factory.mktemp("padded")
    rng = np.random.default_rng(0)
    films = [f"{k:03d}" for k in range(1, 21)]
    if request.param == "texts":
        films[-1] = "x20"
    users = [f"u{k}" for k in range(15)]
    pd.DataFrame({"film_id": films, "year": rng.integers(1950, 2020, 20)}).to_csv(
        folder / "films.csv", index=False
    )
    pairs = rng.choice(15 * 20, 120, replace=False)
    seen = pd.DataFrame(
        {"user_id": [users[p // 20] for p in pairs], "film_id": [films[p % 20] for p in pairs]}
    )
    seen[:100].to_csv(folder / "seen.csv", index=False)
    # Later tables have other padding: 7, " 7 ", 7.0.
    later = seen[100:].assign(film_id=[f" {film.lstrip('0')} " for film in seen.film_id[100:]])
    later.to_csv(folder / "later.csv", index=False)
    pd.DataFrame(
        {"film_id": ["7.0", "00009", "x98", "x99"], "year": [1990, 2000, 2010, 2015]}
    ).to_csv(folder / "some.csv", index=False)
    views = ("--view", f"films={folder / 'films.csv'}:id=film_id:normalize_ids=true")
    links = ("--links", f"user,films={folder / 'seen.csv'}:columns=user_id,film_id")
    run("fit", *views, *links, "-o", folder / "model", *QUICK)
    return folder


@pytest.mark.parametrize("given", ["7", "007", " 7", "7.0"])
def test_search_by_id(run, folder, given) -> None:
    asked = ("search", folder / "model", "--view", "films", "--among", "user", "--json", "--id")
    assert (
        json.loads(run(*asked, given).out)["results"] == json.loads(run(*asked, "7").out)["results"]
    )


def test_search_says_when_an_id_is_unknown(run, folder) -> None:
    asked = ("search", folder / "model", "--view", "films", "--among", "user", "--id", "0099")
    with pytest.raises(InputError, match="'0099' is not among the 20 ids of 'films'"):
        run(*asked)


def test_search_among_allowed_ids(run, folder) -> None:
    asked = ("search", folder / "model", "--view", "user", "--id", "u1", "--among", "films")
    (folder / "allowed.txt").write_text("007\n9.0\n 4\n")
    found = json.loads(run(*asked, "--allow", folder / "allowed.txt", "--json").out)
    partners = {str(each["id"]) for each in found["results"][0]["partners"]}
    assert partners == {"7", "9", "4"}


@pytest.mark.parametrize("given", ["007", "7.0"])
def test_explain(run, folder, given) -> None:
    asked = ("explain", folder / "model", "user", "u1", "films")
    found, wanted = (json.loads(run(*asked, each, "--json").out) for each in (given, "7"))
    assert found == wanted


def test_explain_a_row_of_a_table(run, folder) -> None:
    asked = ("explain", folder / "model", "user", "u1", "films", "07", "--json")
    found = json.loads(run(*asked, "--other-rows", folder / "some.csv").out)
    assert str(found["partner"]) == "7"


def test_embed_knows_padded_ids(run, folder) -> None:
    out = folder / "vectors.parquet"
    run("embed", folder / "model", "--view", "films", folder / "some.csv", "-o", out)
    vectors, model = Embeddings.load(out), PMvGE.load(folder / "model")
    wanted = model.ids_["films"][:0].dtype.type
    assert [str(name) for name in vectors.ids] == ["7", "9", "x98", "x99"]
    rows = np.array(["7", "9"]) if wanted is np.str_ else np.array([7, 9])
    X = next(row for _, row in read_rows(model.tables_, "films", str(folder / "some.csv")))
    np.testing.assert_allclose(
        vectors.vectors[:2], model.embed("films", X[:2], ids=rows), atol=1e-6
    )
    assert not np.allclose(vectors.vectors[:2], model.embed("films", X[:2]), atol=1e-4)  # new ones


def test_evaluate_counts_all_padded_links(run, folder) -> None:
    scores = run("evaluate", folder / "model", "--links", folder / "later.csv", "--json")
    assert json.loads(scores.out)["pairs"]["user,films"]["links"] == 20
    assert "dropped" not in scores.err
