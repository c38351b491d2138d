"""Side effects, from a small MATLAB file."""

import numpy as np
import pytest
from scipy import io

from pmvge.datasets import load_side_effects
from pmvge.errors import InputError


def test_the_matrix_becomes_links(tmp_path):
    R = np.array([[0, 1, 5], [2, 0, 0]], np.uint8)
    io.savemat(tmp_path / "FrequencyData.mat", {"R": R, "other": [1]})
    graph = load_side_effects(tmp_path)
    assert dict(graph.sizes) == {"drug": 2, "effect": 3}
    np.testing.assert_array_equal(graph.links["drug", "effect"].matrix().toarray(), R)


def test_missing_and_damaged_files_are_errors(tmp_path):
    with pytest.raises(InputError, match=r"side effects not found: expected FrequencyData.mat"):
        load_side_effects(tmp_path)
    (tmp_path / "FrequencyData.mat").write_bytes(b"not a matlab file" * 20)
    with pytest.raises(InputError, match="cannot be read as a MATLAB file"):
        load_side_effects(tmp_path)
    io.savemat(tmp_path / "FrequencyData.mat", {"R": np.array([[-1.0, 2.0]])})
    with pytest.raises(InputError, match="expected a matrix R of frequencies"):
        load_side_effects(tmp_path)
