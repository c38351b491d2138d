"""Tables as people have them: 2 data sets, spoiled in 30 ways; no wrong guess without a question.

Each variant is a folder of files and the reading that is right for it, which the spoiling function
keeps up to date. ``init`` must find that reading, or ask; with the answer it must find it, too.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pmvge.examples import write_films
from pmvge.tables import UnsureError, project_text, read_project, read_tables, sketch_project


@dataclass
class Data:
    """Tables of users, items and ratings, how they are written, and what is right."""

    tables: dict[str, pd.DataFrame]  # all cells are text
    items: str  # the name of the table of items
    user_key: str
    item_key: str
    user_ref: str  # the columns of ratings
    item_ref: str
    weight: str | None
    number: str  # a column of numbers of users
    delimiter: str = ","
    ending: str = ".csv"
    encoding: str = "utf-8"
    headless: set[str] = field(default_factory=set)
    index: bool = False
    newline: str = "\n"
    quoting: int = 0
    others: dict[str, bytes] = field(default_factory=dict)  # other files
    no_users: bool = False  # the table of users is of no use
    total: float | None = None  # of the weights, if no row is dropped
    says: tuple[str, ...] = ()  # parts of notes, match rates or reasons that must be there

    @property
    def ratings(self) -> pd.DataFrame:
        return self.tables["ratings"]

    @property
    def users(self) -> pd.DataFrame:
        return self.tables["users"]

    def file(self, name: str) -> str:
        return name + self.ending

    def write(self, folder: Path) -> None:
        for name, table in self.tables.items():
            text = table.to_csv(
                index=self.index,
                header=name not in self.headless,
                sep=self.delimiter,
                quoting=self.quoting,
                lineterminator=self.newline,
            )
            (folder / self.file(name)).write_bytes(text.encode(self.encoding))
        for name, content in self.others.items():
            (folder / name).write_bytes(content)

    def reading(self) -> dict[str, Any]:
        """Return the right views, {file: id}, and links, {sides: (file, columns, weight)}."""

        def name(table: str, column: str) -> str:
            if table not in self.headless:
                return column
            if table == "film_genres":  # named after the file
                return {"film_id": "film", "genre": "genres"}[column]
            return f"column{1 + list(self.tables[table].columns).index(column)}"

        items, users = self.file(self.items), self.file("users")
        views = {items: name(self.items, self.item_key)}
        if self.no_users:
            users = "(no table)"
        else:
            views[users] = name("users", self.user_key)
        columns = {
            users: name("ratings", self.user_ref),
            items: name("ratings", self.item_ref),
        }
        weight = self.weight and name("ratings", self.weight)
        links = {frozenset((users, items)): (self.file("ratings"), columns, weight)}
        if "film_genres" in self.tables:
            genres = name("film_genres", "genre"), name("film_genres", "film_id")
            columns = {"(no table)": genres[0], items: genres[1]}
            links[frozenset((items, "(no table)"))] = (self.file("film_genres"), columns, None)
            if self.no_users:  # both have the same sides
                del links[frozenset((items, "(no table)"))]
        return {"views": views, "links": links}


def found_reading(sketch, keep) -> dict[str, Any]:
    """Return the views and links of a sketch in the same form; links of files in ``keep`` only."""
    views = sketch.project.views
    names = {v: str(table.source) if table.source else "(no table)" for v, table in views.items()}
    links = {}
    for (a, b), table in sketch.project.links.items():
        columns = dict(zip((names[a], names[b]), table.columns, strict=True))
        if str(table.source) in keep:
            links[frozenset((names[a], names[b]))] = (str(table.source), columns, table.weight)
    return {"views": {names[v]: t.id for v, t in views.items() if t.source}, "links": links}


def practice_films() -> Data:
    """The practice tables of the quickstart: ids are texts."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        write_films(Path(folder), ratings=2000)
        tables = {
            path.stem: pd.read_csv(path, dtype=str, keep_default_na=False)
            for path in sorted(Path(folder).glob("*.csv"))
        }
    return Data(
        tables, "films", "user_id", "film_id", "user_id", "film_id", "stars", "age",
        total=float(tables["ratings"].stars.astype(float).sum()),
    )  # fmt: skip


