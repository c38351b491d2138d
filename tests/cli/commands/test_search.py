"""``pmvge search`` against scores computed from vectors and raw tables."""

import json
import shutil

import numpy as np
import pytest

from pmvge import MultiViewGraph, PMvGE, storage
from pmvge.errors import InputError, NotInductive, ParameterError, TableError
from pmvge.tables import read_graph, rows_of


def partners(printed):
    """Return {id: [(partner, score, known), ...]} from printed JSON."""
    content = json.loads(printed.out)
    key = "similarity" if content["by"] == "similarity" else "expected_weight"
    return {
        result["id"]: [(found["id"], found[key], found["known"]) for found in result["partners"]]
        for result in content["results"]
    }


def best(scores, names, allowed=None):
    """Return [(name, score), ...], best first."""
    order = [int(j) for j in np.argsort(-scores) if allowed is None or allowed[j]]
    return [(names[j], pytest.approx(scores[j], rel=1e-5)) for j in order]


def pairs(found):
    return [(name, score) for name, score, _ in found]


def test_partners_are_those_of_a_full_sort(run, model, truth):
    ids = truth.users[::17]
    flags = [flag for name in ids for flag in ("--id", name)]
    found = partners(run("search", model, "--view", "users", *flags, "--among", "films", "--json"))
    assert list(found) == ids
    for name in ids:
        row = truth.users.index(name)
        assert pairs(found[name]) == best(truth.mu[row], truth.films)[:10]
        linked = {film: truth.W[row, at] > 0 for at, film in enumerate(truth.films)}
        assert all(known == linked[film] for film, _, known in found[name])


def test_the_other_direction_is_the_other_axis(run, model, truth):
    flags = ("--view", "films", "--id", truth.films[5], "--among", "users", "-k", 4, "--json")
    found = partners(run("search", model, *flags))[truth.films[5]]
    assert pairs(found) == best(truth.mu[:, 5], truth.users)[:4]
    at = [truth.users.index(user) for user, _, _ in found]
    assert [known for _, _, known in found] == (truth.W[at, 5] > 0).tolist()


def test_exclude_known_leaves_out_exactly_the_linked(run, model, truth):
    for row in (3, 50):
        name = truth.users[row]
        flags = ("--view", "users", "--id", name, "--among", "films", "-k", 60, "--json")
        found = partners(run("search", model, *flags, "--exclude-known"))[name]
        assert 0 < (truth.W[row] > 0).sum() < 60
        assert pairs(found) == best(truth.mu[row], truth.films, truth.W[row] == 0)
        assert not any(known for _, _, known in found)
        assert len(partners(run("search", model, *flags))[name]) == 60


def test_links_held_out_for_validation_are_known_too(run, model, truth):
    held = PMvGE.load(model).links_.held_out["users", "films"]
    row, column = int(held.rows[0]), int(held.cols[0])
    flags = ("--view", "users", "--id", truth.users[row], "--among", "films", "-k", 60, "--json")
    found = {film: known for film, _, known in partners(run("search", model, *flags)).popitem()[1]}
    assert found[truth.films[column]] is True
    left = partners(run("search", model, *flags, "--exclude-known")).popitem()[1]
    assert truth.films[column] not in {film for film, _, _ in left}


def test_rows_of_unseen_users_are_embedded(run, model, films, truth):
    later = films / "later" / "new_users.csv"
    flags = ("--view", "users", "--rows", later, "--among", "films", "-k", 5, "--json")
    found = partners(run("search", model, *flags))
    ids, X = rows_of(truth.model.tables_, "users", later)
    Y = truth.model.embed("users", X).astype(np.float64)
    mu = truth.alpha * np.exp(Y @ truth.model.embeddings_["films"].T.astype(np.float64))
    assert list(found) == ids.tolist()
    assert len(ids) == 20
    for row, name in enumerate(ids):
        assert pairs(found[name]) == best(mu[row], truth.films)[:5]
        assert not any(known for _, _, known in found[name])


def test_rows_with_ids_of_the_training_are_linked_as_in_training(run, model, films, truth):
    flags = ("--view", "users", "--rows", films / "users.csv", "--among", "films", "-k", 60)
    found = partners(run("search", model, *flags, "--exclude-known", "--json"))
    assert list(found) == truth.users
    for row, name in enumerate(truth.users):
        assert len(found[name]) == (truth.W[row] == 0).sum()


