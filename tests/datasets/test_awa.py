"""Animals with Attributes: files in the publishers' formats, and invalid files."""

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from pmvge.datasets import awa, load_attributes, load_images
from pmvge.datasets.awa import find_awa2, load_awa2, unpack_awa2
from pmvge.errors import InputError

LEVEL = {
    "classes.txt": "     1\tantelope\n     2\tgrizzly+bear\n",
    "predicates.txt": "1\tblack\n2\tbig\n3\tfast\n",
    "predicate-matrix-binary.txt": "0 0 1\n1 1 0\n",
    "predicate-matrix-continuous.txt": "  -1.00   12.5 80\n39.25 1.39  0.00\n",
}
CLASSES = ("antelope", "grizzly+bear")
LABELS = [2, 1, 2, 2, 1]


def write(folder, files) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def resnet(rows=5, columns=4, labels=LABELS, names=5):
    """Return ResNet files in which row i is 10 i, 10 i + 1, ..."""
    text = [" ".join(str(10 * i + j) for j in range(columns)) for i in range(rows)]
    return {
        "Features/ResNet101/AwA2-features.txt": "\n".join(text) + "\n",
        "Features/ResNet101/AwA2-labels.txt": "\n".join(map(str, labels)) + "\n",
        "Features/ResNet101/AwA2-filenames.txt": "".join(f"img_{i}.jpg\n" for i in range(names)),
    }


def decaf():
    return {
        f"Features/decaf/{name}/{name}_{i:04d}.txt": f"{k}.5 {i}\n3 4e0\n"
        for k, name in enumerate(CLASSES)
        for i in range(3)
    }


# -- classes --------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["awa", "awa2/Animals_with_Attributes2", "awa1"])
def test_classes_and_their_attributes(folder, tmp_path) -> None:
    write(tmp_path / folder, LEVEL)
    level = load_attributes(tmp_path)
    assert level.classes == CLASSES
    assert level.attributes == ("black", "big", "fast")
    assert level.binary.tolist() == [[0, 0, 1], [1, 1, 0]]
    expected = [[np.nan, 12.5, 80], [39.25, 1.39, 0]]
    np.testing.assert_allclose(level.strength, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("classes.txt", "1 antelope\n3 bear\n", r"classes\.txt, line 2: expected '2 <name>'"),
        ("predicates.txt", "1 black\n2\n3 fast\n", r"predicates\.txt, line 2"),
        ("predicate-matrix-binary.txt", "0 0 1\n", "binary.txt: expected 2 lines, .* got 1"),
        ("predicate-matrix-binary.txt", "0 0 1\n1 1\n", "line 2: expected 3 numbers, got 2"),
        ("predicate-matrix-binary.txt", "0 0 1\n1 2 0\n", "expected zeros and ones"),
        ("predicate-matrix-continuous.txt", "1 2 3\n4 x 6\n", "continuous.txt, line 2"),
        ("predicate-matrix-continuous.txt", "1 2 nan\n4 5 6\n", "line 1: expected finite"),
    ],
)
def test_invalid_class_files_name_the_line(file, text, message, tmp_path) -> None:
    write(tmp_path / "awa", {**LEVEL, file: text})
    with pytest.raises(InputError, match=message):
        load_attributes(tmp_path)


def test_a_complete_folder_is_preferred_to_an_incomplete_one(tmp_path) -> None:
    write(tmp_path / "awa", {"classes.txt": LEVEL["classes.txt"]})
    write(tmp_path / "awa2", LEVEL)
    assert load_attributes(tmp_path).classes == CLASSES


@pytest.mark.parametrize("kept", [[], ["classes.txt"]])
def test_missing_files_are_named_with_their_source(kept, tmp_path) -> None:
    write(tmp_path / "awa", {name: LEVEL[name] for name in kept})
    missing = "predicates.txt" if kept else "classes.txt"
    with pytest.raises(InputError) as caught:
        load_attributes(tmp_path)
    command = f"'pmvge datasets download awa2 --folder {tmp_path}'"
    for part in (
        missing,
        str(tmp_path / "awa"),
        "https://",
        "AwA2-base.zip",
        "PMVGE_DATA",
        command,
    ):
        assert part in str(caught.value)


