"""The data sets that pmvge knows by name."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path, PurePosixPath

from pmvge.datasets import cora
from pmvge.datasets.digits import load_digits
from pmvge.datasets.download import data_folder
from pmvge.errors import InputError
from pmvge.graph import MultiViewGraph

__all__ = ["DATASETS", "Dataset", "data_folder"]


@dataclass(frozen=True)
class Dataset:
    """What a data set is, where it comes from, and how it is found, verified and read.

    One without ``files`` comes with a library, which ``source`` names: there is nothing to download
    or to find. Of any other, ``source`` is the address of a tar archive that has the files.
    """

    name: str
    summary: str
    source: str
    note: str  # whom to cite, or the licence
    load: Callable[[Path], MultiViewGraph]  # from the set's folder
    find: Callable[[Path], Path | None] = lambda folder: None  # what ``load`` would read there
    files: Mapping[str, str] = field(default_factory=dict)  # file name to SHA-256
    max_bytes: int = 0  # of the archive

    def folder(self, data: Path | None = None) -> Path:
        """The set's folder in a data folder, by default the one of ``data_folder()``."""
        return (data_folder() if data is None else data) / self.name

    def archive(self, data: Path | None = None) -> Path:
        """Where the archive belongs."""
        return self.folder(data) / PurePosixPath(self.source).name

    def found(self, data: Path | None = None) -> Path | None:
        """The file or folder that would be read, if there is one."""
        folder = self.folder(data)
        try:
            return self.find(folder)
        except OSError as error:
            raise InputError(f"{folder}: cannot look for {self.name}: {error}") from error

    def verify(self, archive: Path) -> None:
        """Raise InputError unless the archive holds the files, with the content they should have.

        Nothing is extracted; the files are looked up as the loader does.
        """
        try:
            with tarfile.open(archive) as tar:
                for name, expected in self.files.items():
                    stream = tar.extractfile(cora.member(tar.getnames(), name))
                    if not isinstance(stream, BufferedReader):
                        raise KeyError(f"{name} is not a file")
                    with stream:
                        got = hashlib.file_digest(stream, "sha256").hexdigest()
                    if got != expected:
                        raise InputError(f"{name}: expected SHA-256 {expected}, got {got}")
        except (*cora.DAMAGED, KeyError, OSError) as error:
            names = " and ".join(self.files)
            raise InputError(f"expected a tar archive with {names}: {error}") from error


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
        # The files inside, not the archive: packed anew, they are still the same.
        files={
            "cora.content": "b8ebed0fd45e53995abafd1b70cf6a9fcc8f86abc5826d69b97fe6ca46e9c8ee",
            "cora.cites": "ec1a372391b7f0f60a6aff0084e8abd8f19f0faa7e1f2441a41c492042d5945e",
        },
        max_bytes=10_000_000,  # more than both files, even if nothing is compressed
    ),
}
