"""``pmvge search``, ``embed`` and ``explain`` with first links of new rows (--links)."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pmvge import PMvGE
from pmvge.errors import InputError, ParameterError, TableError
from pmvge.search import Embeddings
from pmvge.tables import rows_of
from pmvge.tables.columns import recipe

FIRST = [
    ("u00100", "f00001", 5),
    ("u00100", "f00007", 2),
    ("u00103", "f00030", 4),
    ("u00103", "f00030", 1),  # added up
    ("u00119", "f00002", 3),
]
RATINGS = ("user_id", "film_id", "stars")


@pytest.fixture(scope="module")
def first(table, tmp_path_factory):
    return table(tmp_path_factory.mktemp("first") / "first.csv", RATINGS, FIRST)


@pytest.fixture
def new_users(films):
    return films / "later" / "new_users.csv"


@pytest.fixture(scope="module")
def expected(effects_model, films):
    """The model, the ids and features of new users, and their links in terms of Python."""
    model = PMvGE.load(effects_model)
    ids, X = rows_of(model.tables_, "users", films / "later" / "new_users.csv")
    rows = [ids.tolist().index(user) for user, _, _ in FIRST]
    return model, ids, X, {"films": (rows, [f for _, f, _ in FIRST], [s for _, _, s in FIRST])}


def partners(printed):
    content = json.loads(printed.out)["results"]
    return {
        result["id"]: [(p["id"], p["expected_weight"], p["known"]) for p in result["partners"]]
        for result in content
    }


def test_search_ranks_by_features_and_first_links(run, effects_model, first, new_users, expected):
    flags = ("--view", "users", "--rows", new_users, "--among", "films", "-k", 5, "--json")
    printed = run("search", effects_model, *flags, "--links", first)
    model, ids, X, links = expected
    best, mu = model.search("users", X, links=links, among="films", k=5)
    found = partners(printed)
    assert list(found) == ids.tolist()
    linked = {(user, film) for user, film, _ in FIRST}
    for row, name in enumerate(ids.tolist()):
        assert [p[0] for p in found[name]] == best[row].tolist()
        np.testing.assert_allclose([p[1] for p in found[name]], mu[row], rtol=1e-5)
        assert [p[2] for p in found[name]] == [(name, p[0]) in linked for p in found[name]]
    assert printed.err == (
        "note: view users: 0 known from training, 20 new, 3 of them with first links\n"
        "note: users,films: expected weights of new entities (new-known) are not calibrated and "
        "can be wrong by a factor; fit again with pmvge fit --calibrate (in Python: "
        "PMvGE.calibrate)\n"
    )
    without = partners(run("search", effects_model, *flags))
    changed = {name for name in found if found[name] != without[name]}
    assert changed == {"u00100", "u00103", "u00119"}


def test_first_links_are_known_partners(run, effects_model, first, new_users):
    flags = ("--view", "users", "--rows", new_users, "--among", "films", "-k", 60, "--json")
    found = partners(run("search", effects_model, *flags, "--links", first))
    left = partners(run("search", effects_model, *flags, "--links", first, "--exclude-known"))
    for name in found:
        assert left[name] == [partner for partner in found[name] if not partner[2]]
    assert len(left["u00100"]) == len(found["u00100"]) - 2


@pytest.mark.parametrize("batch", [2, 1000])
def test_explain_names_the_first_links(
    run, effects_model, first, new_users, expected, monkeypatch, batch
):
    monkeypatch.setattr(recipe, "BATCH", batch)
    given = ("explain", effects_model, "users", "u00103", "films", "f00007", "--rows", new_users)
    model, ids, X, links = expected
    row = ids.tolist().index("u00103")
    found = json.loads(run(*given, "--links", first, "--json").out)
    wanted = model.explain(
        "users", X[[row]], "films", "f00007", links={"films": ([0], ["f00030"], [5])}, max_parts=10
    )
    assert found == wanted.to_dict()
    best, mu = model.search("users", X, links=links, among="films", k=60)
    weights = dict(zip(best[row].tolist(), mu[row].tolist(), strict=True))
    assert found["expected_weight"] == pytest.approx(weights["f00007"], rel=1e-5)
    assert [entry["id"] for entry in found["evidence"]] == ["f00030"]
    printed = run(*given, "--links", first)
    assert "first links: 1 films" in printed.out
    assert "f00030" in printed.out.split("known partners")[1]
    assert "first links" not in run(*given).out


def test_explain_of_a_known_row_does_not_use_its_links(run, effects_model, films, table, tmp_path):
    first = table(tmp_path / "first.csv", RATINGS, [("u00001", "f00003", 5)])
    given = ("explain", effects_model, "users", "u00001", "films", "f00007", "--json")
    rows = ("--rows", films / "users.csv")
    printed = run(*given, *rows, "--links", first)
    assert "1 links of known users are not used" in printed.err
    assert printed.out == run(*given, *rows).out
    with pytest.raises(ParameterError, match="--links: expected the new entity in --rows, too"):
        run(*given, "--links", first)


@pytest.mark.parametrize("batch", [7, 1000])
def test_embed_writes_vectors_from_features_and_first_links(
    run, effects_model, first, new_users, expected, tmp_path, monkeypatch, batch
):
    monkeypatch.setattr(recipe, "BATCH", batch)
    output = tmp_path / "v.parquet"
    flags = ("--view", "users", "-o", output, "--links", first, "--pair", "users,films", "--json")
    printed = run("embed", effects_model, new_users, *flags)
    model, ids, X, links = expected
    found = Embeddings.load(output)
    assert found.ids.tolist() == ids.tolist()
    np.testing.assert_allclose(found.vectors, model.fold_in("users", X, links=links), atol=1e-5)
    message = "view users: 0 known from training, 20 new, 3 of them with first links"
    assert json.loads(printed.out)["notes"] == [message]


def test_known_rows_use_their_effects_and_not_their_links(
    run, effects_model, films, table, read, tmp_path
):
    users = read(films / "users.csv")[:2] + read(films / "later" / "new_users.csv")[:1]
    rows = table(tmp_path / "rows.csv", list(users[0]), [list(user.values()) for user in users])
    links = [(user["user_id"], "f00003", 5) for user in users]
    first = table(tmp_path / "first.csv", RATINGS, links)
    output = tmp_path / "v.parquet"
    printed = run("embed", effects_model, rows, "--view", "users", "-o", output, "--links", first)
    assert printed.err.splitlines() == [
        "note: links users,films: 2 links of known users are not used: their effects are those of "
        "the training",
        "note: view users: 2 known from training, 1 new, 1 of them with first links",
    ]
    model, found = PMvGE.load(effects_model), Embeddings.load(output)
    known = [user["user_id"] for user in users[:2]]
    np.testing.assert_allclose(found.vectors[:2], model.embed("users", ids=known), atol=1e-5)
    _, X = rows_of(model.tables_, "users", rows)
    assert np.abs(found.vectors[:2] - model.embed("users", X)[:2]).max() > 1e-3


def test_the_other_side_of_a_link_table_is_known_too(run, effects_model, films, table, tmp_path):
    """Films have two link tables: columns say which is meant."""
    lines = (films / "films.csv").read_text().splitlines()[:2]
    rows = tmp_path / "new_films.csv"
    rows.write_text("\n".join([lines[0], lines[1].replace("f00000", "new")]) + "\n")
    first = table(tmp_path / "first.csv", RATINGS, [("u00001", "new", 5), ("u00002", "new", 1)])
    output = tmp_path / "v.parquet"
    run("embed", effects_model, rows, "--view", "films", "-o", output, "--links", first)
    model = PMvGE.load(effects_model)
    _, X = rows_of(model.tables_, "films", rows)
    links = {"users": ([0, 0], ["u00001", "u00002"], [5, 1])}
    expected = model.fold_in("films", X, links=links)
    np.testing.assert_allclose(Embeddings.load(output).vectors, expected, atol=1e-5)
    genres = table(tmp_path / "genres.csv", ("film_id", "genre"), [("new", "crime")])
    run(
        "embed", effects_model, rows, "--view", "films", "-o", output,
        "--links", first, "--links", genres,
    )  # fmt: skip
    links["genre"] = ([0], ["crime"])
    expected = model.fold_in("films", X, links=links)
    np.testing.assert_allclose(Embeddings.load(output).vectors, expected, atol=1e-5)


def test_links_within_a_view_may_have_the_new_id_in_either_column(run, papers, table, tmp_path):
    model = tmp_path / "model"
    flags = ("--view", f"papers={papers / 'papers.csv'}", "--set", "max_steps=20")
    links = ("--links", f"papers,papers={papers / 'cites.csv'}:columns=citing,cited")
    run("fit", *flags, *links, "-o", model, "--set", "n_components=4", "--set", "effects=vector")
    rows = table(tmp_path / "new.csv", ("paper_id", "x", "y"), [(5, 0.1, 0.2), (6, 1.0, -1.0)])
    cites = [(5, 1000), (1007, 5), (6, 1014), (5, 6), (1000, 1007)]
    first = table(tmp_path / "first.csv", ("citing", "cited"), cites)
    output = tmp_path / "v.parquet"
    run("embed", model, rows, "--view", "papers", "-o", output, "--links", first)
    loaded = PMvGE.load(model)
    given = {"papers": ([0, 0, 1], [1000, 1007, 1014])}
    expected = loaded.fold_in("papers", rows_of(loaded.tables_, "papers", rows)[1], links=given)
    np.testing.assert_allclose(Embeddings.load(output).vectors, expected, atol=1e-5)


def test_rows_that_cannot_be_used_are_notes(run, effects_model, new_users, table, tmp_path):
    first = table(tmp_path / "first.csv", RATINGS, [*FIRST, ("u00100", "nothing", 5)])
    flags = ("--view", "users", "--rows", new_users, "--among", "films", "--json")
    printed = run("search", effects_model, *flags, "--links", first)
    assert "1 of 6 rows dropped: 1 with an unknown id (not in 'films': nothing)" in printed.err


def test_links_of_known_entities_that_are_not_among_the_rows(
    run, effects_model, new_users, table, tmp_path
):
    links = [*FIRST, ("u00007", "f00001", 5), ("u99999", "f00001", 5)]
    first = table(tmp_path / "first.csv", RATINGS, links)
    flags = ("--view", "users", "--rows", new_users, "--among", "films", "--json")
    printed = run("search", effects_model, *flags, "--links", first)
    assert "2 with an unknown id (not in '--rows': u00007, u99999)\n" in printed.err
    assert (
        "note: links users,films: u00007 is known from training and not in --rows: links of known "
        "users are not used here; pmvge update takes them\n"
    ) in printed.err


def test_numbered_rows_are_new(run, paper_model, papers, table, tmp_path):
    """Row numbers are not ids, even if ids are integers."""
    rows = table(tmp_path / "new.csv", ("x", "y"), [(0.1, 0.2)] * 1008)
    output = tmp_path / "v.parquet"
    printed = run("embed", paper_model, rows, "--view", "papers", "-o", output)
    assert "note: view papers: 0 known from training, 1,008 new" in printed.err
    printed = run("embed", paper_model, papers / "papers.csv", "--view", "papers", "-o", output)
    assert printed.err == "note: view papers: 50 known from training, 0 new\n"


def test_invalid_options_are_errors(run, model, effects_model, first, films, table, tmp_path):
    rows = films / "later" / "new_users.csv"
    search = ("--view", "users", "--among", "films", "--links", first)
    with pytest.raises(InputError, match="view 'users' has no effects"):
        run("search", model, *search, "--rows", rows)
    with pytest.raises(ParameterError, match="--links: expected new entities in --rows, too"):
        run("search", effects_model, *search, "--id", "u00001")
    with pytest.raises(InputError, match="--pair: no links of 'users,genre' in training: expected"):
        run("search", effects_model, *search, "--rows", rows, "--pair", "users,genre")
    with pytest.raises(ParameterError, match="at most one for each --links, got 2 for 1"):
        run("search", effects_model, *search, "--rows", rows, *("--pair", "users,films") * 2)
    numbered = table(tmp_path / "n.csv", ("age", "country", "likes"), [(30, "de", "I like robot")])
    with pytest.raises(InputError, match="--links needs ids: expected a column 'user_id'"):
        run("search", effects_model, *search, "--rows", numbered)
    negative = table(tmp_path / "negative.csv", RATINGS, [("u00100", "f00001", -1)])
    flags = ("--view", "users", "-o", tmp_path / "v.parquet")
    with pytest.raises(TableError, match="expected weights >= 0"):
        run("embed", effects_model, rows, *flags, "--links", negative)
    unknown = table(tmp_path / "unknown.csv", RATINGS, [("u00100", "x", 1)])
    with pytest.raises(TableError, match="none of its 1 rows can be used"):
        run("embed", effects_model, rows, *flags, "--links", unknown)
    assert not (tmp_path / "v.parquet").exists()