def small_movielens() -> Data:
    """Users, items and ratings as in MovieLens: ids are the integers from 1, and so are ratings."""
    rng = np.random.default_rng(0)
    genres = ["Action", "Comedy", "Drama", "Horror", "War"]
    users = pd.DataFrame(
        {
            "user_id": range(1, 121),
            "age": rng.integers(15, 70, 120),
            "gender": rng.choice(["M", "F"], 120),
            "zip_code": [f"{code:05}" for code in rng.integers(500, 99_999, 120)],
        }
    )
    items = pd.DataFrame(
        {
            "item_id": range(1, 201),
            "title": [
                f"Film {chr(65 + n % 26)}{chr(65 + n // 26)} of the year" for n in range(200)
            ],
            "year": rng.integers(1930, 1999, 200),
            "genres": [
                "|".join(sorted(rng.choice(genres, rng.integers(1, 4), replace=False)))
                for _ in range(200)
            ],
        }
    )
    pairs = rng.choice(120 * 200, 3000, replace=False)
    ratings = pd.DataFrame(
        {
            "user_id": 1 + pairs % 120,
            "item_id": 1 + pairs // 120,
            "rating": rng.integers(1, 6, 3000),
            "timestamp": rng.integers(874_724_710, 893_286_638, 3000),
        }
    )
    tables = {"users": users, "items": items, "ratings": ratings}
    return Data(
        {name: table.astype(str) for name, table in tables.items()},
        "items", "user_id", "item_id", "user_id", "item_id", "rating", "age",
        total=float(ratings.rating.sum()),
    )  # fmt: skip


DATA = {"films": practice_films, "movielens": small_movielens}
RNG = np.random.default_rng(0)


def set_cells(table: pd.DataFrame, column: str, share: float, value: Callable[[int], str]) -> None:
    rows = np.flatnonzero(RNG.random(len(table)) < share)
    table.loc[rows, column] = [value(int(row)) for row in rows]


def rename(data: Data, user: str, item: str) -> None:
    data.tables["ratings"] = data.ratings.rename(columns={data.user_ref: user, data.item_ref: item})
    data.user_ref, data.item_ref = user, item


# -- ways to spoil ------------------------------------------------------------------------------


def nothing(data: Data) -> None:
    data.says = (f"ratings.user_id matches users.user_id in {data.ratings.user_id.nunique()} of",)


def users_with_a_prefix(data: Data) -> None:
    data.users["user_id"] = "user_" + data.users.user_id
    n = data.ratings.user_id.nunique()
    data.says = (f"ratings.user_id matches users.user_id in 0 of {n} values: '",)
    data.no_users, data.total = True, None


def users_with_a_prefix_and_renamed(data: Data) -> None:
    users_with_a_prefix(data)
    rename(data, "uid", "iid")
    data.says = (f"in 0 of {data.ratings.uid.nunique()} values: '",)


def renamed(data: Data) -> None:
    rename(data, "uid", "iid")


def renamed_to_nothing(data: Data) -> None:
    rename(data, "p", "q")


def half_of_the_ids_and_renamed(data: Data) -> None:
    users, items = data.users.user_id[:60], data.tables[data.items][data.item_key][:90]
    few = data.ratings.user_id.isin(users) & data.ratings[data.item_ref].isin(items)
    data.tables["ratings"] = data.ratings[few].reset_index(drop=True)
    rename(data, "p", "q")
    data.total = None


def duplicate_users(data: Data) -> None:
    data.tables["users"] = pd.concat([data.users, data.users[:5]])
    data.says = (f"5 of {len(data.users)} rows repeat an id",)


def duplicate_items_that_differ(data: Data) -> None:
    items = data.tables[data.items]
    data.tables[data.items] = pd.concat([items, items[:5].assign(year="1950")])
    data.says = (f"5 of {len(items) + 5} rows repeat an id",)


def unknown_users(data: Data) -> None:
    set_cells(data.ratings, "user_id", 0.4, lambda row: str(900_000 + row))
    data.total = None
    data.says = ("ratings.user_id matches users.user_id in ", "against")


def unknown_items_and_renamed(data: Data) -> None:
    set_cells(data.ratings, data.item_ref, 0.4, lambda row: f"x{row}")
    rename(data, "uid", "iid")
    data.total = None


def empty_users_in_ratings(data: Data) -> None:
    set_cells(data.ratings, "user_id", 0.3, lambda _: "")
    data.total = None
    data.says = ("are empty",)


def empty_ids_of_users(data: Data) -> None:
    set_cells(data.users, "user_id", 0.3, lambda _: "")
    data.total = None
    data.says = ("ids are empty",)


def ratings_without_a_header(data: Data) -> None:
    data.headless = {"ratings"}
    data.says = ("has no header",)


def no_headers(data: Data) -> None:
    data.headless = {*data.tables}
    data.says = ("has no header",)


