"""WordNet on tiny files in the publisher's layout."""

import pytest

from pmvge.datasets import load_wordnet, wordnet
from pmvge.errors import InputError

LICENCE = "  1 This software and database is being provided to you, the LICENSEE, by Princeton\n"


def line(offset, words, pointers):
    """Return a line of data.noun: offset, file, kind, words, pointers, gloss."""
    names = " ".join(f"{word} 0" for word in words)
    links = " ".join(f"{kind} {target} {part} 0000" for kind, target, part in pointers)
    return (
        f"{offset} 05 n {len(words):02x} {names} {len(pointers):03d} {links} | a gloss ~ with | \n"
    )


# animal > dog > puppy, animal > pet > puppy, dog > Lassie (an instance); plant is no animal.
DATA = (
    LICENCE
    + line("00000001", ["animal", "beast"], [("~", "00000002", "n"), ("~", "00000003", "n")])
    + line("00000002", ["dog"], [("@", "00000001", "n"), ("~", "00000004", "n"),
                                  ("~i", "00000005", "n"), ("+", "00000001", "v")])
    + line("00000003", ["pet"], [("@", "00000001", "n"), ("~", "00000004", "n")])
    + line("00000004", ["puppy"], [("@", "00000002", "n"), ("@", "00000003", "n")])
    + line("00000005", ["Lassie"], [("@i", "00000002", "n")])
    + line("00000006", ["plant"], [])
)  # fmt: skip
INDEX = (
    LICENCE
    + "animal n 2 2 ~ + 2 1 00000001 00000006\n"
    + "dog n 1 2 @ ~ 1 1 00000002\n"
    + "plant n 1 0 1 0 00000006\n"
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(wordnet, "SYSTEM", tmp_path / "nowhere")
    (tmp_path / "data.noun").write_text(DATA)
    (tmp_path / "index.noun").write_text(INDEX)
    return tmp_path


def links_of(graph):
    links, ids = graph.links["synset", "synset"], graph.ids["synset"]
    names = [name.partition("-")[0] for name in ids]
    return {
        frozenset((names[i], names[j])) for i, j in zip(links.rows, links.cols, strict=True)
    }  # fmt: skip


def test_the_closure_links_every_synset_with_all_ancestors(folder):
    graph = load_wordnet("animal", folder)
    assert sorted(graph.ids["synset"]) == [
        "Lassie-00000005", "animal-00000001", "dog-00000002", "pet-00000003", "puppy-00000004",
    ]  # fmt: skip
    pairs = ["animal dog", "animal pet", "animal puppy", "animal Lassie", "dog puppy",
             "dog Lassie", "pet puppy"]  # fmt: skip
    assert links_of(graph) == {frozenset(pair.split()) for pair in pairs}
    assert graph.links["synset", "synset"].equal_weights


def test_a_root_below_has_ancestors_up_to_itself(folder):
    graph = load_wordnet("dog", folder)
    assert links_of(graph) == {frozenset(("dog", "puppy")), frozenset(("dog", "Lassie"))}


def test_files_are_found_in_the_subfolder_dict_and_in_the_system(folder, tmp_path, monkeypatch):
    (tmp_path / "dict").mkdir()
    for name in ("data.noun", "index.noun"):
        (folder / name).rename(tmp_path / "dict" / name)
    assert len(load_wordnet("animal", tmp_path).ids["synset"]) == 5
    monkeypatch.setattr(wordnet, "SYSTEM", tmp_path / "dict")
    assert len(load_wordnet("animal", tmp_path / "empty").ids["synset"]) == 5


def test_bad_files_are_errors(folder):
    with pytest.raises(InputError, match="expected the noun 'unicorn', got none"):
        load_wordnet("unicorn", folder)
    (folder / "index.noun").write_text("dog n 1 2 @ ~ 1 1 00000009\n")
    with pytest.raises(InputError, match="expected the synset 00000009 of 'dog', got none"):
        load_wordnet("dog", folder)
    (folder / "data.noun").write_text(DATA + "00000007 05 n zz x\n")
    with pytest.raises(InputError, match="line 8: expected an offset, words and pointers, got"):
        load_wordnet("dog", folder)
    (folder / "data.noun").unlink()
    with pytest.raises(InputError, match=r"WordNet not found: expected data.noun and index.noun"):
        load_wordnet("dog", folder)
