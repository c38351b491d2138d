"""The registered data sets, by name."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pmvge.datasets import awa, cora, lastfm, movielens
from pmvge.datasets.digits import load_digits
from pmvge.datasets.downloads import data_folder
from pmvge.datasets.unpacking import read_files
from pmvge.errors import InputError
from pmvge.graph import MultiViewGraph

__all__ = ["DATASETS", "Archive", "Dataset", "data_folder", "has_files", "has_md5"]
Verify = Callable[[Path], None]  # raises InputError if a file is not the expected one


@dataclass(frozen=True)
class Archive:
    """A file to download, and the function that verifies it."""

    url: str
    max_bytes: int
    verify: Verify

    @property
    def name(self) -> str:
        """Return the file name, the same at the publisher and on disk."""
        return PurePosixPath(self.url).name


@dataclass(frozen=True)
class Dataset:
    """The description of a data set, and the functions that find, unpack and load it.

    A data set without ``archives`` is part of the library that ``source`` names, and needs no
    download. Archives are saved in the data set's folder. If they cannot be read as they are,
    ``unpack`` extracts them there, and ``find`` returns what was extracted.
    """

    name: str
    summary: str
    source: str
    note: str  # the citation or the licence
    load: Callable[[Path], MultiViewGraph]  # from the data set's folder
    # From the data set's folder to the file or folder that ``load`` reads.
    find: Callable[[Path], Path | None] = lambda folder: None
    archives: tuple[Archive, ...] = ()
    unpack: Callable[[Sequence[Path], Path], Path] | None = None  # archives, data set's folder

    def folder(self, data: Path | None = None) -> Path:
        """Return the data set's folder in ``data``, by default in ``data_folder()``."""
        return (data_folder() if data is None else data) / self.name

    def archive_paths(self, data: Path | None = None) -> dict[Path, Archive]:
        """Return the archives by the paths that they are saved as."""
        return {self.folder(data) / archive.name: archive for archive in self.archives}

    def installed_path(self, data: Path | None = None) -> Path | None:
        """Return the file or folder that ``load`` reads, or None if there is none.

        Raise InputError if the folder cannot be read.
        """
        folder = self.folder(data)
        try:
            return self.find(folder)
        except OSError as error:
            raise InputError(f"{folder}: cannot look for {self.name}: {error}") from error


def has_md5(expected: str) -> Verify:
    """Return a function that checks the MD5 of an archive.

    Some publishers give only an MD5. It detects damage but not forgery; https protects from that.
    """

    def verify(path: Path) -> None:
        try:
            with path.open("rb") as stream:
                digest = hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False))
        except OSError as error:
            raise InputError(f"cannot be read: {error}") from error
        if (got := digest.hexdigest()) != expected:
            raise InputError(f"expected MD5 {expected}, got {got}")

    return verify


def has_files(expected: Mapping[str, str], *, max_bytes: int) -> Verify:
    """Return a function that checks the SHA-256 of files in an archive.

    It accepts archives that were packed again from the same files.
    """

    def verify(path: Path) -> None:
        try:
            files = read_files(path, list(expected), max_bytes=max_bytes)
        except (InputError, OSError) as error:
            names = " and ".join(expected)
            raise InputError(f"expected an archive with {names}: {error}") from error
        for name, content in files.items():
            got = hashlib.sha256(content).hexdigest()
            if got != expected[name]:
                raise InputError(f"{name}: expected SHA-256 {expected[name]}, got {got}")

    return verify


