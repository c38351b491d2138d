"""``pmvge explain`` against the Python call."""

import json

import pytest

from pmvge import PMvGE
from pmvge.errors import InputError


def explained(printed):
    return json.loads(printed.out)


def test_json_is_the_explanation(run, model, truth):
    user, film = truth.users[7], truth.films[3]
    found = explained(run("explain", model, "users", user, "films", film, "--json"))
    expected = truth.model.explain("users", user, "films", film, max_parts=10)
    assert found == expected.to_dict()
    assert found["expected_weight"] == pytest.approx(truth.mu[7, 3], rel=1e-5)
    total = sum(part["value"] for part in found["parts"])
    assert total == pytest.approx(found["log_expected_weight"], abs=1e-9)


def test_parts_have_the_columns_of_the_tables(run, model, truth, films, read):
    user = next(row for row in read(films / "users.csv") if row["user_id"] == truth.users[7])
    found = explained(run("explain", model, "users", truth.users[7], "films", truth.films[3],
                          "--json", "--parts", 50))  # fmt: skip
    names = {part["name"] for part in found["parts"] if part["view"] == "users"}
    columns = {name.partition(" = ")[0] for name in names if " = " in name}
    assert columns == set(PMvGE.load(model).describe()["tables"]["users"])
    words = {f"likes = {word}" for word in user["likes"].lower().split()}
    found = {name for name in names if " = " in name}
    assert found - words == {f"age = {user['age']}", f"country = {user['country']}"}
    assert found & words
    assert found & words <= words


def test_the_table_shows_parts_sum_and_evidence(run, model, truth):
    printed = run("explain", model, "users", truth.users[7], "films", truth.films[3])
    for text in ("log alpha", "remainder", "sum: log expected weight", "known partners in films"):
        assert text in printed.out
    linked = [film for at, film in enumerate(truth.films) if truth.W[7, at] > 0]
    assert any(film in printed.out.split("known partners")[1] for film in linked)


def test_rows_of_new_and_known_entities(run, model, films, truth, read):
    later = films / "later" / "new_users.csv"
    new = read(later)[0]["user_id"]
    found = explained(run("explain", model, "users", new, "films", truth.films[3],
                          "--rows", later, "--json"))  # fmt: skip
    assert found["id"] is None
    assert found["evidence"] == []
    ids, mu = truth.model.search("users", rows(truth.model, later)[:1], among="films", k=60)
    weights = dict(zip(ids[0].tolist(), mu[0].tolist(), strict=True))
    assert found["expected_weight"] == pytest.approx(weights[truth.films[3]], rel=1e-5)
    known = explained(run("explain", model, "users", truth.users[7], "films", truth.films[3],
                          "--rows", films / "users.csv", "--json"))  # fmt: skip
    assert known["id"] == truth.users[7]
    assert known["expected_weight"] == pytest.approx(truth.mu[7, 3], rel=1e-5)


def rows(model, table):
    from pmvge.tables import rows_of

    return rows_of(model.tables_, "users", table)[1]


def test_bad_input(refused, model, truth, films):
    user, film = truth.users[7], truth.films[3]
    assert "unknown view 'user'" in refused("explain", model, "user", user, "films", film)
    message = refused("explain", model, "users", "nobody", "films", film)
    assert "'nobody' is not among" in message
    assert "--rows" in message
    later = films / "later" / "new_users.csv"
    message = refused("explain", model, "users", "nobody", "films", film, "--rows", later)
    assert "expected a row with the id 'nobody'" in message
    assert "not observed" in refused("explain", model, "users", user, "users", user)


def test_a_view_pair_without_links_has_no_flag_to_name(run, model):
    with pytest.raises(InputError, match=r"were not observed in training") as raised:
        run("explain", model, "users", "u00042", "genre", "crime")
    assert "similarity" not in str(raised.value)
    assert str(raised.value).endswith("expected one of ('films', 'genre'), ('users', 'films')")
