"""Fits that are kept: made once, and again only when they should be."""

import numpy as np

from pmvge.experiments.kept import digest, kept


class Maker:
    """Counts how often it is asked."""

    def __init__(self):
        self.count = 0

    def __call__(self):
        self.count += 1
        return {"a": np.arange(3.0) + self.count, "b": np.zeros((0, 2))}


def test_made_once_for_the_same_and_again_for_anything_else(tmp_path):
    make = Maker()
    first, seconds = kept(tmp_path, ["m", {"x": 1, "y": None}, 7], make)
    again, then = kept(tmp_path, ["m", {"y": None, "x": 1}, 7], make)
    assert make.count == 1
    assert then == seconds  # of the fit, not of reading it
    assert again.keys() == first.keys() == {"a", "b"}
    for name, array in first.items():
        np.testing.assert_array_equal(again[name], array)
    kept(tmp_path, ["m", {"x": 2, "y": None}, 7], make)
    assert make.count == 2


def test_nothing_is_kept_without_a_folder():
    make = Maker()
    kept(None, "x", make)
    kept(None, "x", make)
    assert make.count == 2


def test_what_is_damaged_is_made_again(tmp_path):
    make = Maker()
    kept(tmp_path, "x", make)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    for k, damaged in enumerate((whole[:100], b"", b"\x80\x04N."), start=2):
        file.write_bytes(damaged)
        found, _ = kept(tmp_path, "x", make)
        assert make.count == k
        assert found["a"][0] == k
    kept(tmp_path, "x", make)
    assert make.count == 4


def test_a_digest_tells_arrays_apart_by_content_type_and_shape():
    a = np.arange(6)
    same = digest(a, a[:0])
    assert digest(a.copy(), a[:0]) == same
    others = [digest(a + 1, a[:0]), digest(a.astype(np.int32), a[:0]), digest(a.reshape(2, 3))]
    others += [digest(a[:0], a), digest(a)]
    assert len({same, *others}) == 6