CORA = {
    "cora.content": "b8ebed0fd45e53995abafd1b70cf6a9fcc8f86abc5826d69b97fe6ca46e9c8ee",
    "cora.cites": "ec1a372391b7f0f60a6aff0084e8abd8f19f0faa7e1f2441a41c492042d5945e",
}
MAGNN_SPLIT = {
    "train_idx.npy": "a47427790270bd472c8786104920528bcb217fd8af2eff0435d0046866453842",
    "val_idx.npy": "43c2028dbfe2c79c0470c131b28e1ec445ac7e3d61892ab14e92be5d36a6a1d7",
    "test_idx.npy": "4b937edae3ca7691a46e06a6ed5c2a04b29706eb1a45314e67ab784ca6623d28",
}
DATASETS: dict[str, Dataset] = {
    "digits": Dataset(
        name="digits",
        summary="1,797 handwritten digits in four views: pixels, spectrum, profile and name. "
        "Split into a training and a test graph; `describe` shows the training graph.",
        source="scikit-learn",
        note="E. Alpaydin and C. Kaynak (1998), Optical Recognition of Handwritten Digits, UCI "
        "Machine Learning Repository: its test set",
        load=lambda folder: load_digits()[0].graph,
    ),
    "cora": Dataset(
        name="cora",
        summary="2,708 papers on machine learning in seven fields: 1,433 words, and citations. "
        "One view; citations are undirected links.",
        source=cora.SOURCE,
        note="P. Sen, G. Namata, M. Bilgic, L. Getoor, B. Gallagher and T. Eliassi-Rad (2008), "
        "Collective Classification in Network Data, AI Magazine 29(3)",
        load=lambda folder: cora.load_cora(folder).graph,
        find=cora.find_cora,
        archives=(
            # The limit is above the size of both files without compression.
            Archive(cora.SOURCE, 10_000_000, has_files(CORA, max_bytes=cora.MAX_BYTES)),
        ),
    ),
    "awa2": Dataset(
        name="awa2",
        summary="Animals with Attributes 2: 37,322 images of 50 classes of animals as 2,048 "
        "features of ResNet101, and 85 attributes; an image has those of its class. The "
        "download is 301 MB and is unpacked.",
        source=awa.SOURCE,
        note="Y. Xian, C. H. Lampert, B. Schiele and Z. Akata (2019), Zero-Shot Learning - A "
        "Comprehensive Evaluation of the Good, the Bad and the Ugly, IEEE TPAMI 41(9)",
        load=awa.load_awa2,
        find=awa.find_awa2,
        archives=tuple(
            Archive(f"{awa.SOURCE}{name}", max_bytes, has_md5(awa.MD5[name]))
            for name, max_bytes in (
                ("AwA2-base.zip", 1_000_000),
                ("AwA2-features.zip", 400_000_000),
            )
        ),
        unpack=awa.unpack_awa2,
    ),
    "movielens": Dataset(
        name="movielens",
        summary="MovieLens 100k: 943 users with age, gender and occupation, 1,682 films with year "
        "and genres; a link is a rating of 4 or 5. For research; see the publisher's terms.",
        source=movielens.SOURCE,
        note="F. M. Harper and J. A. Konstan (2015), The MovieLens Datasets: History and Context, "
        "ACM TiiS 5(4)",
        load=movielens.load_movielens,
        find=movielens.find_movielens,
        archives=(Archive(movielens.SOURCE, 10_000_000, has_md5(movielens.MD5)),),
    ),
    "lastfm": Dataset(
        name="lastfm",
        summary="LastFM (HetRec 2011): 1,892 users and the 17,632 artists that they play, without "
        "features; and MAGNN's split of the links. For academic use; see the publisher's terms.",
        source=lastfm.SOURCE,
        note="I. Cantador, P. Brusilovsky and T. Kuflik (2011), HetRec 2011, RecSys; the split: "
        "X. Fu, J. Zhang, Z. Meng and I. King (2020), MAGNN, WWW",
        load=lastfm.load_lastfm,
        find=lastfm.find_lastfm,
        archives=(
            Archive(lastfm.SOURCE, 10_000_000, lastfm.verify_lastfm),
            Archive(lastfm.SPLIT_SOURCE, 2_000_000, has_files(MAGNN_SPLIT, max_bytes=2_000_000)),
        ),
    ),
}
