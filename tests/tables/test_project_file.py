"""Every key of a project file is checked; an error names the key."""

import tomllib

import pytest

from pmvge.errors import TableError
from pmvge.tables import Feature, read_project
from pmvge.tables.project_file import parse_project

GOOD = """
[views.films]
source = "films.csv"
id = "film"
labels = ["genre"]
standardize = false
sparse = true
[views.films.features]
year = "numeric"
plot = { kind = "text", hashed = true, size = 64 }
"w*" = "numeric"
[views.users]
database = "shop.db"
table = "users"
id = "user"
[views.tags]
[[links]]
views = ["users", "films"]
query = "SELECT * FROM 'seen.csv'"
columns = ["user", "film"]
weight = "times"
aggregate = "max"
[[links]]
views = ["users", "users"]
database = "shop.db"
query = "SELECT * FROM friends"
columns = ["a", "b"]
symmetrize = "sum"
[model]
n_components = 8
"""


def test_a_project_file_is_read(write, tmp_path) -> None:
    project = read_project(tmp_path / write("pmvge.toml", GOOD))
    assert project.folder == tmp_path.resolve()
    assert project.model == {"n_components": 8}
    films, users, tags = (project.views[name] for name in ("films", "users", "tags"))
    assert (films.source.path, films.id, films.labels) == ("films.csv", "film", ("genre",))
    assert (films.standardize, films.sparse) == (False, True)
    assert films.features == {
        "year": Feature("numeric"),
        "plot": Feature("text", 64, True),
        "w*": Feature("numeric"),
    }
    assert (users.source.database, users.source.table, users.features) == ("shop.db", "users", {})
    assert (users.standardize, users.sparse) == (True, None)
    assert tags.source is None
    seen, friends = project.links.values()
    assert list(project.links) == [("users", "films"), ("users", "users")]
    assert (seen.columns, seen.weight, seen.aggregate) == (("user", "film"), "times", "max")
    assert (friends.source.query, friends.symmetrize) == ("SELECT * FROM friends", "sum")
    assert (friends.weight, friends.aggregate) == (None, "sum")


VIEW = '[views.v]\nsource = "v.csv"\nid = "id"\n'
LINK = '[[links]]\nviews = ["v", "v"]\nsource = "l.csv"\ncolumns = ["a", "b"]\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"p: expected at least one view, like \[views.films\]"),
        ("views = 3\n" + LINK, "p: expected at least one view"),
        (VIEW, r"p: expected at least one link table, like \[\[links\]\]"),
        ("links = 3\n" + VIEW, "p: expected at least one link table"),
        ("links = []\n" + VIEW, "p: expected at least one link table"),
        ("link = 1\n" + VIEW + LINK, "p: unknown key 'link': .*did you mean 'links'"),
        ("model = 1\n" + VIEW + LINK, "p: model: expected parameters, like"),
        ("views.w = 3\n" + VIEW + LINK, "p: views.w: expected a table of keys, got 3"),
        (VIEW + "sorce = 1\n" + LINK, "p: views.v: unknown key 'sorce'.*did you mean 'source'"),
        ("[views.v]\nsource = 3\nid = 'id'\n" + LINK, "views.v: source: expected a string, got 3"),
        (
            "[views.v]\nsource = ''\nid = 'id'\n" + LINK,
            "views.v: source: expected a string, got ''",
        ),
        (
            "[views.v]\nsource = 'v.csv'\n" + LINK,
            "views.v: id: expected a string, the key is missing",
        ),
        ("[views.v]\nsource = 'v.csv'\nid = 3\n" + LINK, "views.v: id: expected a string, got 3"),
        ("[views.v]\nid = 'id'\n" + LINK, "views.v: id, name and features need a source"),
        ("[views.v]\nfeatures.a = 'text'\n" + LINK, "views.v: id, name and features need a source"),
        (VIEW + "query = 'x'\n" + LINK, "views.v: expected source, or .*; got source and query"),
        ("[views.v]\ntable = 'x'\nid = 'id'\n" + LINK, "views.v: expected source, .*; got table"),
        ("[views.v]\ndatabase = 'x'\nid = 'i'\n" + LINK, "views.v: .*; got database"),
        (VIEW + "labels = 'x'\n" + LINK, "views.v: labels: expected a list of strings, got 'x'"),
        (VIEW + "labels = [1]\n" + LINK, r"views.v: labels: expected a list of strings, got \[1\]"),
        (VIEW + "standardize = 1\n" + LINK, "standardize: expected true or false, got 1"),
        (VIEW + "sparse = 'no'\n" + LINK, "views.v: sparse: expected true or false, got 'no'"),
        (VIEW + "features = ['a']\n" + LINK, "views.v: features: expected column = kind, got"),
        (VIEW + "features.a = 3\n" + LINK, "features.a: expected a kind, one of numeric.*got 3"),
        (VIEW + "features.a = 'txt'\n" + LINK, "features.a: unknown kind 'txt'.*mean 'text'"),
        (VIEW + "features.a = {}\n" + LINK, "features.a: unknown kind None"),
        (VIEW + "features.a = {knd = 'text'}\n" + LINK, "a: unknown key 'knd'.*mean 'kind'"),
        (VIEW + "features.a = {kind = 'text', size = 0}\n" + LINK, "a: size: expected a pos.* 0"),
        (VIEW + "features.a = {kind = 'text', size = true}\n" + LINK, "a: size: .* True"),
        (VIEW + "features.a = {kind = 'text', size = 1.5}\n" + LINK, "a: size: .* 1.5"),
        (VIEW + "features.a = {kind = 'date', hashed = true}\n" + LINK, "hashed = true needs"),
        (
            VIEW + "features.a = {kind = 'text', hashed = 1}\n" + LINK,
            "hashed = true needs kind text",
        ),
        ("links = [3]\n" + VIEW, "p: links 1: expected a table of keys, got 3"),
        (VIEW + LINK + "wieght = 'x'\n", "p: links 1: unknown key 'wieght'.*mean 'weight'"),
        (VIEW + LINK + "weight = 3\n", "p: links 1: weight: expected a string, got 3"),
        (VIEW + LINK + "aggregate = 'mean'\n", "links 1: unknown aggregate 'mean': .*'count'"),
        (VIEW + LINK + "symmetrize = 'mean'\n", "links 1: unknown symmetrize 'mean'"),
        (
            VIEW + LINK + LINK,
            "p: links 2: expected one table per view pair, got another of 'v' and 'v'",
        ),
        (VIEW + LINK.replace('"v", "v"', '"v", "w"'), "links 1: unknown view 'w': .*'v'"),
        (VIEW + LINK.replace('"v", "v"', '"v"'), r"links 1: views: expected two names, got \['v"),
        (VIEW + LINK.replace('["a", "b"]', '"a"'), "links 1: columns: expected a list of strings"),
        (VIEW + LINK.replace(', "b"', ""), "links 1: columns: expected two names"),
        (VIEW + LINK.replace('source = "l.csv"\n', ""), "links 1: expected source, or database"),
    ],
)
def test_errors_name_the_key(tmp_path, text, message) -> None:
    with pytest.raises(TableError, match=message) as caught:
        parse_project("p", tomllib.loads(text), tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[views", "not valid TOML: "),
        (b"a = '\xff'", "not valid TOML: "),
        (None, "no such project file; 'pmvge init' writes one"),
        ("folder", "cannot be read: "),
    ],
)
def test_unreadable_project_files(tmp_path, content, message) -> None:
    path = tmp_path / "pmvge.toml"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(TableError, match=f"pmvge.toml: {message}") as caught:
        read_project(path)
    assert "\n" not in str(caught.value)
