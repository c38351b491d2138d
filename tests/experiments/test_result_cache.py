"""The cache of fits: when a fit is read, and when it is computed again."""

import numpy as np

from pmvge.experiments.result_cache import cached, digest


class CountingFit:
    """A fit that counts its calls."""

    def __init__(self):
        self.count = 0

    def __call__(self):
        self.count += 1
        return {"a": np.arange(3.0) + self.count, "b": np.zeros((0, 2))}


def test_a_fit_is_computed_once_per_key(tmp_path):
    fit = CountingFit()
    first, seconds = cached(tmp_path, ["m", {"x": 1, "y": None}, 7], fit)
    again, stored_seconds = cached(tmp_path, ["m", {"y": None, "x": 1}, 7], fit)
    assert fit.count == 1
    assert stored_seconds == seconds  # of the fit, not of reading it
    assert again.keys() == first.keys() == {"a", "b"}
    for name, array in first.items():
        np.testing.assert_array_equal(again[name], array)
    cached(tmp_path, ["m", {"x": 2, "y": None}, 7], fit)
    assert fit.count == 2


def test_nothing_is_stored_without_a_folder():
    fit = CountingFit()
    cached(None, "x", fit)
    cached(None, "x", fit)
    assert fit.count == 2


def test_a_damaged_file_is_computed_again(tmp_path):
    fit = CountingFit()
    cached(tmp_path, "x", fit)
    (file,) = tmp_path.iterdir()
    content = file.read_bytes()
    for k, damaged in enumerate((content[:100], b"", b"\x80\x04N."), start=2):
        file.write_bytes(damaged)
        found, _ = cached(tmp_path, "x", fit)
        assert fit.count == k
        assert found["a"][0] == k
    cached(tmp_path, "x", fit)
    assert fit.count == 4


def test_a_digest_depends_on_content_type_and_shape():
    a = np.arange(6)
    same = digest(a, a[:0])
    assert digest(a.copy(), a[:0]) == same
    others = [digest(a + 1, a[:0]), digest(a.astype(np.int32), a[:0]), digest(a.reshape(2, 3))]
    others += [digest(a[:0], a), digest(a)]
    assert len({same, *others}) == 6
