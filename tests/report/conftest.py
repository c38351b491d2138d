"""Fixtures: models to report on, and a real browser controlled over a pipe."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from pmvge import MultiViewGraph, PMvGE

TIMEOUT = 120.0  # seconds, long enough for a busy machine

# The browser reads from file descriptor 3 and writes to 4. Duplicate both ends first: the pipes
# may already use these numbers.
CONNECT_PIPES = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Chromium:
    """Headless Chromium, controlled by its debugging protocol: JSON messages, zero-terminated."""

    def __init__(self, program: str, profile: Path) -> None:
        self.profile = profile
        from_us, self.to_browser = os.pipe()
        self.from_browser, from_browser = os.pipe()
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        options += ["--no-first-run", "--disable-background-networking", "--disable-dev-shm-usage"]
        command = [sys.executable, "-c", CONNECT_PIPES, str(from_us), str(from_browser)]
        command += [program, *options, f"--user-data-dir={profile}"]
        self.process = subprocess.Popen(
            command,
            pass_fds=(from_us, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(from_us)
        os.close(from_browser)
        self.buffer, self.last, self.session = b"", 0, ""
        self.events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result; events in between are added to ``events``."""
        self.last += 1
        message: dict[str, Any] = {"id": self.last, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + TIMEOUT
        while True:
            answer = self._receive(until)
            if answer.get("id") == self.last:
                assert "error" not in answer, answer
                return dict(answer["result"])
            self.events.append(answer)

    def _receive(self, until: float) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.from_browser], [], [], until - time.monotonic())
            assert ready, "the browser does not respond"
            part = os.read(self.from_browser, 1 << 20)
            assert part, "the browser has exited"
            self.buffer += part
        message, _, self.buffer = self.buffer.partition(b"\0")
        return dict(json.loads(message))

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page, or of the promise that it gives."""
        answer = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def open(self, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Load a page on a screen of this size and wait until its figures are drawn."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1}
        self.send("Emulation.setDeviceMetricsOverride", mobile=width < 600, **metrics)
        self.events.clear()
        self.send("Page.navigate", url=path.resolve().as_uri())
        until = time.monotonic() + TIMEOUT
        while not self.run(
            "location.protocol === 'file:' && document.body?.dataset.drawn === 'yes'"
        ):
            assert time.monotonic() < until, f"the page was not drawn: {self.errors()}"
            time.sleep(0.05)

    def errors(self) -> list[str]:
        """Return errors and warnings of the page since it was opened."""
        found = []
        for event in self.events:
            method, content = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                details = content["exceptionDetails"]
                found.append(str(details.get("exception", {}).get("description", details["text"])))
            elif method == "Runtime.consoleAPICalled" and content["type"] in ("error", "warning"):
                found.append(str(content["args"]))
            elif method == "Log.entryAdded" and content["entry"]["level"] in ("error", "warning"):
                found.append(content["entry"]["text"])
        return found

    def requests(self) -> list[str]:
        """Return the addresses that the browser requested, including the page itself."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]

    def screenshot(self, path: Path) -> None:
        """Write an image of the full page to a PNG file, for inspection."""
        size = self.send("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        image = self.send("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
        path.write_bytes(base64.b64decode(image))

    def close(self) -> None:
        os.close(self.to_browser)  # the browser exits when its pipe is closed
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.from_browser)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("neither chromium nor google-chrome is installed")
    chromium = Chromium(program, tmp_path_factory.mktemp("browser"))
    yield chromium
    chromium.close()


# -- models to report on ------------------------------------------------------------------------

HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    "<!-- <script>",
    "<img src=x onerror='window.hacked = 1'>",
    '"\'><b onclick="window.hacked = 1">&amp;',
    "<a href='https://example.org/'>%{x}</a>",
    "line\u2028separator\u2029and\nnew\r\x00line",
    "half a pair \ud800 of surrogates",
    "\u202egnp.exe",
    "x" * 5000,
    "",
]


@dataclass(frozen=True, eq=False)
class Case:
    """A fitted model."""

    model: PMvGE

    @cached_property
    def bare(self) -> PMvGE:
        """The same model without its links."""
        with TemporaryDirectory() as folder:
            self.model.save(folder, links=False)
            return PMvGE.load(folder)


def fitted(
    names: tuple[str, str] = ("user", "item"), *, hostile: bool = False, hold_out: float = 0.2
) -> Case:
    """Fit a model of two views, one without features, with links between and within views."""
    rng = np.random.default_rng(0)
    n, m = 60, 24
    group, kind = np.arange(n) % 3, np.arange(m) % 3
    user, item = names
    W = rng.poisson(np.where(group[:, None] == kind, 1.0, 0.05))
    friends = np.triu(rng.random((n, n)) < np.where(group[:, None] == group, 0.3, 0.02), 1)
    X = np.eye(3)[group] + 0.2 * rng.normal(size=(n, 3))
    ids = {
        user: [f"{HOSTILE[i % 10]}{i}" if hostile else f"user-{i}" for i in range(n)],
        item: [f"{HOSTILE[j % 10]}{j}" if hostile else f"item-{j}" for j in range(m)],
    }
    links = {(user, item): W, (user, user): friends.astype(float)}
    graph = MultiViewGraph({user: X, item: m}, links, ids=ids)
    words = HOSTILE if hostile else ["red", "green", "blue"]
    labels = {user: {words[0] if hostile else "colour": [words[i % 3] for i in range(n)]}}
    model = PMvGE(n_components=4, max_steps=60, random_state=0, progress=False)
    names = {user: {"name": [f"{HOSTILE[(i + 1) % 10]}{i}" for i in range(n)]}} if hostile else {}
    called = dict.fromkeys(names, "name")
    return Case(model.fit(graph, hold_out=hold_out).label(labels, columns=names, names=called))


@pytest.fixture(scope="session")
def case() -> Case:
    return fitted()


@pytest.fixture(scope="session")
def hostile() -> Case:
    return fitted((HOSTILE[0], HOSTILE[4]), hostile=True)


@pytest.fixture(scope="session")
def fit() -> Callable[..., Case]:
    return fitted


class Page(HTMLParser):
    """The page as parsed HTML: elements, attributes, scripts and text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text: list[str] = []
        self._within = ""
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._within = tag
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self._within = ""

    def handle_data(self, data: str) -> None:
        if self._within == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        elif self._within != "style":
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())

    def data(self) -> list[Any]:
        """Return the content of all JSON scripts."""
        found = [text for attrs, text in self.scripts if attrs.get("type") == "application/json"]
        return [json.loads(text) for text in found]

    def figures(self) -> list[dict[str, Any]]:
        return [block for block in self.data() if isinstance(block, dict) and "layout" in block]


@pytest.fixture(scope="session")
def read_page() -> type[Page]:
    return Page
