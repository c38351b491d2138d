"""Error messages for missing word vectors of the attributes."""

import pytest

from pmvge.errors import InputError
from pmvge.experiments.paper.animals import load_animals

HOW = {
    "glove": ("glove/glove.6B.300d.txt", "glove.6B.zip from https://nlp.stanford.edu/projects/glove/"),
    "word2vec": ("awa/attribute_word2vec_300d.txt", "lines 'attribute v1 ... v300'"),
}  # fmt: skip


@pytest.mark.parametrize("vectors", HOW)
def test_the_error_names_the_missing_file_and_its_source(vectors, tmp_path) -> None:
    (tmp_path / "awa").mkdir()
    for name, text in {
        "classes.txt": "1 antelope\n",
        "predicates.txt": "1 black\n",
        "predicate-matrix-binary.txt": "1\n",
        "predicate-matrix-continuous.txt": "80\n",
    }.items():
        (tmp_path / "awa" / name).write_text(text)
    with pytest.raises(InputError) as caught:
        load_animals(tmp_path, images="awa2", vectors=vectors, per_class=1, noise=None, seed=0)
    file, how = HOW[vectors]
    for part in (f"{file} is not in {tmp_path}", how, f"put it at {tmp_path / file}"):
        assert part in str(caught.value)
