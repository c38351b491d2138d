"""The registry: where data sets are searched, and how archives are verified."""

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

from pmvge.datasets import DATASETS, data_folder
from pmvge.datasets.cora import find_cora
from pmvge.datasets.registry import has_files, has_md5, has_sha256
from pmvge.errors import InputError

FILES = {"cora.content": b"31\t1\t0\tTheory\n7\t0\t1\tAgents\n" * 50, "cora.cites": b"31\t7\n"}
CORA, AWA2 = DATASETS["cora"], DATASETS["awa2"]
SUMS = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
verify = has_files(SUMS, max_bytes=1_000_000)

NO_ARCHIVE = r"expected an archive with cora.content and cora.cites: ."


def pack(path: Path, files: dict[str, bytes], *, folder="cora/", mode="w:gz") -> Path:
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{folder}{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


# -- folders --------------------------------------------------------------------------------------


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


def test_without_a_home_folder_the_error_names_pmvge_data(home, monkeypatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(InputError, match=r"home directory. Set PMVGE_DATA"):
        data_folder()


def test_installed_path_is_what_is_read(tmp_path) -> None:
    folder = CORA.folder(tmp_path)
    assert CORA.installed_path(tmp_path) is None
    folder.mkdir()
    assert CORA.installed_path(tmp_path) is None
    assert list(CORA.archive_paths(tmp_path)) == [folder / "cora.tgz"]
    for path in (folder / "cora.tgz", folder / "cora.zip"):  # the later is preferred
        path.touch()
        assert CORA.installed_path(tmp_path) == path
    (folder / "cora.content").touch()
    assert CORA.installed_path(tmp_path) == folder / "cora.zip"
    (folder / "cora.cites").touch()
    assert CORA.installed_path(tmp_path) == folder


def test_a_folder_that_may_not_be_read(tmp_path) -> None:
    def denied(folder: Path) -> Path | None:
        raise PermissionError(13, "Permission denied")

    with pytest.raises(InputError, match=r"cora: cannot look for cora: .*denied"):
        replace(CORA, find=denied).installed_path(tmp_path)


# -- entries---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dataset", DATASETS.values(), ids=lambda dataset: dataset.name)
def test_every_entry_is_complete(dataset, tmp_path) -> None:
    assert DATASETS[dataset.name] is dataset
    assert dataset.summary
    assert dataset.note
    assert dataset.licence
    if dataset.archives:
        assert dataset.source.startswith("https://")
        assert dataset.installed_path(tmp_path) is None
    for archive in dataset.archives:
        assert archive.url.startswith("https://")
        assert archive.max_bytes > 0
        (tmp_path / "x").write_bytes(b"something else")
        with pytest.raises(InputError, match="expected"):
            archive.verify(tmp_path / "x")


def test_the_archives_of_awa2_are_verified_by_the_publishers_md5(tmp_path) -> None:
    names = {path.name: archive.url for path, archive in AWA2.archive_paths(tmp_path).items()}
    assert names == {
        "AwA2-base.zip": "https://cvml.ista.ac.at/AwA2/AwA2-base.zip",
        "AwA2-features.zip": "https://cvml.ista.ac.at/AwA2/AwA2-features.zip",
    }
    (tmp_path / "x").touch()
    sums = ("27998437f72823d8ac314257682b57ca", "b1735c7b8a9044b1d51903b4c9e9fcd5")
    for archive, expected in zip(AWA2.archives, sums, strict=True):
        with pytest.raises(InputError, match=f"^expected MD5 {expected}, got d41d8cd98f00b2"):
            archive.verify(tmp_path / "x")


def test_digits_need_no_folder(tmp_path) -> None:
    graph = DATASETS["digits"].load(tmp_path / "nowhere")
    assert graph.view_names == ("image", "name", "profile", "spectrum")


# -- checksums -----------------------------------------------------------------------------


def test_the_expected_archive_is_accepted(tmp_path) -> None:
    verify(pack(tmp_path / "cora.tgz", {"README": b"", **FILES, "more": b"x"}))


def test_an_archive_is_verified_by_its_md5(tmp_path) -> None:
    (tmp_path / "x").write_bytes(b"message digest")
    known = has_md5("f96b697d7cb7938d525a2f31aaf161d0")  # RFC 1321
    known(tmp_path / "x")
    (tmp_path / "x").write_bytes(b"message digesT")
    with pytest.raises(InputError, match=r"^expected MD5 f96b697d\w{24}, got (?!f96b)\w{32}$"):
        known(tmp_path / "x")
    with pytest.raises(InputError, match=r"^cannot be read: .*nowhere"):
        known(tmp_path / "nowhere")


def test_a_file_is_verified_by_its_sha256(tmp_path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2
    has_sha256(digest)(tmp_path / "x")
    (tmp_path / "x").write_bytes(b"abd")
    with pytest.raises(InputError, match=f"^expected SHA-256 {digest}, got a52d159f"):
        has_sha256(digest)(tmp_path / "x")


@pytest.mark.parametrize("name", FILES)
def test_a_wrong_checksum_is_reported_with_the_expected_one(name, tmp_path) -> None:
    other = FILES[name] + b"\n"
    archive = pack(tmp_path / "cora.tgz", FILES | {name: other})
    expected, got = SUMS[name], hashlib.sha256(other).hexdigest()
    with pytest.raises(InputError, match=f"^{name}: expected SHA-256 {expected}, got {got}$"):
        verify(archive)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(name, tmp_path) -> None:
    archive = pack(tmp_path / "cora.tgz", {k: v for k, v in FILES.items() if k != name})
    with pytest.raises(InputError, match=f"expected an archive.*{name} is not in the archive"):
        verify(archive)


def test_a_folder_with_the_name_of_the_file_is_refused(tmp_path) -> None:
    with tarfile.open(tmp_path / "cora.tgz", "w:gz") as archive:
        member = tarfile.TarInfo("cora/cora.content")
        member.type = tarfile.DIRTYPE
        archive.addfile(member)
    with pytest.raises(InputError, match=r"cora.content is not in the archive"):
        verify(tmp_path / "cora.tgz")


@pytest.mark.parametrize("kept", [0.0, 0.1, 0.5, 0.9])
def test_a_truncated_archive(kept, tmp_path) -> None:
    noise = np.random.default_rng(0).bytes(20_000)  # incompressible, so the cut is inside a file
    archive = pack(tmp_path / "cora.tgz", dict.fromkeys(FILES, noise))
    content = archive.read_bytes()
    archive.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(InputError, match=NO_ARCHIVE):
        verify(archive)


def test_an_html_page_instead_of_an_archive(tmp_path) -> None:
    (tmp_path / "cora.tgz").write_text("<html>Please log in</html>")
    with pytest.raises(InputError, match=NO_ARCHIVE):
        verify(tmp_path / "cora.tgz")


@pytest.mark.parametrize("name", ["../evil", "/evil", "cora/../../evil", "C:evil", "..\\evil"])
def test_the_expected_files_with_a_path_that_leads_out(name, tmp_path) -> None:
    (tmp_path / "in").mkdir()
    archive = pack(tmp_path / "in" / "cora.tgz", {**FILES, name: b"x"}, folder="")
    with pytest.raises(InputError, match=r"evil' leads out of the archive's folder; .*publisher"):
        verify(archive)
    assert [path.name for path in tmp_path.rglob("*")] == ["in", "cora.tgz"]


def test_the_expected_files_with_a_link(tmp_path) -> None:
    with tarfile.open(pack(tmp_path / "cora.tar", FILES, mode="w"), "a") as archive:
        member = tarfile.TarInfo("cora/link")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(member)
    with pytest.raises(
        InputError, match="'cora/link': expected a file or a folder, got a link or a device"
    ):
        verify(tmp_path / "cora.tar")


# -- real files ------------------------------------------------------------------------------------


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


def test_the_real_files_have_the_checksums_of_the_registry(tmp_path) -> None:
    path, (archive,) = pack(tmp_path / "cora.tgz", real_files()), CORA.archives
    archive.verify(path)
    assert path.stat().st_size < archive.max_bytes


@pytest.mark.parametrize("name", ["bipartite", "side_effects", "microbes"])
def test_the_real_files_of_a_set_are_those_of_the_registry(name) -> None:
    dataset = DATASETS[name]
    found = dataset.installed_path() if "PMVGE_DATA" in os.environ else None
    if found is None:
        pytest.skip(f"{name} is not here: set PMVGE_DATA to a folder with {name!r}")
    for path, archive in dataset.archive_paths().items():
        here = path if path.is_file() else path.with_name(f"examples_cf_{path.name}")
        archive.verify(here)
        assert here.stat().st_size < archive.max_bytes
    assert dataset.load(dataset.folder()).n_links > 50


def test_files_are_saved_in_their_subfolders(tmp_path) -> None:
    paths = DATASETS["bipartite"].archive_paths(tmp_path)
    assert tmp_path / "bipartite" / "davis" / "y.npy" in paths
    assert len(paths) == 18