def test_similarity_ranks_pairs_that_were_never_observed(run, model, truth):
    with pytest.raises(
        InputError,
        match=r"'users' and 'genre' were not observed in training.*--by similarity ranks any",
    ):
        run("search", model, "--view", "users", "--id", truth.users[0], "--among", "genre")
    flags = ("--view", "users", "--id", truth.users[0], "--among", "genre", "--by", "similarity")
    Y = {view: vectors.astype(np.float64) for view, vectors in truth.model.embeddings_.items()}
    g = Y["genre"] @ Y["users"][0]
    found = partners(run("search", model, *flags, "-k", 3, "--json"))[truth.users[0]]
    assert pairs(found) == best(g, truth.model.ids_["genre"].tolist())[:3]


# -- within a view ---------------------------------------------------------------------------------


def test_an_entity_is_not_its_own_partner(run, paper_model, papers, read):
    model = PMvGE.load(paper_model)
    ids, Y = model.ids_["papers"].tolist(), model.embeddings_["papers"].astype(np.float64)
    g = Y @ Y.T
    cites = read(papers / "cites.csv")
    linked = {frozenset((int(row["citing"]), int(row["cited"]))) for row in cites}
    alpha = len(linked) / np.exp(g[np.triu_indices(50, 1)]).sum()
    for row in (0, 21):
        flags = ("--view", "papers", "--id", ids[row], "--among", "papers", "-k", 50, "--json")
        found = partners(run("search", paper_model, *flags))[ids[row]]
        others = np.arange(50) != row
        assert pairs(found) == best(alpha * np.exp(g[row]), ids, others)
        for name, _, known in found:
            assert known == (frozenset((ids[row], name)) in linked)
        new = partners(run("search", paper_model, *flags, "--exclude-known"))[ids[row]]
        assert new == [partner for partner in found if not partner[2]]
        assert len(new) < len(found)


def test_numbered_rows_are_new_entities(run, table, tmp_path):
    """Row numbers of a table without ids are no ids, although papers have the ids 0, 1, ..."""
    papers = table(tmp_path / "papers.csv", ("paper", "x"), [(n, n % 4) for n in range(12)])
    cites = table(tmp_path / "cites.csv", ("citing", "cited"), [(n, n + 1) for n in range(11)])
    flags = ("--view", f"papers={papers}", "--links", f"papers,papers={cites}:columns=citing,cited")
    run("fit", *flags, "-o", tmp_path / "m", "--set", "max_steps=2", "--set", "n_components=2")
    rows = table(tmp_path / "rows.csv", ("x",), [(1,), (2,)])
    flags = ("--view", "papers", "--rows", rows, "--among", "papers", "-k", 12, "--json")
    for exclude in ((), ("--exclude-known",)):
        found = partners(run("search", tmp_path / "m", *flags, *exclude))
        assert list(found) == [0, 1]
        assert [len(best) for best in found.values()] == [12, 12]  # nothing is left out
        assert not any(known for best in found.values() for _, _, known in best)


def test_an_entity_is_not_its_own_partner_by_similarity_or_by_rows(run, paper_model, papers, model):
    flags = ("--view", "papers", "--rows", papers / "papers.csv", "--among", "papers", "-k", 50)
    found = partners(run("search", paper_model, *flags, "--json"))
    assert all(name not in {partner for partner, _, _ in best} for name, best in found.items())
    assert {len(best) for best in found.values()} == {49}
    flags = ("--view", "users", "--id", "u00007", "--among", "users", "--by", "similarity")
    found = partners(run("search", model, *flags, "-k", 100, "--json"))["u00007"]
    assert len(found) == 99
    assert "u00007" not in {name for name, _, _ in found}


# -- output ----------------------------------------------------------------------------------------


def test_the_table_has_the_numbers_of_the_json(run, model):
    flags = ("search", model, "--view", "users", "--id", "u00003", "--among", "films", "-k", 3)
    printed = run(*flags).out
    assert "users u00003: best of films" in printed
    for film, score, known in partners(run(*flags, "--json"))["u00003"]:
        (line,) = [line for line in printed.splitlines() if film in line]
        assert line.split("│")[3].strip() == f"{score:.4g}"  # after the name and the id
        assert ("yes" in line) == known


