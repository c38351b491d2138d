"""No statement has a name or a value of somebody else's pasted into it: found in the source.

A statement is text of ours in which what comes from tables, files and projects stands in quotes,
by ``quoted`` (names) and ``literal`` (texts), which test_sources.py attacks. Ids and values are not
in statements at all: they are columns of registered tables. What follows reads every f-string that
is executed back to its pieces.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import pmvge

SOURCE = Path(pmvge.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

QUOTING = {"quoted", "literal"}
# Functions that make pieces of SQL, and where they are: there they are held to the same rules.
MAKERS = {
    "_number_facts": "tables/guessing/profile.py",
    "_plain": "tables/columns/casts.py",
    "scan_files": "tables/sources/files.py",
    "_text": "tables/columns/casts.py",
    "_weight": "tables/joining.py",
    "_whole": "tables/columns/casts.py",
    "_word_facts": "tables/guessing/profile.py",
    "as_id": "tables/columns/casts.py",
    "cast": "tables/columns/casts.py",
    "is_wrong": "tables/columns/casts.py",
    "typed": "tables/columns/casts.py",
}
OF_PIECES = {"_text", "_whole"}  # of these the arguments are SQL already
# Where SQL is executed, and at which place of the arguments it stands.
METHODS = {"execute": 0, "executemany": 0, "executescript": 0, "from_query": 0, "sql": 0}
FUNCTIONS = {"ask": 1, "batches": 1}
# What else there may be: (file, function, expression), and why.
GRANTED = {
    (
        "tables/sources/staging.py",
        "stage",
        "source.query",
    ): "the user's own SQL, of the project file",
    ("tables/sources/databases.py", "stage_database", "source.query"): "the same",
    ("tables/sources/databases.py", "_copy_sqlite", "query"): "what stage_database made",
    ("tables/sources/workbench.py", "ask", "query"): "whoever asks is looked at",
    ("tables/columns/recipe.py", "batches", "query"): "the same",
    ("tables/columns/casts.py", "typed", "others"): "ids and labels, made by as_id and quoted",
    ("tables/views.py", "stage_view", "rows"): "what typed made",
    ("tables/new_tables.py", "read_rows", "rows"): "the same",
    ("tables/guessing/profile.py", "_ask_all", "facts"): "what _number_facts and _word_facts made",
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Place:
    """A function, and the loops of the comprehensions around an expression in it."""

    function: Function
    loops: tuple[ast.comprehension, ...] = ()
    seen: frozenset[str] = frozenset()


class Reader:
    """The pieces of a file's SQL that are neither ours nor in quotes."""

    def __init__(self, file: str, source: str) -> None:
        self.file, self.tree = file, ast.parse(source)
        self.functions = [node for node in ast.walk(self.tree) if isinstance(node, Function)]

    def complaints(self) -> list[str]:
        found = []
        for function in self.functions:
            for node in ast.walk(function):
                if (statement := executed(node)) is not None:
                    found += [*self.pasted(statement, Place(function))]
                makes = MAKERS.get(function.name) == self.file
                if isinstance(node, ast.Return | ast.Yield) and makes and node.value:
                    many = isinstance(node.value, ast.Tuple)
                    look = self.pasted_each if many else self.pasted
                    found += [*look(node.value, Place(function))]
        outside = ast.Module([n for n in self.tree.body if not isinstance(n, Function)], [])
        inner = {id(node) for function in self.functions for node in ast.walk(function)}
        found += [
            f"{self.file}: executed outside of a function: {ast.unparse(node)}"
            for node in ast.walk(outside)
            if executed(node) is not None and id(node) not in inner
        ]
        return found

    def pasted(self, sql: ast.expr, at: Place) -> Iterator[str]:
        """What an expression of SQL has in it that may be anything."""
        if (self.file, at.function.name, ast.unparse(sql)) in GRANTED:
            return
        match sql:
            case ast.Constant():
                return
            case ast.JoinedStr(values):
                parts = [v.value for v in values if isinstance(v, ast.FormattedValue)]
            case ast.BinOp(left, _, right):
                parts = [left, right]
            case ast.IfExp(_, body, orelse):
                parts = [body, orelse]
            case ast.BoolOp(_, values):
                parts = values
            case ast.Call(ast.Name(name)) if name in QUOTING or name in ("int", "len"):
                return
            case ast.Call(ast.Name(name) | ast.Attribute(_, name), args) if name in MAKERS:
                parts = args if name in OF_PIECES else []
            case ast.Call(ast.Attribute(template, "format"), args):
                parts = [template, *args]
            case ast.Call(ast.Name("max" | "min"), args):  # of numbers, as they are here
                parts = args
            case ast.Call(ast.Attribute(ast.Constant(str()), "join"), [items]):
                yield from self.pasted_each(items, at)
                return
            case ast.Subscript(ast.Dict() | ast.Name() as table):
                yield from self.pasted_each(table, at)
                return
            case ast.Name(name):
                yield from self.pasted_name(name, at)
                return
            case _:
                yield self.told(sql, at)
                return
        for part in parts:
            yield from self.pasted(part, at)

    def pasted_each(self, items: ast.expr, at: Place) -> Iterator[str]:
        """The same of all that a collection holds."""
        match items:
            case ast.List(elts) | ast.Tuple(elts) | ast.Dict(_, elts):
                for one in elts:
                    yield from self.pasted(one, at)
            case (
                ast.ListComp(one, loops)
                | ast.GeneratorExp(one, loops)
                | ast.DictComp(_, one, loops)
            ):
                yield from self.pasted(one, replace(at, loops=(*loops, *at.loops)))
            case ast.Call(ast.Name("map"), [ast.Name(name), *_]) if name in QUOTING:
                return
            case ast.BinOp(left, _, right):
                yield from self.pasted_each(left, at)
                yield from self.pasted_each(right, at)
            case ast.Call(ast.Attribute(inner, "values"), []) | ast.Subscript(inner):
                yield from self.pasted_each(inner, at)
            case ast.Name(name):
                yield from self.pasted_name(name, at, each=True)
            case _:
                yield self.told(items, at)

    def pasted_name(self, name: str, at: Place, *, each: bool = False) -> Iterator[str]:
        """The same of all that a name stands for in its function, or else in its module."""
        if name in at.seen or (self.file, at.function.name, name) in GRANTED:
            return
        places = [at.loops, [*ast.walk(at.function)], self.tree.body]
        found = ([value for node in place for value in bound(node, name)] for place in places)
        values = next(filter(None, found), [])
        given = self.is_given(name, at.function)
        if given or (given is None and not values):
            yield self.told(ast.Name(name), at)
        for is_all, value in values:
            look = self.pasted_each if each != is_all else self.pasted
            yield from look(value, replace(at, seen=at.seen | {name}))

    def is_given(self, name: str, function: Function) -> bool | None:
        """Whether a function is given a name's value by somebody; None if it takes no such."""
        for one in function.args.args + function.args.kwonlyargs:
            if one.arg == name:
                number = one.annotation is not None and ast.unparse(one.annotation) == "int"
                piece = function.name in OF_PIECES and MAKERS[function.name] == self.file
                return not number and not piece
        return None

    def told(self, sql: ast.expr, at: Place) -> str:
        return f"{self.file}, {at.function.name}: {ast.unparse(sql)}"


