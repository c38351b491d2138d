"""Archives that are read without unpacking, and archives that are unpacked."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

from fuzzing.target import Target
from fuzzing.targets.data import CITES, CONTENT, LEVEL, RESNET
from fuzzing.targets.tables import check_graph
from pmvge.datasets import load_cora
from pmvge.datasets.awa import find_awa2, unpack_awa2
from pmvge.datasets.unpacking import unpack

FILES = {"cora/cora.content": CONTENT, "cora/cora.cites": CITES, "cora/README": "Cora\n" * 50}
TOP = "Animals_with_Attributes2"


def _zip(path: Path, files: dict[str, str], *, stored: bool = False) -> None:
    how = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(path, "w", how) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), text, how)


def _tar(files: dict[str, str]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return stream.getvalue()


def make_zip(folder: Path) -> None:
    _zip(folder / "cora.zip", FILES)


def make_tar(folder: Path) -> None:
    (folder / "cora.tgz").write_bytes(_tar(FILES))


def make_tgz(folder: Path) -> None:
    (folder / "cora.tgz").write_bytes(gzip.compress(_tar(FILES), mtime=0))


def make_awa_archives(folder: Path) -> None:
    _zip(folder / "base.zip", {f"{TOP}/{name}": text for name, text in LEVEL.items()}, stored=True)
    extra = {"__MACOSX/._x": "x", f"{TOP}/Features/": ""}
    _zip(folder / "features.zip", {f"{TOP}/{name}": t for name, t in RESNET.items()} | extra)


def read_cora(folder: Path, output: Path) -> None:
    check_graph(load_cora(folder).graph)


def read_awa(folder: Path, output: Path) -> None:
    """Unpack all files into the output folder, or none."""
    archives = [folder / "base.zip", folder / "features.zip"]
    unpacked = unpack_awa2(archives, output)
    assert find_awa2(output) == unpacked
    unpack(archives, unpacked, needed=[*LEVEL], max_bytes=10_000)  # replaces the first
    assert {path.name for path in output.iterdir()} == {TOP}


TARGETS = [
    Target("zip", make_zip, read_cora, share=1.5),
    Target("tar", make_tar, read_cora),
    Target("tgz", make_tgz, read_cora, share=0.5),
    Target("unpacking", make_awa_archives, read_awa, share=1.5),
]
