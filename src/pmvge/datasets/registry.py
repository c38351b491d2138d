"""The registered data sets, by name."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pmvge.datasets import awa, bipartite, cora, lastfm, microbes, movielens, side_effects
from pmvge.datasets.digits import load_digits
from pmvge.datasets.downloads import data_folder
from pmvge.datasets.unpacking import read_files
from pmvge.errors import InputError
from pmvge.graph import MultiViewGraph

__all__ = ["DATASETS", "Archive", "Dataset", "data_folder", "has_files", "has_md5", "has_sha256"]
Verify = Callable[[Path], None]  # raises InputError if a file is not the expected one


@dataclass(frozen=True)
class Archive:
    """A file to download, and the function that verifies it."""

    url: str
    max_bytes: int
    verify: Verify
    subfolder: str = ""  # of the data set's folder

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
    note: str  # what to cite
    licence: str  # as the publisher states it
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
        folder = self.folder(data)
        return {folder / each.subfolder / each.name: each for each in self.archives}

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

    return _has_digest("MD5", lambda: hashlib.md5(usedforsecurity=False), expected)


def has_sha256(expected: str) -> Verify:
    """Return a function that checks the SHA-256 of a file."""
    return _has_digest("SHA-256", hashlib.sha256, expected)


def _has_digest(name: str, algorithm: Callable[[], Any], expected: str) -> Verify:
    def verify(path: Path) -> None:
        try:
            with path.open("rb") as stream:
                digest = hashlib.file_digest(stream, algorithm)
        except OSError as error:
            raise InputError(f"cannot be read: {error}") from error
        if (got := digest.hexdigest()) != expected:
            raise InputError(f"expected {name} {expected}, got {got}")

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
BIPARTITE = {
    "dpi_n/X1.npy": "9f09b4e1e75c29fe9f52ff220d67acceba0af841bc348b796baf98e1e8899799",
    "dpi_n/X2.npy": "e00610a8b93cb7e845aed74ed5591dc001d7c12494a0ca8e302cb1de3494706f",
    "dpi_n/y.npy": "76b4837d86012fbcc9fccfbfd92d78e39430fbbf550e88c989797ef6f6bbadae",
    "te_pirna/X1.npy": "214c13d4d455478d141f58a82a6c2c66797a1005fbe5607d237b9ec036d4f81e",
    "te_pirna/X2.npy": "2b596a53aa4ebf46621c460bf9fb9da94fdc7891e5ea17cf19eb9a0adfda6ea4",
    "te_pirna/y.npy": "b03cb1a03d0a764dc87622656de3a6ddee5bdaa9c49c53368564dfc215d440cf",
    "dpi_g/X1.npy": "b44b715ce881b452749ce6aa98a57fb486351427baa5c43a7d491f80778f1003",
    "dpi_g/X2.npy": "43857a3fc3bcea84ab85325e5bd2f8287793ba37990db9322dbfc5e3d0a7fcb1",
    "dpi_g/y.npy": "5fb17436928ab755e49a6b0fa920479b16f5ec0f641085510eed46e6a21185e2",
    "davis/X1.npy": "925916490a5c17f7d7db09f74c5272a37cc9386695fe99cec8ff2e367ce1d680",
    "davis/X2.npy": "a1ce37b34c519ca14f2d04ff79ae1acb99d944e0c7c242294451964992e51074",
    "davis/y.npy": "0f394d3af6c26d33baa7e21778be7ca149502b26417a9129fd211741204e3ded",
    "lncrna_mirna/X1.npy": "1b5e7ad21d7c3477f0709cbd5fc10cd9a7e30f2b36e259c0ded6962d841c6e27",
    "lncrna_mirna/X2.npy": "d00c27f43a2d3ff4cc5c0eef44c3fe9e9a64c0e547abea88bc3f68503ba2d682",
    "lncrna_mirna/y.npy": "4d75a447d1bfca19d35f5c983e0708aa9685768ab8b9147dde41fb38ec005666",
    "dpi_e/X1.npy": "8931fe2103b375a8c297ca374719732e9854cc4a6da8f4457b65ba3923360651",
    "dpi_e/X2.npy": "a194fd3174c80b29bac91dc56d5f911ba23b7fa0a642b7ab233e7076447ef04e",
    "dpi_e/y.npy": "2a6cd585a66f35ade4a6546c1aad1613cdda92bad94614bdda122fdaac30a175",
}
MICROBES = {
    "otus_nt.biom": "13445d4d1c963737a4de62c753d42bd9ab6f53743f74bf28aed330a973b7cbeb",
    "lcms_nt.biom": "97a332c0b893a21d604a6da6bf459a17166e4eff9ffec5f085f9bbcb5c272805",
}
SIDE_EFFECTS = "18b2468bc2febc12816e16f707c814e5ef1798566969811ee0d8da74887b7482"
DATASETS: dict[str, Dataset] = {
    "digits": Dataset(
        name="digits",
        summary="1,797 handwritten digits in four views: pixels, spectrum, profile and name. "
        "Split into a training and a test graph; `describe` shows the training graph.",
        source="scikit-learn",
        note="E. Alpaydin and C. Kaynak (1998), Optical Recognition of Handwritten Digits, UCI "
        "Machine Learning Repository: its test set",
        licence="CC BY 4.0",
        load=lambda folder: load_digits()[0].graph,
    ),
    "cora": Dataset(
        name="cora",
        summary="2,708 papers on machine learning in seven fields: 1,433 words, and citations. "
        "One view; citations are undirected links.",
        source=cora.SOURCE,
        note="P. Sen, G. Namata, M. Bilgic, L. Getoor, B. Gallagher and T. Eliassi-Rad (2008), "
        "Collective Classification in Network Data, AI Magazine 29(3)",
        licence="not stated by the publisher; used in research",
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
        licence="features and attributes: see the publisher's page",
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
        "and genres; a link is a rating of 4 or 5.",
        source=movielens.SOURCE,
        note="F. M. Harper and J. A. Konstan (2015), The MovieLens Datasets: History and Context, "
        "ACM TiiS 5(4)",
        licence="research use, no redistribution (README of the archive)",
        load=movielens.load_movielens,
        find=movielens.find_movielens,
        archives=(Archive(movielens.SOURCE, 10_000_000, has_md5(movielens.MD5)),),
    ),
    "lastfm": Dataset(
        name="lastfm",
        summary="LastFM (HetRec 2011): 1,892 users and the 17,632 artists that they play, without "
        "features; and MAGNN's split of the links.",
        source=lastfm.SOURCE,
        note="I. Cantador, P. Brusilovsky and T. Kuflik (2011), HetRec 2011, RecSys; the split: "
        "X. Fu, J. Zhang, Z. Meng and I. King (2020), MAGNN, WWW",
        licence="non-commercial use (README of the archive)",
        load=lastfm.load_lastfm,
        find=lastfm.find_lastfm,
        archives=(
            Archive(lastfm.SOURCE, 10_000_000, lastfm.verify_lastfm),
            Archive(lastfm.SPLIT_SOURCE, 2_000_000, has_files(MAGNN_SPLIT, max_bytes=2_000_000)),
        ),
    ),
    "bipartite": Dataset(
        name="bipartite",
        summary="Six interaction sets of drugs and targets and of kinds of RNA, with similarities "
        "within each side: 26 to 664 rows, 54 to 445 columns. `describe` shows dpi_n, nuclear "
        "receptors and drugs.",
        source=bipartite.SOURCE,
        note="P. Ilidio, F. K. Nakano, A. Gharahighehi, R. D'hondt, R. Cerri and C. Vens (2025), "
        "Oxytrees: Model Trees for Bipartite Learning; and the sources of each set that it names",
        licence="not stated in the repository; the sets are published for research",
        load=lambda folder: bipartite.bipartite_graph("dpi_n", folder),
        find=bipartite.find_bipartite,
        archives=tuple(
            Archive(
                f"{bipartite.ADDRESS}{name}", 10_000_000, has_sha256(digest), name.partition("/")[0]
            )
            for name, digest in BIPARTITE.items()
        ),
    ),
    "side_effects": Dataset(
        name="side_effects",
        summary="Frequencies of 994 side effects of 759 drugs, in classes from 1 (very rare) to 5 "
        "(very frequent); no features.",
        source=side_effects.SOURCE,
        note="D. Galeano, S. Li, M. Gerstein and A. Paccanaro (2020), Predicting the frequencies "
        "of drug side effects, Nature Communications 11",
        licence="MIT (repository)",
        load=side_effects.load_side_effects,
        find=side_effects.find_side_effects,
        archives=(Archive(side_effects.ADDRESS, 10_000_000, has_sha256(SIDE_EFFECTS)),),
    ),
    "microbes": Dataset(
        name="microbes",
        summary="172 samples of patients with cystic fibrosis: counts of 2,720 sequences of "
        "microbes and intensities of 462 metabolites, as two biom tables.",
        source=microbes.SOURCE,
        note="J. T. Morton et al. (2019), Learning representations of microbe-metabolite "
        "interactions, Nature Methods 16",
        licence="BSD (repository)",
        load=microbes.load_microbes,
        find=microbes.find_microbes,
        archives=tuple(
            Archive(f"{microbes.ADDRESS}{name}", 10_000_000, has_sha256(digest))
            for name, digest in MICROBES.items()
        ),
    ),
}
