"""Cora from a folder or an archive, and invalid files."""

import io
import os
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from pmvge.datasets import load_cora
from pmvge.errors import InputError, PmvgeError

CONTENT = "31\t1\t0\t1\tTheory\n7\t0\t0\t1\tAgents\n100\t0\t1\t0\tTheory\n5\t1\t1\t1\tAgents\n"
# Both orders, a repeat, a paper citing itself, and one that is not in the content.
CITES = "31\t7\n7\t31\n7\t31\n100\t5\n5\t5\n5\t999\n999\t7\n"
FILES = {"cora.content": CONTENT, "cora.cites": CITES}


def as_folder(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).write_text(text)


def as_zip(folder: Path, files: dict[str, str]) -> None:
    with zipfile.ZipFile(folder / "cora.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(f"deep/cora/{name}", text)


def as_tgz(folder: Path, files: dict[str, str]) -> None:
    with tarfile.open(folder / "cora.tgz", "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"cora/{name}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))


WRITERS = [as_folder, as_zip, as_tgz]


@pytest.mark.parametrize("write", WRITERS)
def test_papers_words_fields_and_citations(write, tmp_path) -> None:
    write(tmp_path, FILES)
    cora = load_cora(tmp_path)
    graph = cora.graph
    assert graph.view_names == ("paper",)
    assert graph.ids["paper"].tolist() == [31, 7, 100, 5]
    assert graph.views["paper"].toarray().tolist() == [[1, 0, 1], [0, 0, 1], [0, 1, 0], [1, 1, 1]]
    assert graph.views["paper"].dtype == np.float32
    assert cora.classes == ("Agents", "Theory")
    assert cora.labels.tolist() == [1, 0, 1, 0]
    linked = graph.links["paper", "paper"].matrix().toarray()
    assert linked.tolist() == [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]


def test_files_are_preferred_to_an_archive(tmp_path) -> None:
    as_folder(tmp_path, FILES)
    (tmp_path / "cora.zip").write_bytes(b"not needed")
    assert load_cora(str(tmp_path)).graph.n_links == 2


def test_the_data_folder_is_the_default(tmp_path, monkeypatch) -> None:
    (tmp_path / "cora").mkdir()
    as_folder(tmp_path / "cora", FILES)
    monkeypatch.setenv("PMVGE_DATA", str(tmp_path))
    assert load_cora().graph.n_links == 2


