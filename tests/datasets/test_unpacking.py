"""Archives are unpacked completely or not at all, and never outside of their folder."""

import io
import os
import signal
import stat
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from pmvge.datasets.unpacking import read_files, unpack
from pmvge.errors import InputError

BASE = {"set/names.txt": b"1 cat\n", "set/deep/er/matrix.txt": b"0 1\n"}
MORE = {"set/deep/numbers.txt": bytes(range(256)) * 100}
NEEDED = ("names.txt", "deep/numbers.txt")
LIMIT = 100_000
OUTSIDE = [
    "/evil", "//host/share/evil", "../evil", "set/../../evil", "set/..", "C:evil", "C:/evil",
    "\\evil", "..\\evil", "set\\..\\..\\evil", "set/evil:stream", "set/evil\0.txt",
]  # fmt: skip
SPECIAL = ["S_IFLNK", "S_IFIFO", "S_IFCHR", "S_IFBLK", "S_IFSOCK"]


def pack(path: Path, files: dict[str, bytes], kind: int = 0) -> Path:
    """Write a zip archive whose last member has the given file type."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, (name, content) in enumerate(files.items(), start=1):
            info = zipfile.ZipInfo("x")
            info.filename = name  # set afterwards, as ZipInfo changes the name
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (0o644 | (kind if number == len(files) else 0)) << 16
            archive.writestr(info, content)
    return path


def tree(folder: Path) -> dict[str, bytes]:
    """Return all files and folders below a folder, hidden ones included."""
    found = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        found[name] = b"a folder" if path.is_dir() else path.read_bytes()
    return found


@pytest.fixture
def archives(tmp_path) -> list[Path]:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    return [pack(tmp_path / "in" / "base.zip", BASE), pack(tmp_path / "in" / "more.zip", MORE)]


@pytest.fixture(params=[False, True], ids=["nothing", "older"])
def target(request, tmp_path, archives) -> Path:
    """Return the path of the target, with or without an older folder."""
    target = tmp_path / "out" / "set"
    if request.param:
        (target / "deep").mkdir(parents=True)
        (target / "names.txt").write_text("older")
        (target / "deep" / "numbers.txt").write_text("older")
    return target


def run(archives: list[Path], target: Path, needed=NEEDED, max_bytes=LIMIT) -> None:
    unpack(archives, target, needed=needed, max_bytes=max_bytes)


def refused(archives, target, message: str, error=InputError, **options) -> str:
    """Check that unpacking raises and changes no file, and return the message."""
    root = archives[0].parents[1]
    before = tree(root)
    with pytest.raises(error, match=message) as caught:
        run(archives, target, **options)
    assert tree(root) == before
    return str(caught.value)


# -- valid archives ------------------------------------------------------------------------


def test_archives_become_one_folder_that_replaces_an_older_one(archives, target) -> None:
    run(archives, target)
    assert tree(target.parent) == {
        "set": b"a folder",
        "set/names.txt": b"1 cat\n",
        "set/deep": b"a folder",
        "set/deep/er": b"a folder",
        "set/deep/er/matrix.txt": b"0 1\n",
        "set/deep/numbers.txt": MORE["set/deep/numbers.txt"],
    }
    run(archives, target)  # replaces the new folder, too
    assert (target / "names.txt").read_bytes() == b"1 cat\n"


def test_the_folder_and_its_files_have_default_permissions(archives, target) -> None:
    run(archives, target)
    (target.parent / "folder").mkdir()
    (target.parent / "file").touch()
    for path, usual in ((target, "folder"), (target / "names.txt", "file")):
        assert path.stat().st_mode == (target.parent / usual).stat().st_mode


def test_other_top_folders_are_skipped(archives, target) -> None:
    beside = {"__MACOSX/._names.txt": b"x", "readme.txt": b"x", "set": b"x", "./set/dot.txt": b"."}
    pack(archives[0], {**BASE, **beside, "set/empty/": b""})
    run(archives, target)
    names = {name for name, content in tree(target.parent).items() if content != b"a folder"}
    inside = ["dot.txt", "names.txt", "deep/er/matrix.txt", "deep/numbers.txt"]
    assert names == {f"set/{name}" for name in inside}


# -- refused before anything is written -----------------------------------------------------


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("which", [0, 1])
def test_a_path_that_leads_out(archives, target, name, which) -> None:
    pack(archives[which], {**BASE, **MORE, name: b"evil"})
    pattern = r"leads out of the archive's folder; do not use it; .* publisher$"
    message = refused(archives, target, pattern)
    assert message.startswith(f"{archives[which]}: member {name!r} ")


@pytest.mark.parametrize("kind", SPECIAL)
def test_a_member_that_is_not_a_file(archives, target, kind) -> None:
    pack(archives[1], {**MORE, "set/evil": b"/etc/passwd"}, getattr(stat, kind))
    message = r"more.zip: member 'set/evil': expected a file or a folder, got a link or a device; "
    refused(archives, target, message)


def test_too_many_bytes(archives, target) -> None:
    pack(archives[0], {**BASE, "set/zeros": bytes(LIMIT)})
    assert archives[0].stat().st_size < LIMIT / 100
    refused(archives, target, r"base.zip: expected at most 100,000 bytes when unpacked, got more")


def test_too_many_bytes_in_two_archives(archives, target) -> None:
    for path, files in zip(archives, (BASE, MORE), strict=True):
        pack(path, {**files, f"set/{path.stem}": bytes(60_000)})
    refused(archives, target, r"more.zip: expected at most 100,000 bytes when unpacked")
    run(archives, target, max_bytes=2 * LIMIT)


def test_a_wrong_declared_size(archives, target) -> None:
    """zipfile reads only the declared number of bytes, and then finds a wrong checksum."""
    pack(archives[0], {**BASE, "set/zeros": bytes(10 * LIMIT)})
    size, lie = ((n).to_bytes(4, "little") for n in (10 * LIMIT, 10))
    packed = archives[0].read_bytes()
    assert packed.count(size) == 2  # in the member's header and in the directory at the end
    archives[0].write_bytes(packed.replace(size, lie))
    refused(archives, target, r"base.zip: .*zeros")


def test_bytes_are_counted_as_they_are_written(archives, target, monkeypatch) -> None:
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: io.BytesIO(bytes(LIMIT + 1)))
    refused(archives, target, r"base.zip: set/names.txt has more bytes than expected")


def test_bytes_are_counted_over_all_members(archives, target, monkeypatch) -> None:
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: io.BytesIO(bytes(LIMIT // 3 + 1)))
    refused(archives, target, r"more.zip: set/deep/numbers.txt has more bytes than expected")


@pytest.mark.parametrize("missing", NEEDED)
def test_a_missing_file(archives, target, missing) -> None:
    for path, files in zip(archives, (BASE, MORE), strict=True):
        pack(path, {name: text for name, text in files.items() if name != f"set/{missing}"})
    message = refused(archives, target, rf": set/{missing} is missing; do not use it")
    assert message.startswith(f"{archives[0]} and {archives[1]}: ")


def test_a_missing_archive(archives, target) -> None:
    archives[1].unlink()
    refused(
        archives,
        target,
        r"set: cannot unpack .*No such file.*more.zip'; check the files and the disk space",
    )


def test_an_html_page_instead_of_an_archive(archives, target) -> None:
    archives[1].write_text("<html>Please log in</html>")
    refused(archives, target, r"more.zip: not a zip archive, or a damaged one: .*download it again")


@pytest.mark.parametrize("where", [0.3, 0.99])
def test_a_damaged_archive(archives, target, where) -> None:
    noise = os.urandom(20_000)
    pack(archives[1], {"set/deep/numbers.txt": noise})
    damaged = bytearray(archives[1].read_bytes())
    at = int(where * len(damaged))
    damaged[at : at + 20] = b"\xff" * 20
    archives[1].write_bytes(damaged)
    refused(archives, target, r"more.zip: not a zip archive, or a damaged one: ")


def test_a_password(archives, target) -> None:
    """The flag in the headers is enough to require a password."""
    packed = bytearray(archives[1].read_bytes())
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        packed[packed.index(mark) + at] |= 1
    archives[1].write_bytes(packed)
    refused(archives, target, r"more.zip: .*password required")


# -- existing targets -----------------------------------------------------------------------


def test_a_folder_with_other_files_is_not_replaced(archives, tmp_path) -> None:
    target = tmp_path / "out" / "set"
    (target / "photos").mkdir(parents=True)
    (target / "photos" / "mine.jpg").write_text("mine")
    refused(archives, target, r"set: expected only files of the archives .*, got mine.jpg; move")


def test_a_folder_with_a_link_to_a_folder_is_not_replaced(archives, tmp_path) -> None:
    target = tmp_path / "out" / "set"
    target.mkdir()
    (tmp_path / "photos").mkdir()
    (target / "photos").symlink_to(tmp_path / "photos")
    refused(archives, target, r"set: expected only files of the archives .*, got photos")


def test_a_file_is_not_replaced(archives, tmp_path) -> None:
    (tmp_path / "out" / "set").write_text("mine")
    refused(archives, tmp_path / "out" / "set", "set: expected a folder, got a file; move it away")


# -- failures while unpacking ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("failure", "error", "message"),
    [
        (KeyboardInterrupt(), KeyboardInterrupt, "^$"),
        (
            OSError(28, "No space left on device"),
            InputError,
            r"No space left.*; check the files and the disk",
        ),
    ],
)
def test_an_interrupted_unpacking_leaves_nothing(
    archives, target, monkeypatch, failure, error, message
) -> None:
    calls = []

    def sync(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 2:
            raise failure

    monkeypatch.setattr(os, "fsync", sync)
    refused(archives, target, message, error)
    assert len(calls) == 2
    monkeypatch.undo()
    run(archives, target)


@pytest.mark.parametrize(
    ("failure", "error", "message"),
    [
        (KeyboardInterrupt(), KeyboardInterrupt, "^$"),
        (OSError(13, "Permission denied"), InputError, r"set: cannot unpack .*Permission denied"),
    ],
)
def test_an_older_folder_is_restored_if_the_rename_fails(
    archives, target, monkeypatch, failure, error, message
) -> None:
    usual = Path.rename

    def rename(path: Path, to: Path) -> Path:
        if path.name == "new":
            raise failure
        return usual(path, to)

    monkeypatch.setattr(Path, "rename", rename)
    refused(archives, target, message, error)


KILLED = """
import os, signal, sys
from pathlib import Path
from pmvge.datasets.unpacking import unpack