def executed(node: ast.AST) -> ast.expr | None:
    """The SQL of a call that executes some."""
    match node:
        case ast.Call(ast.Attribute(_, name), args) if name in METHODS and args:
            return args[METHODS[name]]
        case ast.Call(ast.Name(name), args) if name in FUNCTIONS:
            return args[FUNCTIONS[name]]
    return None


def bound(node: ast.AST, name: str) -> Iterator[tuple[bool, ast.expr]]:
    """What a name gets its value from: (False, that value) or (True, what it is one entry of)."""
    match node:
        case ast.Assign([ast.Name(found)], value) | ast.AnnAssign(ast.Name(found), _, value):
            yield from [(False, value)] if found == name and value is not None else []
        case ast.NamedExpr(ast.Name(found), value) | ast.AugAssign(ast.Name(found), _, value):
            yield from [(False, value)] if found == name else []
        case ast.Call(ast.Attribute(ast.Name(found), "append"), [value]) if found == name:
            yield False, ast.List([value])
        case ast.For(ast.Name(found), value) | ast.comprehension(ast.Name(found), value):
            yield from [(True, value)] if found == name else []
        case ast.Assign([ast.Tuple(targets)], value):
            yield from _unpacked(targets, [value], name)
        case ast.For(ast.Tuple(targets), value) | ast.comprehension(ast.Tuple(targets), value):
            rows = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
            yield from _unpacked(targets, rows, name)