def decimal_comma(data: Data) -> None:
    data.users[data.number] = [f"{n},{n[-1]}" for n in data.users[data.number]]
    data.delimiter = ";"
    data.says = ("decimal comma",)


def decimal_comma_of_weights(data: Data) -> None:
    data.ratings[data.weight] = [f"{n},5" for n in data.ratings[data.weight]]
    data.total += 0.5 * len(data.ratings)
    data.says = ("decimal comma",)


def negative_weights(data: Data) -> None:
    set_cells(data.ratings, data.weight, 0.3, lambda _: "-1")
    data.weight, data.total = None, float(len(data.ratings))


def semicolons(data: Data) -> None:
    data.delimiter = ";"


def latin_1_tabs(data: Data) -> None:
    data.users["city"] = [["Zürich", "Orléans", "Graz"][n % 3] for n in range(len(data.users))]
    data.delimiter, data.ending, data.encoding = "\t", ".dat", "latin-1"
    data.says = ("cp1252",)


def useless_columns(data: Data) -> None:
    data.users["note"], data.users["source"] = "", "web"
    data.says = ("'note': it is empty", "'source': it is constant")


def reversed_columns(data: Data) -> None:
    for name in ("users", data.items):
        data.tables[name] = data.tables[name].iloc[:, ::-1]


def weight_first(data: Data) -> None:
    data.tables["ratings"] = data.ratings.iloc[:, ::-1]


def pandas_index(data: Data) -> None:
    data.index = True


def plain_ids(data: Data) -> None:
    data.tables["users"] = data.users.rename(columns={"user_id": "id"})
    items = data.tables[data.items].rename(columns={data.item_key: "id"})
    data.tables[data.items] = items
    rename(data, "user", data.item_key.removesuffix("_id"))
    data.user_key = data.item_key = "id"


def quotes(data: Data) -> None:
    data.quoting = 1


def windows(data: Data) -> None:
    data.encoding, data.newline = "utf-8-sig", "\r\n"


def users_written_in_another_way(data: Data) -> None:
    ids = data.ratings.user_id
    data.ratings["user_id"] = ids + "/1" if ids[0].isdigit() else ids.str.upper()
    data.no_users, data.total = True, None
    data.says = ("in 0 of",)


def padded_ids(data: Data) -> None:
    """Write 12 as 0012: the ids of the table are integers, so both are the same id."""
    data.ratings["user_id"] = "00" + data.ratings.user_id
    if not data.users.user_id[0].isdigit():
        data.users["user_id"] = "00" + data.users.user_id


def float_ids(data: Data) -> None:
    """Write integers as pandas does after a join with missing values; texts get no row."""
    if data.ratings.user_id[0].isdigit():
        data.ratings["user_id"] += ".0"
        data.ratings["item_id"] += ".0"


def other_files(data: Data) -> None:
    data.others = {
        "settings.json": json.dumps({"theme": "dark", "panes": {"left": [1, 2]}}).encode(),
        "sheet.xlsx": b"PK\x03\x04rest",
        "README.md": b"# About, these, data\n",
        "split.npz": b"PK\x03\x04\0",
        "LICENSE": b"You may use it.\nBut not, for example, sell it.\n",
    }
    data.says = ("settings.json", "sheet.xlsx", "README.md", "split.npz", "LICENSE")


def no_users(data: Data) -> None:
    data.tables["users"] = data.users[:0]
    data.no_users = True
    data.says = ("no rows",)


def unknown_numbers(data: Data) -> None:
    set_cells(data.users, data.number, 0.1, lambda _: "unknown")
    data.says = ("'unknown'", "na_values")


def one_bad_number(data: Data) -> None:
    data.users.loc[3, data.number] = "4o"
    data.says = ("'4o'",)
    data.number = ""  # a category or a text, which the note says


def two_numbers(data: Data) -> None:
    data.tables["ratings"] = data.ratings.rename(columns={data.weight: "p"}).assign(
        q=RNG.integers(1, 9, len(data.ratings)).astype(str)
    )
    data.weight = "p"


def joined_columns(data: Data) -> None:
    """Add properties of users to the ratings: ages are among the ids of any table."""
    n = len(data.ratings)
    data.ratings["user_age"] = RNG.integers(15, 70, n).astype(str)
    data.ratings["user_name"] = [f"Mr. {chr(65 + row % 26)}" for row in range(n)]


def another_number(data: Data) -> None:
    """Add baskets, integers from 1, to ratings whose column of items has no name."""
    data.ratings["basket"] = RNG.integers(1, 180, len(data.ratings)).astype(str)
    rename(data, data.user_ref, "q")