usual = Path.rename

def rename(path, to):
    if path.name == "new":
        os.kill(os.getpid(), signal.SIGKILL)
    return usual(path, to)

Path.rename = rename
*archives, target = map(Path, sys.argv[1:])
unpack(archives, target, needed=(), max_bytes=100_000)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="there is no SIGKILL")
@pytest.mark.parametrize("good", [True, False])
def test_an_older_folder_is_restored_after_a_kill(archives, tmp_path, good) -> None:
    target = tmp_path / "out" / "s[e]t" / "set"
    target.mkdir(parents=True)
    (target / "names.txt").write_text("older")
    killed = subprocess.run([sys.executable, "-c", KILLED, *archives, target], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not target.exists()
    if good:
        run(archives, target)
        assert (target / "names.txt").read_bytes() == b"1 cat\n"
    else:
        archives[1].write_text("<html>Please log in</html>")
        with pytest.raises(InputError, match=r"more.zip: not a zip archive"):
            run(archives, target)
        assert tree(target) == {"names.txt": b"older"}
    assert [path.name for path in target.parent.iterdir()] == ["set"]


def test_temporary_folders_of_other_processes_are_kept(archives, target) -> None:
    """Folders with similar names, and the temporary folder of an unpacking in progress."""
    theirs = [".set.x.12345678.partial", ".sets.12345678.partial", ".set.123.partial"]
    theirs += [".set.12345678.partial"] if target.exists() else []
    for name in theirs:
        (target.parent / name / "old").mkdir(parents=True)
    run(archives, target)
    names = {path.name for path in target.parent.iterdir()}
    assert names == {"set", *theirs}


# -- reading without unpacking----------------------------------------------------------------


def pack_tar(path: Path, files: dict[str, bytes], kind: bytes = tarfile.REGTYPE) -> Path:
    """Write a tar archive whose last member has the given file type."""
    with tarfile.open(path, "w:gz") as archive:
        for number, (name, content) in enumerate(files.items(), start=1):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            if number == len(files) and kind != tarfile.REGTYPE:
                info.type, info.linkname, info.size = kind, "/etc/passwd", 0
            archive.addfile(info, io.BytesIO(content))
    return path


PACKERS = [pack, pack_tar]


def read(path: Path, *names: str) -> dict[str, bytes]:
    before = tree(path.parent)
    try:
        return dict(read_files(path, names, max_bytes=LIMIT))
    finally:
        assert tree(path.parent) == before


@pytest.mark.parametrize("packer", PACKERS)
def test_files_by_their_names(packer, tmp_path) -> None:
    path = packer(tmp_path / "x", {**BASE, **MORE, "other/names.txt": b"second"})
    found = read(path, "matrix.txt", "names.txt")
    assert found == {"matrix.txt": b"0 1\n", "names.txt": b"1 cat\n"}  # the first of a name
    with pytest.raises(InputError, match=r"^absent.txt is not in the archive$"):
        read(path, "names.txt", "absent.txt")


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("name", [name for name in OUTSIDE if "\0" not in name])  # none in a tar
def test_reading_an_archive_with_a_path_that_leads_out(packer, name, tmp_path) -> None:
    path = packer(tmp_path / "x", {**BASE, name: b"evil"})
    with pytest.raises(InputError, match="leads out of the archive's folder"):
        read(path, "names.txt")


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE]
)
def test_reading_an_archive_with_a_member_that_is_not_a_file(kind, tmp_path) -> None:
    path = pack_tar(tmp_path / "x", {**BASE, "set/evil": b""}, kind)
    with pytest.raises(
        InputError, match="'set/evil': expected a file or a folder, got a link or a device"
    ):
        read(path, "names.txt")


@pytest.mark.parametrize("packer", PACKERS)
def test_reading_an_archive_that_is_too_large(packer, tmp_path) -> None:
    path = packer(tmp_path / "x", {**BASE, "set/zeros": bytes(LIMIT)})
    with pytest.raises(InputError, match="at most 100,000 bytes when unpacked"):
        read(path, "names.txt")


def test_reading_a_file_that_is_not_an_archive(tmp_path) -> None:
    (tmp_path / "x").write_text("<html>Please log in</html>")
    with pytest.raises(InputError, match=r"^not a zip or tar archive, or a damaged one: "):
        read(tmp_path / "x", "names.txt")
