"""Word vectors in the formats of GloVe and word2vec, and invalid lines."""

import numpy as np
import pytest

from pmvge.datasets import load_vectors
from pmvge.datasets.vectors import read_words
from pmvge.errors import InputError

GLOVE = "the 1 2 3\nold -1 0 .5\nworld 3 2 1.5\n. . . 9 9 9\nfurry 1e-1 0.2 7\n"


def written(folder, text, name="vectors.txt"):
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("header", ["", "5 3\n"])
@pytest.mark.parametrize("end", ["\n", " \n"])  # word2vec ends lines with a space
def test_wanted_words_in_their_order(header, end, tmp_path) -> None:
    path = written(tmp_path, header + GLOVE.replace("\n", end))
    found = load_vectors(path, ["furry", "the"])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [[0.1, 0.2, 7], [1, 2, 3]], rtol=1e-6)
    assert set(read_words(path, ["the", "unknown"])) == {"the"}


@pytest.mark.parametrize("name", ["old-world", "old+world", "old_world", "old world"])
def test_a_name_of_two_words_is_their_mean_unless_the_file_has_it(name, tmp_path) -> None:
    path = written(tmp_path, GLOVE)
    np.testing.assert_allclose(load_vectors(path, [name]), [[1, 1, 1]])
    with_name = written(tmp_path, GLOVE + f"{name} 5 6 7\n", "with_name.txt")
    np.testing.assert_allclose(load_vectors(with_name, [name]), [[5, 6, 7]])


def test_parts_give_the_words_of_a_name(tmp_path) -> None:
    path = written(tmp_path, GLOVE)
    found = load_vectors(path, ["oldworld", "oldworld"], {"oldworld": ("old", "world")})
    np.testing.assert_allclose(found, [[1, 1, 1], [1, 1, 1]])


def test_the_first_line_of_a_word_is_used(tmp_path) -> None:
    path = written(tmp_path, GLOVE + "the 7 7 7\n")
    np.testing.assert_allclose(load_vectors(path, ["the"]), [[1, 2, 3]])


def test_missing_names_are_listed(tmp_path) -> None:
    path = written(tmp_path, GLOVE)
    with pytest.raises(InputError, match=r"vectors\.txt: no vectors for 2 names: old \+ dog, cat"):
        load_vectors(path, ["old-dog", "the", "cat"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GLOVE + "dog 1 2\n", "line 6: expected a word and 3 numbers, got 2"),
        (GLOVE + "dog 1 2 3 4\n", "line 6: expected a word and 3 numbers, got 4"),
        ("4 3\n" + GLOVE, "expected 4 words, as in line 1, got 5"),
        ("6 3\n" + GLOVE, "expected 6 words, as in line 1, got 5"),
        ("5 4\n" + GLOVE, "line 2: expected a word and 4 numbers, got 3"),
        (GLOVE.replace("2 3", "2 x"), "line 1: expected numbers"),
        (GLOVE.replace("2 3", "2 nan"), "line 1: expected finite numbers"),
        (GLOVE + "\n", "line 6"),
        ("", "got none"),
        ("word\n", "line 1"),
    ],
)
def test_invalid_files_name_the_line(text, message, tmp_path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=message) as caught:
        load_vectors(path, ["the"])
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.txt"):
        load_vectors(tmp_path / "nowhere.txt", ["the"])