def shared_key(data: Data) -> None:
    """Call the id of users uid, in both tables, beside another column of distinct values."""
    data.tables["users"] = data.users.rename(columns={"user_id": "uid"})
    data.users.insert(0, "mail", [f"m{n}@example.org" for n in range(len(data.users))])
    data.user_key = "uid"
    rename(data, "uid", data.item_ref)


def missing_value_in_the_first_row(data: Data) -> None:
    data.headless = {"users"}
    data.users.loc[0, data.number] = "NA"


def decimal_commas_everywhere(data: Data) -> None:
    """Write a file without a header, separated by semicolons, in which commas are regular, too."""
    data.users[data.number] = [f"{n},5" for n in data.users[data.number]]
    data.tables["users"] = data.users[["user_id", data.number]]
    data.headless, data.delimiter = {"users"}, ";"


RIGHT = [
    nothing, duplicate_users, duplicate_items_that_differ, unknown_users, empty_users_in_ratings,
    empty_ids_of_users, no_headers, decimal_comma, decimal_comma_of_weights, semicolons,
    latin_1_tabs, useless_columns, reversed_columns, weight_first, pandas_index, plain_ids, quotes,
    windows, float_ids, other_files, no_users, unknown_numbers, one_bad_number, renamed,
    renamed_to_nothing, ratings_without_a_header, padded_ids,
    joined_columns, shared_key, decimal_commas_everywhere,
]  # fmt: skip
ASKS = {  # answers, by the question's key; {items} is the table of items
    users_with_a_prefix: {"ratings.csv:user_id": "none"},
    users_with_a_prefix_and_renamed: {"ratings.csv:uid": "none"},
    users_written_in_another_way: {"ratings.csv:user_id": "none"},
    negative_weights: {"ratings.csv:weight": "none"},
    two_numbers: {"ratings.csv:weight": "p"},
    missing_value_in_the_first_row: {"users.csv:header": "no"},
}
VARIANTS = [(name, spoil, {}) for name in DATA for spoil in RIGHT]
VARIANTS += [(name, spoil, answers) for name in DATA for spoil, answers in ASKS.items()]
VARIANTS += [
    ("films", half_of_the_ids_and_renamed, {}),
    ("films", another_number, {}),
    ("movielens", another_number, {"ratings.csv:basket": "none"}),
    ("films", unknown_items_and_renamed, {"ratings.csv:iid": "films"}),
    (
        "movielens",
        half_of_the_ids_and_renamed,
        {"ratings.csv:p": "users", "ratings.csv:q": "items"},
    ),
    ("movielens", unknown_items_and_renamed, {"ratings.csv:iid": "items"}),
]


def test_there_are_enough_variants() -> None:
    assert len(VARIANTS) >= 40


@pytest.mark.parametrize(
    ("name", "spoil", "answers"), VARIANTS, ids=lambda v: getattr(v, "__name__", None)
)
def test_no_wrong_guess_without_a_question(name, spoil, answers, tmp_path) -> None:
    data = DATA[name]()
    spoil(data)
    data.write(tmp_path)
    asked = []
    if answers:
        with pytest.raises(UnsureError) as unsure:
            sketch_project(tmp_path)
        question = unsure.value.question
        assert f"--choose {question.key}=" in str(unsure.value)
        assert question.key in answers
        if question.key in answers and "none" in answers.values():
            said = str(unsure.value)
            assert all(part in said for part in data.says)

    def ask(question):
        asked.append(question.key)
        return answers[question.key]

    sketch = sketch_project(tmp_path, ask=ask)
    assert asked == list(answers)
    wanted = data.reading()
    files = {link[0] for link in wanted["links"].values()}
    assert found_reading(sketch, files) == wanted
    said = "\n".join([*sketch.matches, *sketch.notes, *map(": ".join, sketch.skipped.items())])
    if not answers:
        assert all(part in said for part in data.says), said
    if not data.no_users and data.number and "users" not in data.headless:
        (view,) = [v for v in sketch.project.views.values() if str(v.source) == data.file("users")]
        assert view.features[data.number].kind == "numeric"
    (tmp_path / "pmvge.toml").write_text(
        project_text(sketch.project, sketch.reasons, sketch.unused)
    )
    read = read_tables(read_project(tmp_path / "pmvge.toml"))
    if data.total is not None:
        (pair,) = [
            p for p, t in read.project.links.items() if str(t.source) == data.file("ratings")
        ]
        assert read.graph.links[pair].total == pytest.approx(data.total)
