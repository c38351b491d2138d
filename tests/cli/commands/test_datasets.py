"""``pmvge datasets``: the output of the three commands, and the files they write."""

import hashlib
import io
import json
import tarfile
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

import pmvge.datasets
from pmvge.cli.commands.datasets import app
from pmvge.datasets import DATASETS, Archive, awa, load_cora, load_digits
from pmvge.datasets import downloads as downloading
from pmvge.datasets.registry import has_files, has_md5
from pmvge.errors import InputError, ParameterError

CONTENT = b"31\t1\t0\t1\tTheory\n7\t0\t0\t1\tAgents\n100\t0\t1\t0\tTheory\n"
FILES = {"cora.content": CONTENT, "cora.cites": b"31\t7\n7\t100\n"}


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def pack(path: Path, files: dict[str, bytes] = FILES) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"cora/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def publish(monkeypatch, name: str, *archives: Archive) -> None:
    monkeypatch.setitem(DATASETS, name, replace(DATASETS[name], archives=archives))


@pytest.fixture
def published(tmp_path, monkeypatch) -> Path:
    """A small Cora at a file URL."""
    archive = tmp_path / "publisher" / "cora.tgz"
    archive.parent.mkdir()
    pack(archive)
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
    publish(
        monkeypatch, "cora", Archive(archive.as_uri(), 10_000, has_files(sums, max_bytes=10_000))
    )
    monkeypatch.setattr(
        pmvge.datasets, "download", partial(downloading.download, allowed=("file://",))
    )
    return archive