def titles(films, read):
    return {row["film_id"]: row["title"] for row in read(films / "films.csv")}


def test_tables_are_printed_for_twenty_entities(run, model, truth):
    def search(n, *more):
        flags = [flag for name in truth.users[:n] for flag in ("--id", name)]
        return run("search", model, "--view", "users", *flags, "--among", "films", "-k", 1, *more)

    printed = search(20)
    assert printed.out.count("best of films") == 20
    assert "are shown" not in printed.err
    printed = search(21)
    assert printed.out.count("best of films") == 20
    assert "20 of 21 entities are shown; --json prints all" in printed.err
    assert len(partners(search(21, "--json"))) == 21


def test_names_are_shown_before_ids_and_found(run, model, films, read):
    called = titles(films, read)
    flags = ("--view", "users", "--id", "u00003", "--among", "films", "-k", 4)
    content = json.loads(run("search", model, *flags, "--json").out)
    best = content["results"][0]["partners"]
    assert [partner["name"] for partner in best] == [called[partner["id"]] for partner in best]
    assert "name" not in content["results"][0]  # users have no names
    lines = run("search", model, *flags).out.splitlines()
    for partner in best:
        (line,) = [line for line in lines if partner["id"] in line]
        assert line.split("│")[1].split()[0] == partner["name"].split()[0]  # may be folded
    once = [name for name in called.values() if list(called.values()).count(name) == 1]
    by_name = ("--view", "films", "--id", once[0].upper(), "--among", "users", "--json")
    (found,) = json.loads(run("search", model, *by_name).out)["results"]
    assert (found["name"], called[found["id"]]) == (once[0], once[0])


def test_columns_are_added(run, model, films, read):
    years = {row["film_id"]: row["year"] for row in read(films / "films.csv")}
    flags = ("search", model, "--view", "users", "--id", "u00003", "--among", "films", "-k", 5)
    best = json.loads(run(*flags, "--show", "year,title", "--json").out)["results"][0]["partners"]
    assert [p["columns"] for p in best] == [
        {"year": years[p["id"]], "title": p["name"]} for p in best
    ]
    lines = run(*flags, "--show", "year").out.splitlines()
    for partner in best:
        (line,) = [line for line in lines if partner["id"] in line]
        assert line.split("│")[3].strip() == years[partner["id"]]
    with pytest.raises(InputError, match=r"--show: view 'films' has the columns 'title', 'year'"):
        run(*flags, "--show", "budget")


def test_near_misses_are_listed(run, model, films, read):
    called = titles(films, read)
    name, title = next(iter(called.items()))
    flags = ("--view", "films", "--among", "users", "--id")
    for typed in (title[:-1] + "z", title.split()[0].lower()):
        with pytest.raises(
            InputError, match="is not among the 60 ids and names of 'films'; similar"
        ):
            run("search", model, *flags, typed)
    with pytest.raises(InputError) as error:
        run("search", model, *flags, title[:-1] + "z")
    assert f"{title!r} ({name!r})" in str(error.value)
    with pytest.raises(InputError, match=r"similar: .*'u00042'"):
        run("search", model, "--view", "users", "--among", "films", "--id", "u0042")


@pytest.mark.slow
def test_a_large_similarity_is_explained(run, films, tmp_path):
    model = tmp_path / "model"
    settings = ("--set", "similarity=cosine", "--set", "n_components=8", "--set", "max_steps=100")
    run("fit", films / "pmvge.toml", "-o", model, *settings)
    fitted = PMvGE.load(model)
    left = fitted.vectors("users", among="films")
    g = left @ fitted.vectors("films", among="users", side="candidate").T
    user = fitted.ids_["users"][int(g.max(1).argmax())]
    assert g.max() > 1
    flags = ("--view", "users", "--id", user, "--among", "films", "--by", "similarity")
    printed = run("search", model, *flags, "-k", 60).out
    scale = float(np.square(fitted.embeddings_["users"][0]).sum())
    assert f"the cosine times a learned scale, {scale:.3g} in this model" in printed
    with_weights = run("search", model, *flags[:-2], "-k", 60).out
    assert "learned scale" not in with_weights