def _unpacked(
    targets: list[ast.expr], rows: list[ast.expr], name: str
) -> Iterator[tuple[bool, ast.expr]]:
    for at, target in enumerate(targets):
        if isinstance(target, ast.Name) and target.id == name:
            for row in rows:
                known = isinstance(row, ast.Tuple)
                yield (False, row.elts[at]) if known else (True, row)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_is_pasted(path: Path) -> None:
    reader = Reader(path.relative_to(SOURCE).as_posix(), path.read_text("utf-8"))
    assert reader.complaints() == []


@pytest.mark.parametrize(
    "line",
    [
        'db.execute(f"SELECT * FROM {table}")',
        'db.execute(f"SELECT {quoted(column)} FROM t WHERE id = {value!r}")',
        'db.execute("SELECT * FROM " + table)',
        'db.execute("SELECT %s" % value)',
        'db.execute("SELECT {}".format(value))',
        "db.sql(table)",
        'ask(db, f"SELECT {value} FROM {quoted(table)}")',
        'name = table\n    ask(db, f"SELECT * FROM {name}")',
        'names = [quoted(table)]\n    names.append(value)\n    ask(db, ", ".join(names))',
        'ask(db, "SELECT " + ", ".join(c for c in columns))',
        'ask(db, "SELECT " + ", ".join(columns))',
        'ask(db, "SELECT " + ", ".join([quoted(column)] + columns))',
        'a, b = quoted(table), value\n    ask(db, f"SELECT {b} FROM {a}")',
        'for one in columns:\n        ask(db, f"SELECT {one}")',
        'what = quoted(table) if value else table\n    ask(db, f"SELECT {what}")',
        'ask(db, f"SELECT {str(value)}")',
        'ask(db, f"SELECT {_text(table)}")',
        "db.executescript(value)",
    ],
)
def test_it_would_be_seen(line: str) -> None:
    source = f"def f(db, table, column, value, columns):\n    {line}\n"
    assert Reader("tables/new.py", source).complaints()


@pytest.mark.parametrize(
    "line",
    [
        'db.execute("SELECT 1")',
        'db.execute(f"SELECT {quoted(column)} FROM t WHERE id = {literal(value)}")',
        'db.execute("SELECT * FROM t WHERE id = ?", [value])',
        'a, b = (quoted(c) for c in columns)\n    ask(db, f"SELECT {a}, {b}")',
        'ask(db, "SELECT " + ", ".join(map(quoted, columns)))',
        'ask(db, f"SELECT {_text(quoted(column))} LIMIT {len(columns)}")',
    ],
)
def test_what_is_quoted_is_not(line: str) -> None:
    source = f"def f(db, table, column, value, columns):\n    {line}\n"
    assert Reader("tables/new.py", source).complaints() == []


def test_there_is_sql_to_look_at() -> None:
    """As long as it is executed by these names: else the tests above would see nothing."""
    calls = [
        node
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if executed(node) is not None
    ]
    assert len(calls) > 40
    for file, function, expression in GRANTED:
        tree = ast.parse((SOURCE / file).read_text("utf-8"))
        (found,) = [n for n in ast.walk(tree) if isinstance(n, Function) and n.name == function]
        assert expression in ast.unparse(found)
