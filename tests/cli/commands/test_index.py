"""``pmvge index``, and ``pmvge search`` with an index, with filters, and to a file."""

import json
import shutil

import numpy as np
import pytest
from pyarrow import parquet

from pmvge import PMvGE
from pmvge.errors import InputError, ParameterError, StorageError


@pytest.fixture
def folder(model, tmp_path):
    return shutil.copytree(model, tmp_path / "model")


def partners(printed):
    (result,) = json.loads(printed.out)["results"]
    return [(entry["id"], entry["expected_weight"]) for entry in result["partners"]]


def test_index_and_approximate_search(run, folder, truth):
    built = json.loads(run("index", folder, "--view", "films", "--among", "users", "--json").out)
    assert built["candidates"] == len(truth.films)
    assert built["recall"] >= 0.9
    flags = ("search", folder, "--view", "users", "--id", truth.users[4], "--among", "films",
             "-k", 5, "--json")  # fmt: skip
    printed = run(*flags, "--approximate")
    assert "recall@10" in printed.err
    approximate, exact = partners(printed), partners(run(*flags))
    weights = dict(zip(truth.films, truth.mu[4], strict=True))
    for film, weight in approximate:
        assert weight == pytest.approx(weights[film], rel=1e-5)
    assert len({film for film, _ in approximate} & {film for film, _ in exact}) >= 4


def test_a_missing_or_stale_index_is_one_line(run, refused, folder, truth):
    flags = ("search", folder, "--view", "users", "--id", truth.users[4], "--among", "films",
             "--approximate")  # fmt: skip
    assert "no saved index of 'films' for 'users'; build it: pmvge index" in refused(*flags)
    run("index", folder, "--view", "films", "--among", "users")
    run(*flags)
    model = PMvGE.load(folder)
    model._fitted.outputs["films"] = model._fitted.outputs["films"] + np.float32(0.01)
    model.save(folder)
    message = refused(*flags)
    assert "is stale" in message
    assert "build it again: pmvge index" in message
    with pytest.raises(StorageError, match="is stale"):
        PMvGE.load(folder).load_index(folder, "films", "users")


def test_recommendations_of_all_users(run, model, truth, tmp_path):
    path = tmp_path / "recommendations.parquet"
    flags = ("search", model, "--view", "users", "--all", "--among", "films", "-k", 3)
    printed = json.loads(run(*flags, "--exclude-known", "-o", path, "--json").out)
    rows = parquet.read_table(path).to_pylist()
    assert printed["rows"] == len(rows) == 3 * len(truth.users)
    titles = PMvGE.load(model).names_["films"]
    for i in (0, 17, len(truth.users) - 1):
        own = [row for row in rows if row["id"] == truth.users[i]]
        mu = np.where(truth.W[i] > 0, -np.inf, truth.mu[i])
        best = np.argsort(-mu)[:3]
        assert [row["partner"] for row in own] == [truth.films[j] for j in best]
        assert [row["partner_name"] for row in own] == [titles[j] for j in best]
        assert [row["rank"] for row in own] == [1, 2, 3]
        found = [row["expected_weight"] for row in own]
        np.testing.assert_allclose(found, mu[best], rtol=1e-5)
    assert "partners in" in run(*flags, "-o", path).out


def test_filters(run, model, truth, tmp_path):
    (tmp_path / "allow.txt").write_text("\n".join(truth.films[:20]) + "\n\n")
    (tmp_path / "deny.txt").write_text("\n".join(truth.films[:5]))
    flags = ("search", model, "--view", "users", "--id", truth.users[4], "--among", "films",
             "-k", 60, "--json")  # fmt: skip
    found = partners(run(*flags, "--allow", tmp_path / "allow.txt", "--deny",
                         tmp_path / "deny.txt"))  # fmt: skip
    assert {film for film, _ in found} == set(truth.films[5:20])
    limit = float(np.median(truth.mu[4]))
    found = partners(run(*flags, "--min-weight", limit))
    assert len(found) == int((truth.mu[4] >= limit).sum())
    assert min(weight for _, weight in found) >= limit


def test_bad_input(run, model, truth, tmp_path):
    flags = ("search", model, "--view", "users", "--among", "films")
    path = tmp_path / "best.parquet"
    with pytest.raises(ParameterError, match="expected -o with --all"):
        run(*flags, "--all")
    with pytest.raises(ParameterError, match="exactly one of --id, --rows and --all"):
        run(*flags, "--all", "--id", truth.users[0], "-o", path)
    with pytest.raises(ParameterError, match=r"ends in \.parquet"):
        run(*flags, "--all", "-o", tmp_path / "best.csv")
    (tmp_path / "allow.txt").write_text("nothing\n")
    with pytest.raises(InputError, match=r"allow: expected ids of 'films'.*'nothing'"):
        run(*flags, "--id", truth.users[0], "--allow", tmp_path / "allow.txt")
    with pytest.raises(InputError, match=r"--deny: .*cannot be read"):
        run(*flags, "--id", truth.users[0], "--deny", tmp_path / "gone.txt")
    with pytest.raises(InputError, match="unknown view 'film'"):
        run("index", model, "--view", "film")
    with pytest.raises(InputError, match="exact search needs no index"):
        run("index", model, "--view", "films", "--kind", "exact")
    assert not path.exists()
