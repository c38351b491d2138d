"""Numbers that JSON cannot hold."""

import json
from types import MappingProxyType

import pytest

from pmvge.cli.output import print_json
from pmvge.pages import finite_json
from pmvge.serving.context import to_json

NAN, INFINITE = float("nan"), float("inf")
CONTENT = {"a": [1.5, NAN, (2, -INFINITE)], "b": MappingProxyType({"c": INFINITE}), "d": "nan"}
EXPECTED = {"a": [1.5, None, [2, None]], "b": {"c": None}, "d": "nan"}


def test_numbers_that_are_not_finite_become_none():
    assert finite_json(CONTENT) == EXPECTED
    assert finite_json(NAN) is None
    assert finite_json(True) is True


@pytest.mark.parametrize("content", [(1.0, NAN), {"a": (NAN, [INFINITE])}])
def test_the_server_and_the_command_line_write_the_same(content, capsys):
    print_json(content)
    assert json.loads(capsys.readouterr().out) == json.loads(to_json(content))
    assert b"null" in to_json(content)
