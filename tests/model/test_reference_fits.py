"""Fits reproduce the committed values within rounding."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("reference_fits.py")
spec = importlib.util.spec_from_file_location("reference_fits", SCRIPT)
assert spec is not None
assert spec.loader is not None
reference = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reference)


@pytest.fixture(scope="module")
def fitted():
    return dict(reference.fits())


EXPECTED = json.loads(reference.VALUES.read_text(encoding="utf-8"))


def test_every_fit_has_committed_values(fitted):
    assert fitted.keys() == EXPECTED.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_values_are_unchanged(name, fitted):
    found, expected = reference.values(fitted[name]), EXPECTED[name]
    assert found["norms"] == pytest.approx(expected["norms"], rel=1e-5)
    assert found["log_alpha"] == pytest.approx(expected["log_alpha"], rel=1e-5)
    assert found["loss"] == pytest.approx(expected["loss"], rel=1e-5, abs=1e-6)
    assert found["validation"] == pytest.approx(expected["validation"], rel=1e-5, abs=1e-6)