def test_the_advised_command_has_no_folder_for_the_default_one(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PMVGE_DATA", str(tmp_path))
    with pytest.raises(InputError, match="'pmvge datasets download awa2', or download https://"):
        load_attributes()


def test_the_real_matrix() -> None:
    data = os.environ.get("PMVGE_DATA")
    if not data or not (Path(data) / "awa" / "classes.txt").is_file():
        pytest.skip("PMVGE_DATA has no awa")
    level = load_attributes(data)
    assert level.binary.shape == level.strength.shape == (50, 85)
    assert level.binary.sum() == 1562
    assert np.isnan(level.strength).sum() == 4


# -- images ---------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["awa2", "awa2/Animals_with_Attributes2", "awa"])
def test_rows_of_resnet_features(folder, tmp_path) -> None:
    write(tmp_path / folder, resnet())
    images = load_images("awa2", CLASSES, tmp_path, columns=4)
    assert images.labels.tolist() == [0, 0, 1, 1, 1]
    assert images.features[:, 0].tolist() == [10, 40, 0, 20, 30]
    assert images.features[1].tolist() == [40, 41, 42, 43]
    assert images.names == ("img_1.jpg", "img_4.jpg", "img_0.jpg", "img_2.jpg", "img_3.jpg")


def test_files_of_decaf_features(tmp_path) -> None:
    write(tmp_path / "awa1" / "Animals_with_Attributes", decaf())
    images = load_images("awa1", CLASSES, tmp_path, columns=4)
    assert images.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert images.features[4].tolist() == [1.5, 1, 3, 4]
    assert images.names[4] == "grizzly+bear_0001"


@pytest.mark.parametrize("kind", ["awa1", "awa2"])
def test_some_images_of_each_class_are_drawn_by_a_seed(kind, tmp_path) -> None:
    write(tmp_path / kind, decaf() if kind == "awa1" else resnet())
    everything = load_images(kind, CLASSES, tmp_path, columns=4)
    drawn = set()
    for seed in range(20):
        some = load_images(kind, CLASSES, tmp_path, columns=4, per_class=2, seed=seed)
        again = load_images(kind, CLASSES, tmp_path, columns=4, per_class=2, seed=seed)
        assert some.names == again.names
        assert some.labels.tolist() == [0, 0, 1, 1]
        for name, row in zip(some.names, some.features, strict=True):
            at = everything.names.index(name)
            np.testing.assert_array_equal(row, everything.features[at])
        drawn.update(some.names)
    assert drawn == set(everything.names)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (resnet(rows=4), "features.txt: expected 5 lines, one for each label, got 4"),
        (resnet(rows=6), "features.txt: expected 5 lines, one for each label, got 6"),
        (resnet(columns=3), "features.txt, line 1: expected 4 numbers, got 3"),
        (resnet(labels=[2, 1, 3, 2, 1]), "labels.txt, line 3: expected a class from 1 to 2"),
        (resnet(labels=[2, 0, 1, 2, 1]), "labels.txt, line 2: expected a class"),
        (resnet(labels=[1, 1, 1, 1, 1]), "at least 1 images of grizzly.bear, got 0"),
        (resnet(names=4), "filenames.txt: expected 5 names"),
    ],
)
def test_invalid_resnet_files_name_the_line(files, message, tmp_path) -> None:
    write(tmp_path / "awa2", files)
    with pytest.raises(InputError, match=message):
        load_images("awa2", CLASSES, tmp_path, columns=4)


def test_a_word_among_the_numbers_is_refused(tmp_path) -> None:
    files = resnet()
    name = "Features/ResNet101/AwA2-features.txt"
    write(tmp_path / "awa2", {**files, name: files[name].replace("21", "oops")})
    with pytest.raises(InputError, match=r"line 3: expected numbers: .*oops"):
        load_images("awa2", CLASSES, tmp_path, columns=4)


def test_a_damaged_decaf_file_is_named(tmp_path) -> None:
    write(tmp_path / "awa1", {**decaf(), "Features/decaf/antelope/antelope_0001.txt": "1 2 3\n"})
    with pytest.raises(InputError, match=r"antelope_0001\.txt: expected 4 numbers, got 3"):
        load_images("awa1", CLASSES, tmp_path, columns=4)