def test_a_missing_cora_names_the_publisher_and_the_command(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PMVGE_DATA", str(tmp_path))
    message = r"cora: Cora not found: expected cora.content and cora.cites, or cora.zip.*https://"
    with pytest.raises(InputError, match=f"{message}.*pmvge datasets download cora.*PMVGE_DATA"):
        load_cora()


def test_the_users_data_folder_is_searched_and_not_the_current_one(tmp_path, monkeypatch) -> None:
    (tmp_path / "cora").mkdir()
    as_folder(tmp_path / "cora", FILES)
    monkeypatch.delenv("PMVGE_DATA", raising=False)
    for name in ("HOME", "USERPROFILE", "XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"home.*pmvge.cora: Cora not found"):
        load_cora()


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("missing", FILES)
def test_both_files_are_needed(write, missing, tmp_path) -> None:
    write(tmp_path, {name: text for name, text in FILES.items() if name != missing})
    with pytest.raises(InputError, match=rf"{tmp_path.name}: .*{missing}"):
        load_cora(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cora.content": ""}, "cora.content: expected lines of the same length"),
        ({"cora.content": "31\tTheory\n"}, "cora.content: expected lines of the same length"),
        (
            {"cora.content": CONTENT + "8\t1\tTheory\n"},
            "cora.content: expected lines of the same length",
        ),
        (
            {"cora.content": CONTENT.replace("\t", " ")},
            "cora.content: expected lines of the same length",
        ),
        ({"cora.content": CONTENT.replace("31", "x")}, "expected files in Cora's format: .*'x'"),
        (
            {"cora.content": CONTENT.replace("7\t0", "7\tz")},
            "expected files in Cora's format: .*'z'",
        ),
        ({"cora.cites": ""}, "expected files in Cora's format"),
        ({"cora.cites": "31\t7\n5\n"}, "expected files in Cora's format"),
        ({"cora.cites": "31\n7\n"}, "expected files in Cora's format"),
        ({"cora.cites": "31\tseven\n"}, "expected files in Cora's format: .*'seven'"),
        ({"cora.content": CONTENT + CONTENT}, "view 'paper': ids: expected distinct ids"),
        ({"cora.cites": "31\t31\n8\t9\n"}, "at least one link"),
    ],
)
def test_another_layout_is_rejected(change, message, tmp_path) -> None:
    as_folder(tmp_path, FILES | change)
    with pytest.raises(PmvgeError, match=message):
        load_cora(tmp_path)


def test_bytes_that_are_not_utf_8_are_rejected(tmp_path) -> None:
    as_folder(tmp_path, FILES)
    (tmp_path / "cora.cites").write_bytes(b"\xff\xfe31\t7\n")
    with pytest.raises(InputError, match=r"cannot read Cora: .*utf-8"):
        load_cora(tmp_path)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garble(path: Path) -> None:
    """Change the compressed text in the middle; the headers stay valid."""
    data = bytearray(path.read_bytes())
    data[len(data) // 4 : len(data) // 2] = b"\xff" * (len(data) // 2 - len(data) // 4)
    path.write_bytes(data)


def replace(path: Path) -> None:
    path.write_bytes(b"this is no archive")


@pytest.mark.parametrize("damage", [cut, garble, replace])
@pytest.mark.parametrize(("write", "name"), [(as_zip, "cora.zip"), (as_tgz, "cora.tgz")])
def test_a_damaged_archive_is_rejected(write, name, damage, tmp_path) -> None:
    words = np.random.default_rng(0).integers(0, 2, (200, 50))
    lines = ["\t".join(map(str, [i, *row, "Theory"])) for i, row in enumerate(words.tolist())]
    write(tmp_path, {"cora.content": "\n".join(lines), "cora.cites": "0\t1\n"})
    assert load_cora(tmp_path).graph.n_links == 1
    damage(tmp_path / name)
    with pytest.raises(InputError, match="cannot read Cora: "):
        load_cora(tmp_path)


@pytest.mark.parametrize("write", [as_zip, as_tgz])
@pytest.mark.parametrize("name", ["../evil", "/evil", "C:evil", "..\\evil"])
def test_an_archive_with_a_path_that_leads_out_is_rejected(write, name, tmp_path) -> None:
    folder = tmp_path / "cora"
    folder.mkdir()
    write(folder, {**FILES, f"../../{name}": "x"})
    message = r"cora: cannot read Cora: member .*evil' leads out of the archive's folder"
    with pytest.raises(InputError, match=message):
        load_cora(folder)
    assert len(list(tmp_path.rglob("*"))) == 2  # the folder and the archive


def test_an_archive_with_a_link_is_rejected(tmp_path) -> None:
    as_folder(tmp_path, {"secret": CITES})
    with tarfile.open(tmp_path / "cora.tgz", "w:gz") as archive:
        for name in FILES:
            member = tarfile.TarInfo(f"cora/{name}")
            member.type, member.linkname = tarfile.SYMTYPE, str(tmp_path / "secret")
            archive.addfile(member)
    with pytest.raises(InputError, match=r"cannot read Cora: .*got a link or a device"):
        load_cora(tmp_path)


@pytest.mark.parametrize("write", [as_zip, as_tgz])
def test_an_archive_that_is_too_large_is_rejected(write, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("pmvge.datasets.cora.MAX_BYTES", 10_000)
    write(tmp_path, {**FILES, "zeros": "0" * 10_000})
    with pytest.raises(InputError, match="cannot read Cora: expected at most 10,000 bytes"):
        load_cora(tmp_path)


BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"
REAL = next(
    (
        folder / "cora"
        for folder in (Path(os.environ.get("PMVGE_DATA", BESIDE)), BESIDE)
        if (folder / "cora").is_dir()
    ),
    None,
)


@pytest.mark.skipif(REAL is None, reason="Cora is neither in $PMVGE_DATA nor in ../shared/data")
def test_the_real_cora() -> None:
    cora = load_cora(REAL)
    graph = cora.graph
    assert dict(graph.sizes) == {"paper": 2708}
    assert graph.input_shape("paper") == (1433,)
    assert set(graph.views["paper"].data) == {1.0}
    assert graph.n_links == graph.total_weight == 5278
    assert len(cora.classes) == 7
    assert np.bincount(cora.labels).sum() == 2708
    assert sorted(np.bincount(cora.labels)) == [180, 217, 298, 351, 418, 426, 818]
