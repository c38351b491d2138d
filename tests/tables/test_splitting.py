"""Splits of link tables, against conditions on the rows."""

import datetime

import numpy as np
import pandas as pd
import pytest

from pmvge.errors import ParameterError, TableError
from pmvge.tables import split_table, write_split


@pytest.fixture(scope="module")
def ratings():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "user": rng.integers(40, size=500),
            "film": [f"f{n}" for n in rng.integers(30, size=500)],
            "stars": rng.integers(1, 6, size=500),
            "time": rng.integers(1000, 1100, size=500),  # with ties
        }
    )


def rows_of(table):
    return [tuple(row.values()) for row in table.to_pylist()]


def check_parts(parts, frame):
    """Every row is in one part, and both parts have the rows in their order."""
    order = {row: at for at, row in enumerate(frame.itertuples(index=False, name=None))}
    found = [rows_of(part) for part in (parts.train, parts.held_out)]
    assert sorted(map(str, found[0] + found[1])) == sorted(
        map(str, frame.itertuples(index=False, name=None))
    )
    for part in found:
        at = [order[row] for row in part]
        assert at == sorted(at)


def test_rows_at_random(ratings):
    frame = ratings.assign(n=range(500))
    parts = split_table(frame, fraction=0.2, seed=3)
    check_parts(parts, frame)
    assert len(parts.held_out) == 100
    again, other = (split_table(frame, fraction=0.2, seed=seed) for seed in (3, 4))
    assert again.held_out.equals(parts.held_out)
    assert not other.held_out.equals(parts.held_out)
    at = np.array(parts.held_out["n"].to_pylist())
    assert 200 < at.mean() < 300  # not the first ones, not the last ones


@pytest.mark.parametrize("kind", ["numbers", "dates", "texts"])
def test_the_latest_rows(ratings, kind, tmp_path):
    frame = ratings.assign(n=range(500))
    day = pd.to_datetime(frame["time"], unit="D")
    frame["time"] = {"numbers": frame["time"], "dates": day, "texts": day.dt.strftime("%Y-%m-%d")}[
        kind
    ]
    frame.loc[7, "time"] = None
    if kind != "dates":
        frame.to_csv(tmp_path / "r.csv", index=False)
    source = frame if kind == "dates" else str(tmp_path / "r.csv")
    parts = split_table(source, fraction=0.15, time="time")
    times = frame["time"].to_numpy()[[int(n) for n in parts.held_out["n"].to_pylist()]]
    others = [int(n) for n in parts.train["n"].to_pylist()]
    assert 7 in others
    rest = frame["time"].drop(7).to_numpy()[[n - (n > 7) for n in others if n != 7]]
    assert min(times) > max(rest)  # no time is in both
    counts = pd.Series(frame["time"]).value_counts()
    assert abs(len(times) - 75) <= counts.max() / 2 + 1  # the closest cut
    assert parts.notes[1] == "1 rows without time stay in training"
    assert parts.notes[0].startswith("held out from time ")
    first = str(min(times))[:10] if kind != "numbers" else str(int(min(times)))
    assert first in parts.notes[0]


@pytest.mark.parametrize("column", ["user", "film"])
def test_all_rows_of_some_entities(ratings, column):
    frame = ratings.assign(n=range(500))
    parts = split_table(frame, fraction=0.25, entity=column, seed=1)
    check_parts(parts, frame)
    held, kept = ({*part[column].to_pylist()} for part in (parts.held_out, parts.train))
    assert not held & kept
    assert len(held) == round(0.25 * frame[column].nunique())
    assert parts.notes == [f"held out {len(held)} of {frame[column].nunique()} values of {column}"]
    shuffled = frame.sample(frac=1, random_state=0)
    again = split_table(shuffled, fraction=0.25, entity=column, seed=1)
    assert {*again.held_out[column].to_pylist()} == held  # whatever the order of the rows


def test_missing_entities_stay_in_training():
    parts = split_table({"user": ["a", None, "b", "c"], "film": [1, 2, 3, 4]}, entity="user")
    assert None in parts.train["user"].to_pylist()
    assert len(parts.held_out) == 1
    assert parts.notes[1] == "1 rows without user stay in training"


@pytest.mark.parametrize("name", ["train.csv", "train.parquet"])
def test_files_are_written_and_read_back(ratings, tmp_path, name):
    text = ratings.assign(film=['a, "b"', "", "ü\nx", "plain"] * 125)
    parts = split_table(text, fraction=0.5)
    write_split(parts, tmp_path / "new" / name, tmp_path / "new" / f"held-{name}")
    for path, part in ((name, parts.train), (f"held-{name}", parts.held_out)):
        read = (pd.read_csv if name.endswith("csv") else pd.read_parquet)(tmp_path / "new" / path)
        assert read["user"].tolist() == part["user"].to_pylist()
        assert read["film"].fillna("").tolist() == part["film"].to_pylist()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"time": "tine"}, "no column 'tine'; .* did you mean 'time'"),
        ({"time": "film"}, "column 'film': expected dates .*, but 500 values are something else"),
        ({"entity": "users"}, "no column 'users'"),
        ({"entity": "one"}, "column 'one': expected at least two entities to split by, got 1"),
        ({"time": "one"}, "column 'one': expected at least two times to split by, got 1"),
    ],
)
def test_invalid_columns_are_errors(ratings, options, says):
    with pytest.raises(TableError, match=says):
        split_table(ratings.assign(one=5), **options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"fraction": 0}, r"fraction: expected a number in \(0, 1\), got 0"),
        ({"fraction": 1.0}, r"fraction: expected a number in \(0, 1\), got 1.0"),
        ({"time": "time", "entity": "user"}, "expected time or entity, got both"),
    ],
)
def test_invalid_options_are_errors(ratings, options, says):
    with pytest.raises(ParameterError, match=says):
        split_table(ratings, **options)


@pytest.mark.parametrize("rows", [0, 1])
def test_too_few_rows_are_an_error(rows):
    with pytest.raises(TableError, match="no rows" if not rows else "expected at least one row to"):
        split_table(pd.DataFrame({"a": np.arange(rows), "b": np.arange(rows)}))


def test_times_of_a_day_are_compared():
    start = datetime.datetime(2024, 1, 1)
    hours = [start + datetime.timedelta(hours=n) for n in range(10)]
    parts = split_table({"a": list(range(10)), "t": hours}, fraction=0.3, time="t")
    assert parts.held_out["a"].to_pylist() == [7, 8, 9]