def test_too_few_images_of_a_class(tmp_path) -> None:
    write(tmp_path / "awa2", resnet())
    with pytest.raises(InputError, match="at least 3 images of antelope, got 2"):
        load_images("awa2", CLASSES, tmp_path, columns=4, per_class=3)


@pytest.mark.parametrize("kind", ["awa1", "awa2"])
def test_missing_images_are_named_with_their_source(kind, tmp_path) -> None:
    with pytest.raises(InputError) as caught:
        load_images(kind, CLASSES, tmp_path)
    message = str(caught.value)
    for part in ("Features/", str(tmp_path / kind), str(tmp_path / "awa"), "https://", "unpack"):
        assert part in message
    assert ("pmvge datasets download" in message) is (
        kind == "awa2"
    )  # awa1 has no published checksum


def test_a_class_without_a_folder(tmp_path) -> None:
    write(tmp_path / "awa1", {k: v for k, v in decaf().items() if "grizzly" not in k})
    with pytest.raises(InputError, match=r"Features/decaf/grizzly\+bear is not in"):
        load_images("awa1", CLASSES, tmp_path, columns=4)


# -- AwA2 from its archives -----------------------------------------------------------------


@pytest.fixture
def narrow(monkeypatch) -> None:
    """Use images of four numbers."""
    monkeypatch.setitem(awa.COLUMNS, "awa2", 4)


def pack(path: Path, files) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(f"Animals_with_Attributes2/{name}", text)
    return path


def archives(folder: Path, level=LEVEL, images=None) -> list[Path]:
    images = resnet() if images is None else images
    return [pack(folder / "base.zip", level), pack(folder / "features.zip", images)]


def test_all_loaders_find_the_unpacked_files(tmp_path, narrow) -> None:
    folder = tmp_path / "awa2"
    assert find_awa2(folder) is None
    unpacked = unpack_awa2(archives(folder), folder)
    assert unpacked == find_awa2(folder) == folder / "Animals_with_Attributes2"
    assert load_attributes(tmp_path).classes == CLASSES
    assert len(load_images("awa2", CLASSES, tmp_path).labels) == 5
    assert load_awa2(folder).n_links == 8


def test_all_images_and_the_attributes_of_their_classes(tmp_path, narrow) -> None:
    write(tmp_path, {**LEVEL, **resnet()})
    graph = load_awa2(tmp_path)
    assert graph.view_names == ("attribute", "image")
    assert graph.views["attribute"] is None
    assert graph.ids["attribute"].tolist() == ["black", "big", "fast"]
    names = ["img_1.jpg", "img_4.jpg", "img_0.jpg", "img_2.jpg", "img_3.jpg"]  # by class
    assert graph.ids["image"].tolist() == names
    assert graph.views["image"][:, 0].tolist() == [10, 40, 0, 20, 30]
    antelope, bear = [0, 0, 1], [1, 1, 0]
    linked = graph.links["image", "attribute"].matrix().toarray()
    assert linked.tolist() == [antelope, antelope, bear, bear, bear]


@pytest.mark.parametrize("missing", [*LEVEL, *resnet()])
def test_every_file_is_needed(missing, tmp_path) -> None:
    files = {**LEVEL, **resnet()}
    del files[missing]
    folder = tmp_path / "awa2"
    write(folder, files)
    assert find_awa2(folder) is None
    with pytest.raises(InputError, match=f"{missing} is not in .*awa2.*download awa2 --folder"):
        load_awa2(folder)
    level = {k: v for k, v in LEVEL.items() if k != missing}
    images = {k: v for k, v in resnet().items() if k != missing}
    with pytest.raises(InputError, match=f"Animals_with_Attributes2/{missing} is missing"):
        unpack_awa2(archives(tmp_path / "in", level, images), folder)
    assert not (folder / "Animals_with_Attributes2").exists()


def test_the_limit_is_above_what_is_published() -> None:
    images, columns, digits = 37_322, 2_048, 25  # a number with all digits and a space
    assert images * columns * digits < awa.MAX_BYTES < 2 * images * columns * digits
