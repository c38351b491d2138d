"""A download ends with the complete file, or keeps the old one."""

import os
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pmvge import __version__
from pmvge.datasets import download
from pmvge.errors import InputError

LOCAL = ("http://127.0.0.1:",)
BODY = bytes(range(256)) * 1000  # four chunks
LIMIT = 300_000


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.agents.append(self.headers["User-Agent"])
        self.close_connection = True
        getattr(self, self.path.strip("/"))()

    def begin(self, code: int = 200, **headers: object) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()

    def complete(self) -> None:
        self.begin(Content_Length=len(BODY))
        self.wfile.write(BODY)

    def unsized(self) -> None:
        self.begin()
        self.wfile.write(BODY)

    def missing(self) -> None:
        self.begin(404, Content_Length=4)
        self.wfile.write(b"gone")

    def cut(self) -> None:
        self.begin(Content_Length=len(BODY))
        self.wfile.write(BODY[:100_000])

    def cut_chunk(self) -> None:
        self.begin(Transfer_Encoding="chunked")
        self.wfile.write(b"%x\r\n" % len(BODY) + BODY[:100_000])

    def stalled(self) -> None:
        self.begin(Content_Length=len(BODY))
        self.wfile.write(BODY[:100_000])
        self.server.over.wait(20)

    def silent(self) -> None:
        """Close the connection without an answer."""

    def garbled(self) -> None:
        self.wfile.write(b"this is not http\r\n\r\n")

    def large(self) -> None:
        self.begin(Content_Length=LIMIT + 1)
        self.wfile.write(b"x" * (LIMIT + 1))

    def large_unsized(self) -> None:
        self.begin()
        self.wfile.write(b"x" * (LIMIT + 1))

    def moved(self) -> None:
        self.begin(302, Location="/complete", Content_Length=0)

    def moved_away(self) -> None:
        self.begin(302, Location="http://elsewhere.invalid/complete", Content_Length=0)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Ignore errors of clients that close the connection, as some tests do."""


@pytest.fixture(scope="module")
def server():
    with Server(("127.0.0.1", 0), Handler) as server:
        server.agents, server.over = [], threading.Event()
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield server
        server.over.set()
        server.shutdown()
        thread.join(10)


@pytest.fixture
def at(server, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return lambda page: f"http://127.0.0.1:{server.server_port}/{page}"


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def accept(path: Path) -> None:
    pass


def fetch(url: str, target: Path, verify=accept, on_progress=None, **options) -> None:
    settings = {"max_bytes": LIMIT, "timeout": 20.0, "allowed": LOCAL, **options}
    download(url, target, verify, on_progress, **settings)


@pytest.mark.parametrize("page", ["complete", "unsized", "moved"])
@pytest.mark.parametrize("old", [None, b"old"])
def test_the_downloaded_file_is_complete(at, page, old, tmp_path) -> None:
    target = tmp_path / "new" / "folder" / "file.tgz"
    if old is not None:
        target.parent.mkdir(parents=True)
        target.write_bytes(old)
    fetch(at(page), target)
    assert target.read_bytes() == BODY
    assert names(target.parent) == ["file.tgz"]


@pytest.mark.parametrize(("page", "total"), [("complete", len(BODY)), ("unsized", None)])
def test_progress_reports_the_bytes(at, page, total, tmp_path) -> None:
    calls = []
    fetch(at(page), tmp_path / "file", on_progress=lambda *numbers: calls.append(numbers))
    done = [d for d, _ in calls]
    assert len(done) > 2
    assert done == sorted(set(done))
    assert done[-1] == len(BODY)
    assert {t for _, t in calls} == {total}


def test_the_user_agent_is_sent(server, at, tmp_path) -> None:
    fetch(at("complete"), tmp_path / "file")
    assert server.agents[-1] == f"pmvge/{__version__}"


def test_the_complete_file_is_verified_before_it_replaces_the_old_one(at, tmp_path) -> None:
    target, seen = tmp_path / "file", []
    target.write_bytes(b"old")

    def verify(path: Path) -> None:
        assert (path.parent, path.suffix) == (tmp_path, ".partial")
        seen.append((path.read_bytes(), target.read_bytes()))

    fetch(at("complete"), target, verify)
    assert seen == [(BODY, b"old")]


def wrong(path: Path) -> None:
    raise InputError("inner.txt: expected SHA-256 12, got 34")


def stop(done: int, total: int | None) -> None:
    raise KeyboardInterrupt


def no_sync(descriptor: int) -> None:
    raise OSError(28, "No space left on device")


def assert_untouched(target: Path, old: bytes | None) -> None:
    assert names(target.parent) == ([] if old is None else [target.name])
    if old is not None:
        assert target.read_bytes() == old


@pytest.mark.parametrize("old", [None, b"old"])
@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("missing", r"cannot be downloaded: HTTP Error 404"),
        ("cut", r"the download stopped after 100,000 of 256,000 bytes"),
        ("cut_chunk", r"the download stopped after \d\d,\d+ bytes: IncompleteRead"),
        ("stalled", r"the download stopped after 65,536 bytes: timed out"),
        ("silent", r"cannot be reached: Remote end closed"),
        ("garbled", r"cannot be reached: this is not http"),
        ("moved_away", r"redirected to http://elsewhere.invalid/complete, expected http://127"),
    ],
)
def test_network_errors(at, page, message, old, tmp_path) -> None:
    target = tmp_path / "file.tgz"
    if old is not None:
        target.write_bytes(old)
    with pytest.raises(InputError, match=message) as caught:
        fetch(at(page), target, timeout=3.0 if page == "stalled" else 20.0)
    assert str(caught.value).startswith(f"{at(page)}: ")
    assert str(caught.value).endswith(f"download it by hand and save it as {target}")
    assert_untouched(target, old)


def test_an_unreachable_server(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.chdir(tmp_path)
    with socket.socket() as taken:  # bound, but not listening
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/file"
        with pytest.raises(InputError, match=r"cannot be reached: .*refused") as caught:
            fetch(url, Path("file"))
    assert str(caught.value).endswith(f"save it as {tmp_path / 'file'}")  # an absolute path
    assert names(tmp_path) == []


@pytest.mark.parametrize("page", ["large", "large_unsized"])
def test_more_bytes_than_expected(at, page, tmp_path) -> None:
    target, calls = tmp_path / "file", []
    with pytest.raises(InputError, match=r"expected at most 300,000 bytes, got 300,001 or more"):
        fetch(at(page), target, on_progress=lambda done, total: calls.append(done))
    assert page == "large_unsized" or calls == []  # refused by its Content-Length
    assert_untouched(target, None)
    fetch(at(page), target, max_bytes=LIMIT + 1)
    assert target.stat().st_size == LIMIT + 1


@pytest.mark.parametrize("old", [None, b"old"])
def test_the_wrong_file(at, old, tmp_path) -> None:
    target = tmp_path / "file"
    if old is not None:
        target.write_bytes(old)
    message = (
        r"complete: the download is not the expected file: inner.txt: expected SHA-256 12, got 34"
    )
    with pytest.raises(InputError, match=message):
        fetch(at("complete"), target, wrong)
    assert_untouched(target, old)


def test_an_interrupt(at, tmp_path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        fetch(at("complete"), target, on_progress=stop)
    assert_untouched(target, b"old")


@pytest.mark.parametrize("old", [None, b"old"])
def test_new_folders_are_removed_after_a_failure(at, old, tmp_path) -> None:
    target = tmp_path / "new" / "folder" / "file"
    if old is not None:
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "mine").write_bytes(old)
    for page, verify in (("complete", wrong), ("missing", accept)):
        with pytest.raises(InputError):
            fetch(at(page), target, verify)
        assert names(tmp_path) == ([] if old is None else ["new"])
        assert old is None or names(tmp_path / "new") == ["mine"]


def test_a_full_disk(at, monkeypatch, tmp_path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", no_sync)
    with pytest.raises(InputError, match=r"file: cannot be written: .*No space left"):
        fetch(at("complete"), target)
    assert_untouched(target, b"old")


def test_a_file_at_the_path_of_the_folder(at, tmp_path) -> None:
    (tmp_path / "folder").write_bytes(b"a file")
    with pytest.raises(InputError, match=r"file: cannot be written: "):
        fetch(at("complete"), tmp_path / "folder" / "file")
    assert_untouched(tmp_path / "folder", b"a file")


def test_a_folder_at_the_path_of_the_file(at, tmp_path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(InputError, match=r"file: cannot be written: "):
        fetch(at("complete"), tmp_path / "file")
    assert names(tmp_path) == ["file"]


def test_a_folder_that_is_read_only(at, tmp_path) -> None:
    tmp_path.chmod(0o500)
    try:
        if os.access(tmp_path, os.W_OK):
            pytest.skip("this user may write everywhere")
        with pytest.raises(InputError, match=r"file: cannot be written: .*denied"):
            fetch(at("complete"), tmp_path / "file")
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:1/x", "http://example.org/x", "file:///x", "ftp://example.org/x", "x", ""],
)
def test_only_https_is_allowed_by_default(url, tmp_path) -> None:
    target = tmp_path / "folder" / "x"
    with pytest.raises(InputError, match="expected an address that starts with https://"):
        download(url, target, accept, max_bytes=LIMIT)
    assert names(tmp_path) == []


def test_a_local_file_if_allowed(tmp_path) -> None:
    (tmp_path / "here").write_bytes(BODY)
    fetch((tmp_path / "here").as_uri(), tmp_path / "there", allowed=("file://",))
    assert (tmp_path / "there").read_bytes() == BODY
    with pytest.raises(InputError, match=r"gone: cannot be reached: .*save it as"):
        fetch((tmp_path / "gone").as_uri(), tmp_path / "there", allowed=("file://",))
    assert (tmp_path / "there").read_bytes() == BODY
