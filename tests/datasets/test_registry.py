"""The registry: where data sets are looked for, and archives against the sums of their files."""

import hashlib
import io
import os
import sys
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pmvge.datasets.cora import find_cora
from pmvge.datasets.registry import DATASETS, data_folder
from pmvge.errors import InputError

FILES = {"cora.content": b"31\t1\t0\tTheory\n7\t0\t1\tAgents\n" * 50, "cora.cites": b"31\t7\n"}
CORA = replace(
    DATASETS["cora"],
    files={name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()},
)


NO_ARCHIVE = r"expected a tar archive with cora.content and cora.cites: ."


def pack(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"cora/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


# -- where -----------------------------------------------------------------------------------------


@pytest.fixture
def home(monkeypatch, tmp_path) -> Path:
    for name in ("PMVGE_DATA", "XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("platform", "expected"),
    [
        ("linux", ".local/share/pmvge"),
        ("darwin", "Library/Application Support/pmvge"),
        ("win32", "AppData/Local/pmvge"),
    ],
)
def test_the_users_own_folder(home, monkeypatch, platform, expected) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert data_folder() == home / expected


@pytest.mark.parametrize(
    ("platform", "variable"), [("linux", "XDG_DATA_HOME"), ("win32", "LOCALAPPDATA")]
)
def test_a_folder_that_the_system_names(home, monkeypatch, platform, variable) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv(variable, str(home / "elsewhere"))
    assert data_folder() == home / "elsewhere" / "pmvge"


@pytest.mark.parametrize("relative", ["", "data"])
def test_a_relative_xdg_folder_is_ignored(home, monkeypatch, relative) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", relative)
    assert data_folder() == home / ".local/share/pmvge"


def test_pmvge_data_comes_first(home, monkeypatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "elsewhere"))
    monkeypatch.setenv("PMVGE_DATA", str(home / "mine"))
    assert data_folder() == home / "mine"
    monkeypatch.setenv("PMVGE_DATA", "~/mine")
    assert data_folder() == home / "mine"
    assert DATASETS["cora"].folder() == home / "mine" / "cora"
    assert DATASETS["cora"].folder(home) == home / "cora"
    monkeypatch.setenv("PMVGE_DATA", "")
    assert data_folder().name == "pmvge"


def test_a_user_without_a_home_is_told_of_pmvge_data(home, monkeypatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(InputError, match=r"home directory. Set PMVGE_DATA"):
        data_folder()


def test_what_is_found_is_what_would_be_read(tmp_path) -> None:
    folder = CORA.folder(tmp_path)
    assert CORA.found(tmp_path) is None
    folder.mkdir()
    assert CORA.found(tmp_path) is None
    assert CORA.archive(tmp_path) == folder / "cora.tgz"
    for path in (folder / "cora.tgz", folder / "cora.zip"):  # each before the one before it
        path.touch()
        assert CORA.found(tmp_path) == path
    (folder / "cora.content").touch()
    assert CORA.found(tmp_path) == folder / "cora.zip"
    (folder / "cora.cites").touch()
    assert CORA.found(tmp_path) == folder


def test_a_folder_that_may_not_be_read(tmp_path) -> None:
    def denied(folder: Path) -> Path | None:
        raise PermissionError(13, "Permission denied")

    with pytest.raises(InputError, match=r"cora: cannot look for cora: .*denied"):
        replace(CORA, find=denied).found(tmp_path)


# -- what ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dataset", DATASETS.values(), ids=str)
def test_every_entry_is_complete(dataset, tmp_path) -> None:
    assert DATASETS[dataset.name] is dataset
    assert dataset.summary
    assert dataset.note
    if dataset.files:
        assert dataset.source.startswith("https://")
        assert dataset.max_bytes > 0
        assert dataset.found(tmp_path) is None
        assert all(len(bytes.fromhex(sum_)) == 32 for sum_ in dataset.files.values())


def test_digits_need_no_folder(tmp_path) -> None:
    graph = DATASETS["digits"].load(tmp_path / "nowhere")
    assert graph.view_names == ("image", "name", "profile", "spectrum")


# -- whether it is the right one -------------------------------------------------------------------


def test_the_right_archive(tmp_path) -> None:
    CORA.verify(pack(tmp_path / "cora.tgz", {"README": b"", **FILES, "more": b"x"}))


@pytest.mark.parametrize("name", FILES)
def test_another_content_is_named_with_both_sums(name, tmp_path) -> None:
    other = FILES[name] + b"\n"
    archive = pack(tmp_path / "cora.tgz", FILES | {name: other})
    expected, got = CORA.files[name], hashlib.sha256(other).hexdigest()
    with pytest.raises(InputError, match=f"^{name}: expected SHA-256 {expected}, got {got}$"):
        CORA.verify(archive)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(name, tmp_path) -> None:
    archive = pack(tmp_path / "cora.tgz", {k: v for k, v in FILES.items() if k != name})
    with pytest.raises(InputError, match=f"expected a tar archive.*{name} is not in the archive"):
        CORA.verify(archive)


def test_a_folder_is_not_the_file(tmp_path) -> None:
    with tarfile.open(tmp_path / "cora.tgz", "w:gz") as archive:
        member = tarfile.TarInfo("cora/cora.content")
        member.type = tarfile.DIRTYPE
        archive.addfile(member)
    with pytest.raises(InputError, match=r"cora.content is not a file"):
        CORA.verify(tmp_path / "cora.tgz")


@pytest.mark.parametrize("kept", [0.0, 0.1, 0.5, 0.9])
def test_a_truncated_archive(kept, tmp_path) -> None:
    noise = np.random.default_rng(0).bytes(20_000)  # does not shrink: the cut goes through a file
    archive = pack(tmp_path / "cora.tgz", dict.fromkeys(FILES, noise))
    content = archive.read_bytes()
    archive.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(InputError, match=NO_ARCHIVE):
        CORA.verify(archive)


def test_a_page_instead_of_an_archive(tmp_path) -> None:
    (tmp_path / "cora.tgz").write_text("<html>Please log in</html>")
    with pytest.raises(InputError, match=NO_ARCHIVE):
        CORA.verify(tmp_path / "cora.tgz")


# -- the real one ----------------------------------------------------------------------------------


def real_files() -> dict[str, bytes]:
    found = find_cora(Path(os.environ.get("PMVGE_DATA", os.devnull)) / "cora")
    if found is None:
        pytest.skip("Cora is not here: set PMVGE_DATA to a folder with 'cora'")
    if found.is_dir():
        return {name: (found / name).read_bytes() for name in FILES}
    if found.suffix == ".zip":
        with zipfile.ZipFile(found) as archive:
            return {name: archive.read(f"cora/{name}") for name in FILES}
    with tarfile.open(found) as tar:
        return {name: tar.extractfile(f"cora/{name}").read() for name in FILES}


def test_the_real_files_have_the_sums_of_the_registry(tmp_path) -> None:
    dataset = DATASETS["cora"]
    archive = pack(tmp_path / "cora.tgz", real_files())
    dataset.verify(archive)
    assert archive.stat().st_size < dataset.max_bytes