@pytest.fixture
def data(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("PMVGE_DATA", str(tmp_path / "data [1]"))  # brackets are markup for rich
    return tmp_path / "data [1]"


# -- list ------------------------------------------------------------------------------------------


def test_list_names_every_set_and_shows_which_are_available(published, data) -> None:
    lines = run("list").splitlines()
    here = {name: next(line for line in lines if f" {name} " in line) for name in DATASETS}
    assert here["digits"].split()[-2] == "yes"
    assert here["cora"].split()[-2] == "no"
    run("download", "cora")
    assert any(" cora " in line and " yes " in line for line in run("list").splitlines())


def test_list_as_json(published, data) -> None:
    rows = {row["name"]: row for row in json.loads(run("list", "--json"))}
    assert set(rows) == set(DATASETS)
    assert rows["digits"]["present"] is True
    assert rows["digits"]["folder"] is None
    assert rows["cora"]["present"] is False
    assert rows["cora"]["folder"] == str(data / "cora")
    assert rows["cora"]["source"].startswith("https://")
    run("download", "cora")
    rows = {row["name"]: row for row in json.loads(run("list", "--json"))}
    assert rows["cora"]["present"] is True
    assert rows["cora"]["found"] == str(data / "cora" / "cora.tgz")


# -- download --------------------------------------------------------------------------------------


def test_download_puts_the_archive_where_the_loader_reads(published, data) -> None:
    printed = run("download", "cora")
    archive = data / "cora" / "cora.tgz"
    assert f"cora: {archive} ({archive.stat().st_size:,} bytes, verified)" in printed
    assert "is read first" not in printed
    assert archive.read_bytes() == published.read_bytes()
    assert load_cora().graph.n_links == 2


def test_download_into_another_folder(published, data, tmp_path) -> None:
    run("download", "cora", "--folder", tmp_path / "other")
    assert load_cora(tmp_path / "other" / "cora").graph.n_links == 2
    assert not data.exists()


def test_an_available_set_is_downloaded_again_only_by_force(published, data) -> None:
    run("download", "cora")
    archive = data / "cora" / "cora.tgz"
    archive.write_bytes(b"damaged")
    assert f"cora is already there: {archive} (--force" in run("download", "cora")
    assert archive.read_bytes() == b"damaged"
    run("download", "cora", "--force")
    assert archive.read_bytes() == published.read_bytes()


def test_download_names_a_file_that_is_read_first(published, data) -> None:
    (data / "cora").mkdir(parents=True)
    (data / "cora" / "cora.zip").touch()
    printed = run("download", "cora", "--force")
    assert f"note: {data / 'cora' / 'cora.zip'} is read first; remove it" in printed


def test_digits_need_no_download(data) -> None:
    assert "digits comes with scikit-learn: there is nothing to download" in run(
        "download", "digits", "--force"
    )
    assert not data.exists()


def test_a_wrong_archive_leaves_the_old_one(published, data) -> None:
    run("download", "cora")
    old = (data / "cora" / "cora.tgz").read_bytes()
    pack(published, FILES | {"cora.cites": b"31\t100\n"})
    with pytest.raises(InputError, match=r"cora.cites: expected SHA-256 \w{64}, got \w{64}$"):
        run("download", "cora", "--force")
    assert [path.read_bytes() for path in (data / "cora").iterdir()] == [old]


def test_an_archive_above_the_size_limit_is_refused(published, data, monkeypatch) -> None:
    (archive,) = DATASETS["cora"].archives
    publish(monkeypatch, "cora", replace(archive, max_bytes=10))
    with pytest.raises(InputError, match="expected at most 10 bytes"):
        run("download", "cora")


def test_a_failed_download_says_where_to_put_the_archive(published, data) -> None:
    published.unlink()
    with pytest.raises(InputError) as caught:
        run("download", "cora")
    assert published.as_uri() in str(caught.value)
    assert str(caught.value).endswith(f"save it as {data / 'cora' / 'cora.tgz'}")


def test_only_https_is_downloaded(published, data, monkeypatch) -> None:
    monkeypatch.setattr(pmvge.datasets, "download", downloading.download)
    with pytest.raises(InputError, match="starts with https://"):
        run("download", "cora")


def test_the_bar_is_shown_on_terminals_only(published, data, monkeypatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert "0:00" not in run("download", "cora")
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes the output for a terminal
    assert "0:00" in run("download", "cora", "--force")


# -- a set of several archives ---------------------------------------------------------------------


ANIMALS = {
    "AwA2-base.zip": {
        "classes.txt": "1 antelope\n2 grizzly+bear\n",
        "predicates.txt": "1 black\n2 big\n3 fast\n",
        "predicate-matrix-binary.txt": "0 0 1\n1 1 0\n",
        "predicate-matrix-continuous.txt": "-1 12.5 80\n39.25 1.39 0\n",
    },
    "AwA2-features.zip": {
        "Features/ResNet101/AwA2-features.txt": "1 2\n3 4\n5 6\n",
        "Features/ResNet101/AwA2-labels.txt": "2\n1\n2\n",
        "Features/ResNet101/AwA2-filenames.txt": "a.jpg\nb.jpg\nc.jpg\n",
    },
}


@pytest.fixture
def animals(tmp_path, monkeypatch) -> dict[str, Path]:
    """A small AwA2 at file URLs: three images with two features each."""
    paths = {name: tmp_path / "publisher" / name for name in ANIMALS}
    (tmp_path / "publisher").mkdir()
    for name, path in paths.items():
        with zipfile.ZipFile(path, "w") as archive:
            for file, text in ANIMALS[name].items():
                archive.writestr(f"Animals_with_Attributes2/{file}", text)
    publish_zips(monkeypatch, paths)
    monkeypatch.setattr(
        pmvge.datasets, "download", partial(downloading.download, allowed=("file://",))
    )
    monkeypatch.setitem(awa.COLUMNS, "awa2", 2)
    return paths


def publish_zips(monkeypatch, paths: dict[str, Path]) -> None:
    sums = {path: hashlib.md5(path.read_bytes()).hexdigest() for path in paths.values()}
    archives = [Archive(path.as_uri(), 10_000, has_md5(md5)) for path, md5 in sums.items()]
    publish(monkeypatch, "awa2", *archives)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


UNPACKED = "Animals_with_Attributes2"


def test_archives_are_downloaded_and_unpacked_where_the_loaders_read(animals, data) -> None:
    printed = run("download", "awa2")
    folder = data / "awa2"
    for name in animals:
        size = animals[name].stat().st_size
        assert f"awa2: {folder / name} ({size:,} bytes, verified)\n" in printed
    assert f"unpacked in {folder / UNPACKED}; the archives may be removed\n" in printed
    assert "is read first" not in printed
    assert names(folder) == [UNPACKED, *animals]
    level = awa.load_attributes()
    assert awa.load_images("awa2", level.classes).names == ("b.jpg", "a.jpg", "c.jpg")
    assert f"awa2 is already there: {folder / UNPACKED} (--force" in run("download", "awa2")


def test_an_unpacked_set_is_described(animals, data, tmp_path) -> None:
    other = tmp_path / "other"
    assert "37,322 images" in run("describe", "awa2", "--data", other)
    run("download", "awa2", "--data", other)  # --folder by another name
    assert not data.exists()
    facts = json.loads(run("describe", "awa2", "--json", "--folder", other))
    assert facts["found"] == str(other / "awa2" / UNPACKED)
    assert facts["graph"] == {
        "views": {
            "attribute": {"nodes": 3, "features": None},
            "image": {"nodes": 3, "features": [2]},
        },
        "links": [{"views": ["image", "attribute"], "links": 5, "weight": 5.0}],
    }


def test_each_archive_has_its_bar(animals, data, monkeypatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    printed = run("download", "awa2")
    bars = [line for line in printed.splitlines() if "0:00" in line]
    assert all(any(name in line for line in bars) for name in animals)


def test_a_damaged_archive_is_refused_and_not_kept(animals, data) -> None:
    animals["AwA2-base.zip"].write_bytes(animals["AwA2-base.zip"].read_bytes() + b"x")
    message = (
        r"AwA2-base.zip: the download is not the expected file: expected MD5 \w{32}, got \w{32}$"
    )
    with pytest.raises(InputError, match=message):
        run("download", "awa2")
    assert not data.exists()


def test_a_complete_archive_is_not_downloaded_again(animals, data) -> None:
    right = animals["AwA2-features.zip"].read_bytes()
    animals["AwA2-features.zip"].write_bytes(right[:-1])
    with pytest.raises(
        InputError, match=r"AwA2-features.zip: the download is not the expected file"
    ):
        run("download", "awa2")
    assert names(data / "awa2") == ["AwA2-base.zip"]
    animals["AwA2-features.zip"].write_bytes(right)
    animals["AwA2-base.zip"].unlink()  # cannot be downloaded any more
    run("download", "awa2")
    assert awa.load_awa2(data / "awa2").n_links == 5


def test_archives_that_were_downloaded_by_hand_are_used(animals, data) -> None:
    (data / "awa2").mkdir(parents=True)
    for name, path in animals.items():
        path.rename(data / "awa2" / name)
    assert "unpacked in" in run("download", "awa2")
    with pytest.raises(InputError, match="cannot be reached"):
        run("download", "awa2", "--force")
    assert awa.load_awa2(data / "awa2").n_links == 5  # still there


def test_a_wrong_archive_in_the_folder_is_replaced_with_a_note(animals, data) -> None:
    (data / "awa2").mkdir(parents=True)
    wrong = data / "awa2" / "AwA2-base.zip"
    wrong.write_bytes(b"damaged")
    printed = run("download", "awa2")
    assert f"{wrong} is not the expected file: expected MD5 " in printed
    assert wrong.read_bytes() == animals["AwA2-base.zip"].read_bytes()


def test_a_refused_archive_leaves_the_older_folder(animals, data, monkeypatch) -> None:
    run("download", "awa2")
    with zipfile.ZipFile(animals["AwA2-features.zip"], "a") as archive:
        archive.writestr("../../evil", "x")
    publish_zips(monkeypatch, animals)  # with the right sum
    with pytest.raises(InputError, match=r"member '../../evil' leads out"):
        run("download", "awa2", "--force")
    assert awa.load_awa2(data / "awa2").n_links == 5
    assert names(data) == ["awa2"]
    assert names(data / "awa2") == [UNPACKED, *animals]


def test_download_names_other_files_that_are_read_first(animals, data) -> None:
    for files in ANIMALS.values():
        for name, text in files.items():
            path = data / "awa2" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    printed = run("download", "awa2", "--force")
    assert f"note: {data / 'awa2'} is read first; remove it" in printed


# -- describe --------------------------------------------------------------------------------------


def test_describe_shows_where_a_set_is_searched_for(published, data, tmp_path) -> None:
    printed = run("describe", "cora")
    assert "2,708 papers" in printed
    assert f"not in {data / 'cora'}; get it with: pmvge datasets download cora\n" in printed
    other = run("describe", "cora", "--folder", tmp_path / "of mine")
    assert f"download cora --folder '{tmp_path / 'of mine'}'\n" in other


def test_describe_shows_the_graph_of_an_available_set(published, data) -> None:
    run("download", "cora")
    printed = run("describe", "cora")
    assert f"found: {data / 'cora' / 'cora.tgz'}\n" in printed
    assert repr(load_cora().graph) in printed


def test_describe_as_json(published, data, tmp_path) -> None:
    facts = json.loads(run("describe", "cora", "--json"))
    assert (facts["present"], facts["found"], facts["graph"]) == (False, None, None)
    run("download", "cora", "--folder", tmp_path / "other")
    facts = json.loads(run("describe", "cora", "--json", "--folder", tmp_path / "other"))
    assert facts["present"] is True
    assert facts["folder"] == str(tmp_path / "other" / "cora")
    assert facts["graph"] == {
        "views": {"paper": {"nodes": 3, "features": [3]}},
        "links": [{"views": ["paper", "paper"], "links": 2, "weight": 2.0}],
    }


def test_describe_digits(data) -> None:
    train, _ = load_digits()
    printed = run("describe", "digits")
    assert "comes with scikit-learn" in printed
    assert repr(train.graph) in printed
    graph = json.loads(run("describe", "digits", "--json"))["graph"]
    assert graph["views"]["image"] == {"nodes": 1348, "features": [64]}
    assert graph["views"]["name"] == {"nodes": 10, "features": None}
    # Each of the 1,348 images has five votes for names.
    assert [row["weight"] for row in graph["links"] if row["views"] == ["image", "name"]] == [6740]


def test_a_damaged_set_is_an_error(published, data) -> None:
    (data / "cora").mkdir(parents=True)
    (data / "cora" / "cora.tgz").write_bytes(b"damaged")
    with pytest.raises(InputError, match="cannot read Cora"):
        run("describe", "cora")


# -- all -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["download", "describe"])
def test_an_unknown_name_lists_the_known_ones(command, data) -> None:
    message = "unknown data set 'coral': expected one of .*did you mean 'cora'"
    with pytest.raises(ParameterError, match=message):
        run(command, "coral")


@pytest.mark.parametrize("command", ["list", "download", "describe"])
def test_help_shows_an_example(command) -> None:
    assert f"Example: pmvge datasets {command}" in run(command, "--help")
