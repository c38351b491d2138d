"""The text of a project, read again, gives the same project, for any names."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmvge.tables import Feature, LinkTable, Project, Source, ViewTable, fold_columns, project_text
from pmvge.tables.columns.recipe import resolve_features
from pmvge.tables.project_file import parse_project

NAMES = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8
)
FEATURES = st.one_of(
    st.sampled_from(["numeric", "date", "category", "vector"]).map(Feature),
    st.builds(Feature, st.just("category"), st.integers(1, 99)),
    st.builds(Feature, st.just("text"), st.none() | st.integers(1, 99), st.booleans()),
)


def plain(project):
    """Return a project as plain data."""

    def of(source):
        return source and (source.path, source.database, source.table, source.query)

    return {
        name: (of(v.source), v.id, dict(v.features or {}), v.labels, v.standardize, v.sparse)
        for name, v in project.views.items()
    }, {
        pair: (of(t.source), t.columns, t.weight, t.aggregate, t.symmetrize)
        for pair, t in project.links.items()
    }


@given(
    st.lists(NAMES, min_size=2, max_size=2, unique=True),
    st.lists(NAMES, min_size=7, max_size=7),
    st.dictionaries(NAMES, FEATURES, max_size=4),
    st.booleans(),
    st.none() | st.booleans(),
    st.sampled_from(["sum", "count", "max"]),
    st.none() | st.sampled_from(["sum", "max"]),
)
def test_written_projects_are_read_back(
    views, names, features, standardize, sparse, aggregate, symmetrize
) -> None:
    a, b = views
    first, second, third, fourth, fifth, sixth, seventh = names
    project = Project(
        {
            a: ViewTable(Source(first), second, features, (third,), standardize, sparse),
            b: ViewTable(features={}),
        },
        {
            (a, b): LinkTable(
                Source(database=third, table=fourth), (fifth, sixth), seventh, aggregate
            ),
            (a, a): LinkTable(Source(query=fourth), (fifth, sixth), symmetrize=symmetrize),
        },
    )
    text = project_text(project, {a: f"why\n{first}", f"{a},{b}": "since"})
    again = parse_project("p", tomllib.loads(text), project.folder)
    assert plain(again) == plain(project)
    assert again.model == {"random_state": 0}


def test_reasons_are_comments() -> None:
    project = Project(
        {"films": ViewTable("films.csv", "id", {"x": Feature("numeric")}), "users": ViewTable()},
        {("users", "films"): LinkTable("seen.csv", ("u", "f"), "times")},
    )
    text = project_text(project, {"films": "every row has an 'id'", "users,films": "it links"})
    assert "# every row has an 'id'\n[views.films]\nsource = \"films.csv\"\n" in text
    assert '[views.films.features]\nx = "numeric"\n' in text
    assert "[views.users]\n# no source: its ids are those in the link tables\n" in text
    assert '# it links\n[[links]]\nviews = ["users", "films"]\n' in text
    assert 'weight = "times"\naggregate = "sum"' in text


NUMBERED = [f"w{at}" for at in range(12)]


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (NUMBERED, ["w[0-9]*"]),
        (NUMBERED[:9], NUMBERED[:9]),
        ([*NUMBERED, "width"], ["w[0-9]*", "width"]),
        ([f"x[{at}" for at in range(12)], [f"x[{at}" for at in range(12)]),
        ([str(at) for at in range(12)], [str(at) for at in range(12)]),
    ],
)
def test_numbered_columns_become_one_pattern(names, short) -> None:
    features = dict.fromkeys(names, Feature("numeric"))
    assert list(fold_columns(features)) == short


def test_columns_are_not_folded_if_others_match() -> None:
    features = dict.fromkeys(NUMBERED, Feature("numeric")) | {"w3x": Feature("text")}
    assert fold_columns(features) == features


@given(
    st.dictionaries(
        st.builds("{}{}".format, st.sampled_from(["w", "w*", "wo", "a"]), st.integers(0, 30)),
        st.sampled_from([Feature("numeric"), Feature("text")]),
        max_size=40,
    ),
    st.lists(st.sampled_from(["word", "weight", "wid", "class"]), unique=True),
)
def test_patterns_match_the_same_columns(features, others) -> None:
    columns = dict.fromkeys([*features, *others], "VARCHAR")
    table = ViewTable("t.csv", "key", fold_columns(features))
    assert resolve_features("t", table, columns | {"key": "VARCHAR"}) == features
