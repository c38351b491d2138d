"""``pmvge methods``: the table shows the flags of the classes."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from pmvge.cli.app import app
from pmvge.errors import ParameterError
from pmvge.experiments import METHODS, TABLE
from pmvge.experiments.methods import FLAGS


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["methods", *arguments], env={"COLUMNS": "120"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_the_table_shows_every_flag():
    lines = run().splitlines()
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if "│" in line]
    shown = {row[0]: row[1:6] for row in cells if row[0]}
    assert list(shown) == list(METHODS)
    for name, (views, *marks) in shown.items():
        assert views == str(METHODS[name].n_views)
        assert [mark == "✓" for mark in marks] == [getattr(METHODS[name], f) for f in FLAGS], name
    header = next(line for line in lines if "Nv" in line)
    assert header.split()[1::2][:6] == ["method", "Nv", "MM", "NL", "Ind", "Lik"]
    rule = next(k for k, line in enumerate(lines) if line.startswith("├"))
    assert TABLE[-1] in lines[rule - 1]  # a line divides table 1 from the others


def test_json_has_flags_and_texts():
    cards = json.loads(run("--json"))
    assert [card["name"] for card in cards] == list(METHODS)
    (sge,) = [card for card in cards if card["name"] == "SGE"]
    assert (sge["n_views"], sge["many_to_many"], sge["inductive"]) == (0, True, False)
    assert "NIPS 2001" in sge["references"]


@pytest.mark.parametrize("name", METHODS)
def test_one_method_is_described(name):
    (card,) = json.loads(run(name, "--json"))
    text = " ".join(run(name).split())
    assert card["title"] in text
    assert "Choose it" in text
    assert ":math:" not in text
    home = "pmvge" if name == "PMvGE" else "pmvge.baselines"
    assert text.endswith(f"from {home} import {name}")


def test_an_unknown_method_suggests_the_closest():
    with pytest.raises(ParameterError, match=r"unknown method 'DeepWlk'.*did you mean 'DeepWalk'"):
        run("DeepWlk")
