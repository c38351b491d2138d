"""The data sets that pmvge knows by name."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pmvge.datasets import awa, cora
from pmvge.datasets.digits import load_digits
from pmvge.datasets.downloads import data_folder
from pmvge.datasets.unpacking import read_files
from pmvge.errors import InputError
from pmvge.graph import MultiViewGraph

__all__ = ["DATASETS", "Archive", "Dataset", "data_folder", "has_files", "has_md5"]
Verify = Callable[[Path], None]  # raises InputError if a file is not the right one


@dataclass(frozen=True)
class Archive:
    """A file of a publisher, and how it is known to be the right one."""

    url: str
    max_bytes: int
    verify: Verify

    @property
    def name(self) -> str:
        """Its name, at the publisher and here."""
        return PurePosixPath(self.url).name


@dataclass(frozen=True)
class Dataset:
    """What a data set is, where it comes from, and how it is found and read.

    One without ``archives`` comes with a library, which ``source`` names: there is nothing to
    download or to find. Archives belong in the set's folder; ``unpack``, if what they hold is not
    read from themselves, makes of them, there, what ``find`` finds.
    """

    name: str
    summary: str
    source: str
    note: str  # whom to cite, or the licence
    load: Callable[[Path], MultiViewGraph]  # from the set's folder
    find: Callable[[Path], Path | None] = lambda folder: None  # what ``load`` would read there
    archives: tuple[Archive, ...] = ()
    unpack: Callable[[Sequence[Path], Path], Path] | None = None  # archives, set's folder

    def folder(self, data: Path | None = None) -> Path:
        """The set's folder in a data folder, by default the one of ``data_folder()``."""
        return (data_folder() if data is None else data) / self.name

    def places(self, data: Path | None = None) -> dict[Path, Archive]:
        """Where each archive belongs."""
        return {self.folder(data) / archive.name: archive for archive in self.archives}

    def found(self, data: Path | None = None) -> Path | None:
        """The file or folder that would be read, if there is one."""
        folder = self.folder(data)
        try:
            return self.find(folder)
        except OSError as error:
            raise InputError(f"{folder}: cannot look for {self.name}: {error}") from error


def has_md5(expected: str) -> Verify:
    """An archive known by its own sum.

    MD5 is what some publishers give. It finds damage, but no forgery: against that there is https.
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
    """An archive known by the SHA-256 of its files: packed anew, they are still the same."""

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
DATASETS: dict[str, Dataset] = {
    "digits": Dataset(
        name="digits",
        summary="1,797 handwritten digits in four views: pixels, spectrum, profile and name. "
        "Split into a training and a test graph; the training graph is the one described.",
        source="scikit-learn",
        note="E. Alpaydin and C. Kaynak (1998), Optical Recognition of Handwritten Digits, UCI "
        "Machine Learning Repository: its test set",
        load=lambda folder: load_digits()[0].graph,
    ),
    "cora": Dataset(
        name="cora",
        summary="2,708 papers on machine learning in seven fields: 1,433 words, and who cites "
        "whom. One view; citations are undirected links.",
        source=cora.SOURCE,
        note="P. Sen, G. Namata, M. Bilgic, L. Getoor, B. Gallagher and T. Eliassi-Rad (2008), "
        "Collective Classification in Network Data, AI Magazine 29(3)",
        load=lambda folder: cora.load_cora(folder).graph,
        find=cora.find_cora,
        archives=(
            # More bytes than both files have, even if nothing is compressed.
            Archive(cora.SOURCE, 10_000_000, has_files(CORA, max_bytes=cora.MAX_BYTES)),
        ),
    ),
    "awa2": Dataset(
        name="awa2",
        summary="Animals with Attributes 2: 37,322 images of 50 classes of animals as 2,048 "
        "features of ResNet101, and 85 attributes; an image has those of its class. A download "
        "of 301 MB, which is unpacked.",
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
}
