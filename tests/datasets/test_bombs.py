"""Archive bombs: archives that are much larger when unpacked are refused."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from pmvge.datasets.unpacking import MAX_MEMBERS, read_files, unpack
from pmvge.errors import InputError


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.USTAR_FORMAT)


def refused(path: Path, max_bytes: int = 100_000) -> str:
    with pytest.raises(InputError) as caught:
        read_files(path, ["names.txt"], max_bytes=max_bytes)
    return str(caught.value)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_large_compressed_header_is_refused(kind: bytes, tmp_path: Path) -> None:
    """The headers of a tar archive are compressed as well, and are counted before they are read."""
    size = 64 << 20
    with gzip.open(tmp_path / "x", "wb", 1) as packed:
        packed.write(header("x", size, kind))
        for _ in range(size >> 20):
            packed.write(bytes(1 << 20))
        packed.write(header("names.txt", 0) + bytes(1024))
    assert (tmp_path / "x").stat().st_size < size / 100
    assert "at most 100,000 bytes when unpacked" in refused(tmp_path / "x")


@pytest.mark.parametrize("packed", [False, True])
def test_too_many_members_are_refused(packed: bool, tmp_path: Path) -> None:
    opened = gzip.open if packed else open
    with opened(tmp_path / "x", "wb") as stream:
        stream.write(header("names.txt", 0) * (MAX_MEMBERS + 1) + bytes(1024))
    assert f"at most {MAX_MEMBERS:,} files and folders" in refused(tmp_path / "x")
    with zipfile.ZipFile(tmp_path / "y.zip", "w") as archive:
        for number in range(MAX_MEMBERS + 1):
            archive.writestr(f"set/{number}", b"")
    assert f"at most {MAX_MEMBERS:,} files and folders" in refused(tmp_path / "y.zip")
    with pytest.raises(InputError, match="files and folders, got more"):
        unpack([tmp_path / "y.zip"], tmp_path / "set", needed=["1"], max_bytes=10)
    assert not (tmp_path / "set").exists()


def test_a_large_declared_size_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(header("names.txt", 1 << 32) + bytes(1024))
    assert "at most 100,000 bytes" in refused(tmp_path / "x")
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("names.txt", b"12345678")
    content = stream.getvalue().replace((8).to_bytes(4, "little"), (1 << 31).to_bytes(4, "little"))
    (tmp_path / "y.zip").write_bytes(content)
    assert "at most 100,000 bytes" in refused(tmp_path / "y.zip")


def test_an_archive_in_an_archive_stays_packed(tmp_path: Path) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb", bytes(10_000_000))
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("set/inner.zip", inner.getvalue())
    unpack([tmp_path / "x.zip"], tmp_path / "set", needed=["inner.zip"], max_bytes=100_000)
    found = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert found == {"x.zip", "set/inner.zip"}


@pytest.mark.parametrize("damage", [b"\x1f\x8bnot gzip", b"BZhnot bzip2", b"\xfd7zXZ\0not xz"])
def test_damaged_compressed_data_are_refused(damage: bytes, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(damage + bytes(100))
    assert "not a zip or tar archive, or a damaged one" in refused(tmp_path / "x")
