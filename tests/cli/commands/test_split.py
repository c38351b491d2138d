"""``pmvge split``: the files that it writes, and a fit and evaluation of them."""

import json

import pytest

from pmvge.errors import StorageError

QUICK = ("--set", "max_steps=20", "--set", "n_components=8")


def test_split_fit_and_evaluate(run, tables, read, monkeypatch):
    monkeypatch.chdir(tables)
    printed = run("split", "ratings.csv", "--fraction", 0.2)
    kept, held = read(tables / "split" / "train.csv"), read(tables / "split" / "held_out.csv")
    ratings = read(tables / "ratings.csv")
    assert len(held) == round(0.2 * len(ratings))
    assert sorted(map(str, kept + held)) == sorted(map(str, ratings))
    assert f"({len(kept):,} rows) and split/held_out.csv ({len(held):,} rows)" in printed.out
    text = (tables / "pmvge.toml").read_text()
    (tables / "pmvge.toml").write_text(text.replace('"ratings.csv"', '"split/train.csv"'))
    run("fit", *QUICK)
    flags = ("--links", "split/held_out.csv", "--json")
    results = json.loads(run("evaluate", "model", *flags).out)["pairs"]["users,films"]
    pairs = {(row["user_id"], row["film_id"]) for row in held}
    known = {(row["user_id"], row["film_id"]) for row in kept}
    assert results["links"] == len(pairs - known)
    assert results["in_training"] == len(pairs & known)


def test_entities_of_a_view_are_held_out(run, tables, read, monkeypatch):
    monkeypatch.chdir(tables)
    content = json.loads(
        run("split", "ratings.csv", "--entity", "user_id", "-o", "s", "--json").out
    )
    held, kept = (
        {row["user_id"] for row in read(tables / content[key])} for key in ("held_out", "train")
    )
    assert not held & kept
    assert content["rows"]["train"] == len(read(tables / "s" / "train.csv"))
    assert content["notes"] == [f"held out {len(held)} of {len(held | kept)} values of user_id"]


def test_a_file_without_a_header_in_latin_1(run, read, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [(f"\xe9{n % 9}", f"t{n % 7}", str(n)) for n in range(63)]
    text = "".join("\t".join(row) + "\n" for row in rows)
    (tmp_path / "user_tag.dat").write_text(text, encoding="latin-1")
    printed = run("split", "user_tag.dat", "--entity", "column1")
    parts = [
        tuple(row.values())
        for part in ("train", "held_out")
        for row in read(tmp_path / "split" / f"{part}.csv")
    ]
    assert sorted(parts) == sorted(rows)
    assert "user_tag.dat has no header: its columns are column1, column2" in printed.err
    assert "remove header and encoding from these links" in printed.err
    run("split", "user_tag.dat", "--seed", 1, "-o", "other")
    (tmp_path / "pmvge.toml").write_text(
        """
        [views.user]
        [views.tag]
        [[links]]
        views = ["user", "tag"]
        source = "user_tag.dat"
        columns = ["who", "column2"]
        header = ["who"]
        encoding = "latin-1"
        """
    )
    run("split", "user_tag.dat", "--entity", "who", "-o", "named")
    assert set(read(tmp_path / "named" / "train.csv")[0]) == {"who", "column2", "column3"}


def test_existing_files_stay(run, tables, monkeypatch):
    monkeypatch.chdir(tables)
    run("split", "ratings.csv")
    before = (tables / "split" / "train.csv").read_bytes()
    with pytest.raises(
        StorageError, match=r"train\.csv: the file exists; pass --force to replace it"
    ):
        run("split", "ratings.csv", "--seed", 1)
    assert (tables / "split" / "train.csv").read_bytes() == before
    run("split", "ratings.csv", "--seed", 1, "--force")
    assert (tables / "split" / "train.csv").read_bytes() != before


def test_errors_are_one_line(refused, tables):
    path = tables / "ratings.csv"
    assert "no column 'when'; the columns are" in refused("split", path, "--time", "when")
    assert "fraction: expected a number in (0, 1), got 2.0" in refused(
        "split", path, "--fraction", 2
    )