def test_missing_and_unknown_values_are_notes(run, model, table, tmp_path):
    columns = ("user_id", "age", "country", "likes")
    rows = [("n1", "", "atlantis", "I like dragon"), ("n2", 30, "atlantis", "I like zebras")]
    path = table(tmp_path / "new.csv", columns, rows)
    printed = run("search", model, "--view", "users", "--rows", path, "--among", "films", "--json")
    assert list(partners(printed)) == ["n1", "n2"]
    assert "1 values of 'age' are missing: filled in" in printed.err
    assert "2 values of 'country' were not seen in training" in printed.err


# -- a model that is saved again while it is read --------------------------------------------------


@pytest.fixture(scope="module")
def newer(run, films, tmp_path_factory):
    """A model of half of the users, with other settings."""
    folder = tmp_path_factory.mktemp("newer")
    shutil.copytree(films, folder / "tables")
    users = (films / "users.csv").read_text().splitlines(keepends=True)
    (folder / "tables" / "users.csv").write_text("".join(users[:51]))
    flags = ("--set", "max_steps=5", "--set", "n_components=4")
    run("fit", folder / "tables" / "pmvge.toml", "-o", folder / "model", *flags)
    return folder / "model"


@pytest.fixture
def save_between(own_model, newer, monkeypatch):
    """Save the newer model over the older one while that is read, up to ``times`` times."""
    model, saves, read_tensors = PMvGE.load(newer), [], storage.read_tensors

    def begin(times):
        def read(path):
            if len(saves) < times:
                saves.append(path)
                if len(saves) > 1:  # every save differs
                    model.label({"users": {"save": [len(saves)] * len(model.ids_["users"])}})
                model.save(own_model)
            return read_tensors(path)

        monkeypatch.setattr(storage, "read_tensors", read)
        return own_model

    return begin


@pytest.mark.parametrize("command", ["search", "evaluate", "report"])
def test_links_and_model_come_from_the_same_save(
    run, newer, save_between, films, tmp_path, command
):
    page = tmp_path / "page.html"
    flags = {
        "search": ("--view", "users", "--id", "u00003", "--among", "films", "--exclude-known"),
        "evaluate": ("--links", films / "later" / "held_out.csv", "--pair", "users,films"),
        "report": ("-o", page, "--title", "x"),
    }[command]

    def result(model):
        printed = run(command, model, *flags, "--json")
        return page.read_text() if command == "report" else printed.out

    expected = result(newer)
    assert result(save_between(1)) == expected


def test_a_model_that_changes_at_every_read_is_an_error(refused, save_between):
    model = save_between(99)
    flags = ("--view", "users", "--id", "u00003", "--among", "films")
    assert refused("search", model, *flags) == (
        f"{model}: the model changed during all 5 attempts to read it; try again when no process "
        "is saving it"
    )


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--view", "users"), "pass exactly one of --id, --rows and --all"),
        (
            ("--view", "users", "--id", "u1", "--rows", "x.csv"),
            "pass exactly one of --id, --rows and --all",
        ),
        (("--view", "users", "--id", "nobody"), "'nobody' is not among the 100 ids of 'users', su"),
        (("--view", "user", "--id", "u00001"), "unknown view 'user': expected one of 'films', 'g"),
        (("--view", "users", "--id", "u1", "--by", "intensty"), "did you mean 'intensity'"),
        (("--view", "users", "--rows", "gone.csv"), r"gone\.csv: no such file"),
    ],
)
def test_invalid_options_are_errors(run, model, flags, says):
    with pytest.raises((InputError, ParameterError, ValueError), match=says):
        run("search", model, *flags, "--among", "films")


def test_ids_of_integers_must_be_integers(run, paper_model):
    flags = ("--view", "papers", "--among", "papers")
    for wrong in ("x7", "1e400", "9" * 30, ""):
        with pytest.raises(
            InputError, match=f"--id: '{wrong}' is not among the 50 ids of 'papers'"
        ):
            run("search", paper_model, *flags, "--id", wrong)
    with pytest.raises(
        InputError, match="--id: '5' is not among the 50 ids of 'papers', such as 10"
    ):
        run("search", paper_model, *flags, "--id", "5")


