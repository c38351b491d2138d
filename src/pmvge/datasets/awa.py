"""Animals with Attributes: 50 classes of animals, 85 attributes, and images as feature vectors.

The files have the publishers' formats. Class level, the same in AwA1 and AwA2:

- ``classes.txt`` and ``predicates.txt``: lines ``<number from 1> <name>``;
- ``predicate-matrix-binary.txt``: a line of 85 zeros and ones for each class;
- ``predicate-matrix-continuous.txt``: the same with 0 to 100, and -1 for unknown values.

Images:

- AwA1, DeCAF: ``Features/decaf/<class>/<image>.txt``, one file of 4,096 numbers for each image;
- AwA2, ResNet101: in ``Features/ResNet101``, one line for each image in ``AwA2-features.txt``
  (2,048 numbers), ``AwA2-labels.txt`` (its class, from 1) and ``AwA2-filenames.txt`` (its name).

The files are in the folder ``awa``, ``awa1`` or ``awa2`` of the data folder, or in a subfolder
``Animals_with_Attributes`` or ``Animals_with_Attributes2``, as in the archives. ``pmvge datasets
download awa2`` downloads all files of AwA2.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmvge.datasets.downloads import data_folder
from pmvge.datasets.unpacking import unpack
from pmvge.datasets.vectors import parse_numbers
from pmvge.errors import InputError, choose, short
from pmvge.graph import MultiViewGraph

FOLDERS = ("awa", "awa1", "awa2")
PACKED = (".", "Animals_with_Attributes", "Animals_with_Attributes2")
# Where the images' features are, relative to one of these folders.
IMAGES = {"awa1": "Features/decaf", "awa2": "Features/ResNet101"}
COLUMNS = {"awa1": 4096, "awa2": 2048}
CLASS_FILES = (
    "classes.txt", "predicates.txt", "predicate-matrix-binary.txt",
    "predicate-matrix-continuous.txt",
)  # fmt: skip
RESNET = tuple(f"{IMAGES['awa2']}/AwA2-{what}.txt" for what in ("features", "labels", "filenames"))
SOURCE = "https://cvml.ista.ac.at/AwA2/"
MD5 = {  # from the publisher
    "AwA2-base.zip": "27998437f72823d8ac314257682b57ca",
    "AwA2-features.zip": "b1735c7b8a9044b1d51903b4c9e9fcd5",
}
BASE, FEATURES = (f"{SOURCE}{name} (md5 {md5})" for name, md5 in MD5.items())
# AwA1 has no published checksum: users download it themselves.
DECAF = "the DeCAF features of AwA1, https://cvml.ista.ac.at/AwA/ (AwA-features-decaf)"
MAX_BYTES = 3_000_000_000  # unpacked: 37,322 x 2,048 numbers of up to 25 bytes, and other files
# The words of attributes whose names are not words.
PARTS: dict[str, tuple[str, ...]] = {
    "toughskin": ("tough", "skin"), "longleg": ("long", "leg"), "longneck": ("long", "neck"),
    "chewteeth": ("chew", "teeth"), "meatteeth": ("meat", "teeth"), "buckteeth": ("buck", "teeth"),
    "strainteeth": ("strain", "teeth"), "flys": ("flies",), "quadrapedal": ("quadrupedal",),
    "newworld": ("new", "world"), "oldworld": ("old", "world"), "nestspot": ("nest", "spot"),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Attributes:
    """The attributes of the classes."""

    classes: tuple[str, ...]
    attributes: tuple[str, ...]
    binary: NDArray[np.int64]  # (classes, attributes), 0 or 1
    strength: NDArray[np.float64]  # the same shape, 0 to 100, NaN if unknown


@dataclass(frozen=True, eq=False)
class Images:
    """The features of images, and the class of each."""

    features: NDArray[np.float32]  # (n, p)
    labels: NDArray[np.int64]  # (n,) positions in ``classes``
    names: tuple[str, ...]


def load_attributes(data: str | Path | None = None) -> Attributes:
    """Read the classes and attributes from a data folder, by default ``data_folder()``.

    Raise InputError if files are missing or invalid.
    """
    return _read_attributes(_find(data, FOLDERS, CLASS_FILES, BASE))


def load_images(
    kind: str,
    classes: tuple[str, ...],
    data: str | Path | None = None,
    *,
    per_class: int | None = None,
    seed: int = 0,
    columns: int | None = None,
) -> Images:
    """Return all images, or ``per_class`` of each class, drawn with ``seed``; sorted by class.

    ``kind`` is "awa1" (DeCAF) or "awa2" (ResNet101). ``columns`` is the expected length of a row,
    by default that of the published files. Raise InputError if files are missing or invalid.
    """
    choose("images", kind, IMAGES)
    p = COLUMNS[kind] if columns is None else columns
    folders = (kind, "awa")
    if kind == "awa1":
        folder = _find(data, folders, tuple(f"{IMAGES[kind]}/{c}" for c in classes), DECAF)
        files = [sorted((folder / IMAGES[kind] / c).glob("*.txt")) for c in classes]
        labels = np.repeat(np.arange(len(classes)), [len(paths) for paths in files])
        rows = _draw(labels, classes, per_class, seed, folder / IMAGES[kind])
        all_paths = [path for paths in files for path in paths]
        chosen = [all_paths[row] for row in rows]
        features = np.stack([_row(str(path), _bytes(path).split(), p) for path in chosen])
        return Images(features, labels[rows], tuple(path.stem for path in chosen))
    return _resnet(_find(data, folders, RESNET, FEATURES), classes, per_class, seed, p)


def find_awa2(folder: Path) -> Path | None:
    """Return the folder that has all files of AwA2, or None."""
    return _first([folder / packed for packed in PACKED], (*CLASS_FILES, *RESNET))


def unpack_awa2(archives: Sequence[Path], folder: Path) -> Path:
    """Unpack the publisher's archives in the data set's folder, and return the new folder.

    Raise InputError if an archive is damaged or unsafe, or lacks files.
    """
    target = folder / PACKED[-1]
    unpack(archives, target, needed=(*CLASS_FILES, *RESNET), max_bytes=MAX_BYTES)
    return target


def load_awa2(folder: str | Path) -> MultiViewGraph:
    """Return the graph of all images, with features of ResNet101, and their classes' attributes.

    ``folder`` is the data set's folder. Raise InputError if files are missing or invalid.
    """
    folder = Path(folder).absolute()
    source = _find(folder.parent, (folder.name,), (*CLASS_FILES, *RESNET), f"{BASE} and {FEATURES}")
    described = _read_attributes(source)
    images = _resnet(source, described.classes, None, 0, COLUMNS["awa2"])
    W = sparse.csr_array(described.binary[images.labels].astype(np.float32))
    return MultiViewGraph(
        {"image": images.features, "attribute": len(described.attributes)},
        {("image", "attribute"): W},
        {"image": np.array(images.names), "attribute": np.array(described.attributes)},
    )


def _find(
    data: str | Path | None, folders: tuple[str, ...], files: tuple[str, ...], source: str
) -> Path:
    """Return the first folder that has all files; raise InputError if there is none."""
    root = data_folder() if data is None else Path(data)
    paths = [root / folder / packed for folder in folders for packed in PACKED]
    try:
        if complete := _first(paths, files):
            return complete
        partial = _first(paths, files[:1])  # a folder with some of the files
        missing = next(file for file in files if partial is None or not (partial / file).exists())
    except OSError as error:
        raise InputError(f"{root}: cannot look for {files[0]}: {error}") from error
    searched = partial or " or ".join(str(root / folder) for folder in folders)
    command = ""
    if source != DECAF:
        where = "" if data is None else f" --folder {shlex.quote(str(data))}"
        command = f"run 'pmvge datasets download awa2{where}', or "
    raise InputError(
        f"{missing} is not in {searched}: {command}download {source} and unpack it in "
        f"{root / folders[0]}, or set PMVGE_DATA to the folder that contains {folders[0]!r}"
    )


def _first(paths: Sequence[Path], files: tuple[str, ...]) -> Path | None:
    return next((p for p in paths if all((p / file).exists() for file in files)), None)


def _read_attributes(folder: Path) -> Attributes:
    classes, attributes = (_names(folder / name) for name in CLASS_FILES[:2])
    shape = (len(classes), len(attributes))
    binary, strength = (_matrix(folder / name, shape) for name in CLASS_FILES[2:])
    if not np.isin(binary, (0, 1)).all():
        other = binary[~np.isin(binary, (0, 1))][0]
        raise InputError(f"{folder / CLASS_FILES[2]}: expected zeros and ones only, got {other:g}")
    strength[strength < 0] = np.nan
    return Attributes(classes, attributes, binary.astype(np.int64), strength)


def _resnet(
    folder: Path, classes: tuple[str, ...], per_class: int | None, seed: int, p: int
) -> Images:
    rows_path, labels_path, names_path = (folder / name for name in RESNET)
    labels = _labels(labels_path, len(classes))
    names = _bytes(names_path).decode(errors="replace").split()
    if len(names) != len(labels):
        raise InputError(
            f"{names_path}: expected {len(labels)} names, one for each label, got {len(names)}"
        )
    rows = _draw(labels, classes, per_class, seed, labels_path)
    features = _lines(rows_path, rows, len(labels), p)
    return Images(features, labels[rows], tuple(names[row] for row in rows))


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error}") from error


def _text_lines(path: Path) -> list[bytes]:
    return _bytes(path).rstrip().splitlines()


def _names(path: Path) -> tuple[str, ...]:
    names = []
    for number, line in enumerate(_text_lines(path), start=1):
        fields = line.split()
        if len(fields) != 2 or fields[0] != str(number).encode():
            raise InputError(
                f"{path}, line {number}: expected '{number} <name>', got {short(line)}"
            )
        names.append(fields[1].decode(errors="replace"))
    return tuple(names)


def _matrix(path: Path, shape: tuple[int, int]) -> NDArray[np.float64]:
    lines = _text_lines(path)
    if len(lines) != shape[0]:
        raise InputError(f"{path}: expected {shape[0]} lines, one for each class, got {len(lines)}")
    rows = [_row(f"{path}, line {k}", line.split(), shape[1]) for k, line in enumerate(lines, 1)]
    return np.array(rows, np.float64)


def _row(where: str, fields: list[bytes], p: int) -> NDArray[np.float32]:
    if len(fields) != p:
        raise InputError(f"{where}: expected {p} numbers, got {len(fields)}")
    return parse_numbers(where, fields)


def _labels(path: Path, n_classes: int) -> NDArray[np.int64]:
    labels = []
    for number, line in enumerate(_text_lines(path), start=1):
        if not line.strip().isdigit() or not 1 <= int(line) <= n_classes:
            raise InputError(
                f"{path}, line {number}: expected a class from 1 to {n_classes}, got {short(line)}"
            )
        labels.append(int(line) - 1)
    return np.array(labels, np.int64)


def _draw(
    labels: NDArray[np.int64],
    classes: tuple[str, ...],
    per_class: int | None,
    seed: int,
    where: Path,
) -> NDArray[np.int64]:
    """Return rows, class by class: all, or ``per_class`` random ones of each."""
    rng, rows = np.random.default_rng(seed), []
    for k, name in enumerate(classes):
        members = np.flatnonzero(labels == k)
        if len(members) < (per_class or 1):
            raise InputError(
                f"{where}: expected at least {per_class or 1} images of {name}, got {len(members)}"
            )
        rows.append(members if per_class is None else np.sort(rng.permutation(members)[:per_class]))
    return np.concatenate(rows)


def _lines(path: Path, rows: NDArray[np.int64], n: int, p: int) -> NDArray[np.float32]:
    """Return some lines of a large file as numbers; the others are only counted."""
    features = np.empty((len(rows), p), np.float32)
    positions = dict(zip(rows.tolist(), range(len(rows)), strict=True))
    count = 0
    try:
        with path.open("rb") as stream:
            for count, line in _numbered(stream):
                if (position := positions.get(count - 1)) is not None:
                    features[position] = _row(f"{path}, line {count}", line.split(), p)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    if count != n:
        raise InputError(f"{path}: expected {n} lines, one for each label, got {count}")
    return features


def _numbered(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    number = 0
    for line in stream:
        if line.strip():
            number += 1
            yield number, line
