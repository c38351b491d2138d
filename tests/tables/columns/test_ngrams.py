"""Sequences of characters as features, for scripts without blanks between words."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer

from pmvge.errors import TableError
from pmvge.tables import Feature, project_text, read_project, read_tables, rows_of, sketch_project
from pmvge.tables.columns import encodings
from pmvge.tables.columns.encoded import Notes
from pmvge.tables.columns.fitting import fit_words
from pmvge.tables.columns.saved import read_recipe
from pmvge.tables.columns.word_encodings import HashedWords, character_ngrams
from pmvge.tables.guessing.cells import are_sequences, are_unspaced

TITLES = ["東京物語", "東京の夜", "夜の物語", "北京の東", "ＴＯＫＹＯ夜"]


def test_ngrams_of_one_word_are_those_of_scikit_learn() -> None:
    encoding = fit_words("t", [pa.array(TITLES[:4])], None, (1, 3))
    reference = TfidfVectorizer(analyzer="char", ngram_range=(1, 3), min_df=2)
    wanted = reference.fit_transform(TITLES[:4]).toarray()
    assert encoding.words == tuple(reference.get_feature_names_out())
    X = encoding.encode({"t": pa.array(TITLES[:4])}, Notes())
    np.testing.assert_allclose(X.toarray(), wanted, rtol=1e-6)
    hashed = HashedWords(("t",), 64, (2, 2)).encode({"t": pa.array(TITLES)}, Notes())
    other = HashingVectorizer(
        n_features=64, alternate_sign=False, analyzer="char", ngram_range=(2, 2)
    )
    texts = [*TITLES[:4], "tokyo夜"]  # full-width letters are the same letters
    np.testing.assert_allclose(hashed.toarray(), other.transform(texts).toarray(), rtol=1e-6)


def test_ngrams_do_not_cross_blanks_and_keep_vowel_signs() -> None:
    assert character_ngrams((2, 3), "Ab cde f") == ["ab", "cd", "de", "cde"]
    assert character_ngrams((1, 2), "ก็ดี") == ["ก", "็", "ด", "ี", "ก็", "็ด", "ดี"]


def test_words_do_not_relate_such_titles_and_ngrams_do() -> None:
    pair = pa.array([TITLES[0], TITLES[1]])
    by_words = fit_words("t", [pa.array(TITLES)], None)
    by_ngrams = fit_words("t", [pa.array(TITLES)], None, (1, 3))
    products = [
        float((X @ X.T).toarray()[0, 1])
        for X in (e.encode({"t": pair}, Notes()) for e in (by_words, by_ngrams))
    ]
    assert products[0] == 0
    assert products[1] > 0.1


def test_encodings_survive_json() -> None:
    for encoding in (fit_words("t", [pa.array(TITLES)], 5, (2, 3)), HashedWords(("t",), 8, (1, 2))):
        plain = json.loads(json.dumps(encodings.to_dict(encoding)))
        assert encodings.from_dict(plain) == encoding
        recipe = {"id": "id", "blocks": [plain], "sparse": True}
        assert read_recipe("v", recipe).encodings == (encoding,)
        for bad in ([0, 1], [2], "ab", [1, 2.0], [3, 2]):
            with pytest.raises((TypeError, ValueError)):
                read_recipe("v", {**recipe, "blocks": [{**plain, "ngrams": bad}]})
    assert "ngrams" not in encodings.to_dict(HashedWords(("t",), 8))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "text", "ngrams": 3}, r"expected \[shortest, longest\].* got 3 for text"),
        ({"kind": "text", "ngrams": [3, 2]}, "two integers from 1 to 8"),
        ({"kind": "text", "ngrams": [1, 9]}, "two integers from 1 to 8"),
        ({"kind": "text", "ngrams": [True, 2]}, "two integers from 1 to 8"),
        ({"kind": "category", "ngrams": [1, 2]}, r"got \[1, 2\] for category"),
    ],
)
def test_bad_options(options, message) -> None:
    with pytest.raises(TableError, match=f"^here: ngrams: .*{message}"):
        Feature.of("here", options)


def test_a_text_that_is_too_short() -> None:
    with pytest.raises(TableError, match="expected words of 3 characters or more"):
        fit_words("t", [pa.array(["ab", "東京"])], None, (3, 4))


@pytest.mark.parametrize(
    ("cells", "unspaced"),
    [
        (TITLES, True),
        (["สวัสดีครับ", "ขอบคุณ"], True),
        (["ភាសាខ្មែរ"], True),
        (["한국어 제목", "영화"], False),
        (["Amélie", "東"], False),
        (["12", "?"], False),
    ],
)
def test_scripts_without_blanks(cells, unspaced) -> None:
    assert are_unspaced(cells) is unspaced


DNA = ["".join(np.random.default_rng(k).choice(list("ACGT"), 60)) for k in range(40)]
SMILES = ["CC(=O)Oc1ccccc1C(=O)O", "CN1C=NC2=C1C(=O)N(C(=O)N2C)C", "CC(C)Cc1ccc(cc1)C(C)C(=O)O"]


@pytest.mark.parametrize(
    ("cells", "sequences"),
    [
        (DNA, True),
        (SMILES, True),
        ([*DNA[:19], "not known"], True),
        (["Les Quatre Cents Coups", "Jules et Jim, or the other one"], False),
        (["Heat", "Alien"], False),
        (["red,green,blue,yellow", "black|white|silver|gold"], False),
        ([], False),
    ],
)
def test_long_cells_without_blanks_are_sequences(cells, sequences) -> None:
    assert are_sequences(cells) is sequences


def test_texts_without_shared_words_get_a_note() -> None:
    notes = Notes()
    fit_words("dna", [pa.array(DNA[:30]), pa.array([*DNA[30:], None])], None, None, notes)
    fit_words("titles", [pa.array(["red house", "blue house", "red sky"])], None, None, notes)
    fit_words("ngrams", [pa.array(DNA)], None, (2, 4), notes)
    fit_words("one", [pa.array(["red"])], None, None, notes)
    assert notes == {("dna", "unshared"): 1}


def test_init_chooses_sequences_of_characters_and_fit_notes_useless_words(tmp_path) -> None:
    microbes = pd.DataFrame({"microbe_id": [f"m{k}" for k in range(40)], "sequence": DNA})
    seen = pd.DataFrame(
        {"sample": np.arange(200) % 9, "microbe_id": [f"m{k}" for k in range(40)] * 5}
    )
    microbes.to_csv(tmp_path / "microbes.csv", index=False)
    seen.to_csv(tmp_path / "seen.csv", index=False)
    project = sketch_project(tmp_path).project
    assert project.views["microbes"].features == {"sequence": Feature("text", ngrams=(2, 4))}
    assert read_tables(project).notes() == []
    words = replace(project.views["microbes"], features={"sequence": Feature("text")})
    (note,) = read_tables(replace(project, views={**project.views, "microbes": words})).notes()
    assert "view microbes: almost every word of 'sequence' occurs in one row only" in note
    assert 'set { kind = "text", ngrams = [2, 4] }' in note


def test_init_fit_and_new_rows(tmp_path) -> None:
    rng = np.random.default_rng(0)
    titles = ["".join(rng.choice(list("東京物語夜北西南海山"), 6)) for _ in range(40)]
    pd.DataFrame({"film_id": range(40), "title": titles}).to_csv(
        tmp_path / "films.csv", index=False
    )
    seen = pd.DataFrame({"user": rng.integers(0, 9, 200), "film_id": rng.integers(0, 40, 200)})
    seen.to_csv(tmp_path / "seen.csv", index=False)
    project = sketch_project(tmp_path).project
    assert project.views["films"].features["title"] == Feature("text", ngrams=(1, 3))
    (tmp_path / "pmvge.toml").write_text(project_text(project), encoding="utf-8")
    assert 'title = { kind = "text", ngrams = [1, 3] }' in project_text(project)
    graph = read_tables(read_project(tmp_path / "pmvge.toml")).graph
    tables = json.loads(json.dumps(graph.tables))
    ids, X = rows_of(tables, "films", {"film_id": [7, 99], "title": [titles[7], "abc"]})
    assert ids.tolist() == [7, 99]
    np.testing.assert_allclose(X[[0]].toarray(), graph.views["films"][[7]].toarray(), rtol=1e-6)
    assert X[[1]].nnz == 0