def test_rows_of_a_view_without_features_must_be_known(run, model, table, tmp_path):
    old = table(tmp_path / "old.csv", ("genre",), [("western",), ("crime",)])
    flags = ("--view", "genre", "--among", "films", "--json")
    found = partners(run("search", model, *flags, "--rows", old))
    assert list(found) == ["western", "crime"]
    new = table(tmp_path / "new.csv", ("genre",), [("western",), ("opera",)])
    with pytest.raises(NotInductive, match="such as 'opera'"):
        run("search", model, *flags, "--rows", new)


def test_a_note_says_that_new_entities_are_not_calibrated(run, films, own_model):
    rows = films / "later" / "new_users.csv"
    flags = ("--view", "users", "--rows", rows, "--among", "films", "-k", 1)
    note = "users,films: expected weights of new entities (new-known) are not calibrated"
    printed = run("search", own_model, *flags, "--json")
    assert note in printed.err
    assert json.loads(printed.out)["uncalibrated"] == ["new-known"]
    assert note not in run("search", own_model, *flags, "--by", "similarity").err
    known = ("--view", "users", "--id", "u00001", "--among", "films")
    assert note not in run("search", own_model, *known).err
    model = PMvGE.load(own_model)
    graph = read_graph(films / "pmvge.toml", tables=model.tables_)
    ids = {view: graph.ids[view] for view in graph.views} | {"users": graph.ids["users"] + "-new"}
    pair = ("users", "films")
    views = {"users": graph.views["users"], "films": graph.views["films"]}
    links = {pair: graph.links[pair].matrix()}
    new = MultiViewGraph(views, links, {view: ids[view] for view in views})
    model.calibrate(new).save(own_model)
    printed = run("search", own_model, *flags, "--json")
    assert note not in printed.err
    assert json.loads(printed.out)["uncalibrated"] == []


def test_the_columns_of_the_file_are_named(run, model, truth, tmp_path):
    output = tmp_path / "best.parquet"
    flags = ("--view", "users", "--id", truth.users[0], "--among", "films", "-o", output)
    named = "columns id, partner, rank, expected_weight, partner_name\n"
    assert run("search", model, *flags).out.endswith(named)
    printed = run("search", model, *flags, "--by", "similarity").out
    assert printed.endswith("columns id, partner, rank, similarity, partner_name\n")


def test_a_least_weight_that_no_partner_has(run, model, truth, tmp_path):
    name = truth.users[3]
    flags = ("--view", "users", "--id", name, "--id", truth.users[4], "--among", "films")
    least = float(truth.mu[[3, 4]].max()) + 1
    printed = run("search", model, *flags, "--min-weight", least).out
    assert printed.splitlines() == [
        f"users {truth.users[row]}: no partner in films has an expected weight of {least:.4g} or "
        f"more; the largest is {truth.mu[row].max():.4g}"
        for row in (3, 4)
    ]
    allowed = tmp_path / "allow.txt"
    allowed.write_text(truth.films[0])
    flags = ("--view", "users", "--id", name, "--among", "films", "--allow", allowed)
    printed = run("search", model, *flags, "--deny", allowed).out
    assert printed == f"users {name}: no partner in films is left by the filters\n"


def test_a_least_weight_needs_expected_weights(run, model, truth):
    flags = ("--view", "users", "--id", truth.users[0], "--among", "films", "--by", "similarity")
    with pytest.raises(ParameterError, match=r"--min-weight: expected --by intensity"):
        run("search", model, *flags, "--min-weight", 1)


def test_a_bad_cell_of_new_rows(run, model, films, read, table, tmp_path):
    row = read(films / "later" / "new_users.csv")[0]
    flags = ("--view", "users", "--among", "films", "--json", "--rows")
    bad = table(tmp_path / "bad.csv", list(row), [list({**row, "age": "old"}.values())])
    with pytest.raises(TableError) as raised:
        run("search", model, *flags, bad)
    assert str(raised.value).endswith(
        "such as 'old' in row 1; correct them, or empty these cells: missing values are filled in"
    )
    empty = table(tmp_path / "empty.csv", list(row), [list({**row, "age": ""}.values())])
    printed = run("search", model, *flags, empty)
    assert "1 values of 'age' are missing: filled in" in printed.err
    assert len(partners(printed)[row["user_id"]]) == 10
