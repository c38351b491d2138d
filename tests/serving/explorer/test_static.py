"""The files of the page: complete, without scripts in HTML, and as they were bundled."""

from __future__ import annotations

import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

import pmvge
from pmvge.pages import shared_css
from pmvge.serving.explorer.shell import files

FOLDER = Path(pmvge.__file__).parent / "serving" / "explorer"
SCRIPTS = sorted((FOLDER / "static").glob("*.js"))
# What turns text into HTML or code; the policy of the page forbids most of it, too.
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|"
    r"srcdoc|DOMParser|createContextualFragment|setAttribute\(\"(style|on)"
)


def test_the_vendored_file_is_the_one_that_was_bundled():
    record = json.loads((FOLDER / "vendor" / "vendor.json").read_text())
    content = (FOLDER / "vendor" / record["file"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == record["sha256"]
    licences = (FOLDER / "vendor" / "LICENSES.txt").read_text()
    lock = json.loads((FOLDER.parents[3] / "tools/vendor/package-lock.json").read_text())
    for name, package in record["packages"].items():
        assert lock["packages"][f"node_modules/{name}"]["version"] == package["version"]
        assert f"{name} {package['version']}\n" in licences
    assert licences.count("Copyright") >= len(record["packages"])
    assert not re.search(rb"https?://(?!www\.w3\.org/)", content)


def test_the_lock_file_names_no_registry():
    text = (FOLDER.parents[3] / "tools/vendor/package-lock.json").read_text()
    assert "://" not in text


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_makes_no_html_of_text(path):
    source = path.read_text()
    assert not FORBIDDEN.search(source)
    assert set(re.findall(r"https?://[^\"'` ]*", source)) <= {"http://www.w3.org/2000/svg"}
    assert all((FOLDER / "static" / name).exists() or name == "vendor.js"
               for name in re.findall(r'from "\./([^"]+)"', source))  # fmt: skip


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_the_page_loads_its_own_files_only(client: TestClient):
    answer = client.get("/")
    assert answer.headers["content-type"].startswith("text/html")
    page = _Page(answer.text)
    loaded = [
        attrs.get("src") or attrs.get("href")
        for tag, attrs in page.tags
        if tag in ("script", "link", "img")
    ]
    assert len(loaded) == 4
    for address in loaded:
        assert address is not None
        assert client.get(f"/{address}").status_code == 200
    assert not any(name.startswith("on") or name == "style" for _, a in page.tags for name in a)
    assert re.findall(r"<script[^>]*>([^<]+)</script>", answer.text) == []
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_the_policy_allows_no_other_script_and_no_other_host(client: TestClient):
    for path in ("/", "/static/main.js"):
        answer = client.get(path)
        policy = dict(
            part.strip().split(" ", 1)
            for part in answer.headers["content-security-policy"].split(";")
        )
        assert policy["default-src"] == "'none'"
        for kind in ("script-src", "style-src", "connect-src", "img-src"):
            assert policy[kind] == "'self'"
        assert policy["require-trusted-types-for"] == "'script'"
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_files_have_types_and_are_not_sent_twice(client: TestClient):
    for name in files():
        first = client.get(f"/static/{name}")
        assert first.status_code == 200
        kind = {"js": "text/javascript", "css": "text/css", "html": "text/html"}
        suffix = name.rpartition(".")[2]
        assert first.headers["content-type"].startswith(kind.get(suffix, ""))
        again = client.get(f"/static/{name}", headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("name", ["nothing.js", "..%2fshell.py", "%2e%2e/shell.py", "vendor.json"])
def test_other_files_are_not_served(client: TestClient, name: str):
    answer = client.get(f"/static/{name}")
    assert answer.status_code == 404
    assert list(answer.json()) == ["error"]


def test_the_page_has_the_colours_and_the_type_of_the_reports(client: TestClient):
    text = client.get("/static/shared.css").text
    assert text == shared_css()
    assert "--c0:" in text
    assert "--font:" in text
