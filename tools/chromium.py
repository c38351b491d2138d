"""A real browser for tests, pictures and benchmarks: headless Chromium, controlled over a pipe.

The debugging protocol is JSON messages, each ended by a zero byte. Mouse and keys are events of the
browser, as those of a user are: what covers an element gets the click.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TIMEOUT = 120.0  # seconds, long enough for a busy machine
WAIT = 60.0  # for a condition in a page
POLL = 0.05
LONGEST = 8000  # pixels of a picture: longer ones repeat their first part

# The browser reads from file descriptor 3 and writes to 4. Duplicate both ends first: the pipes
# may already use these numbers.
CONNECT_PIPES = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--use-angle=swiftshader",  # WebGL without a graphics card
    "--enable-unsafe-swiftshader",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)
KEYS = {  # key: (code, number, text)
    "Enter": ("Enter", 13, "\r"),
    "Tab": ("Tab", 9, ""),
    "Escape": ("Escape", 27, ""),
    "Backspace": ("Backspace", 8, ""),
    "ArrowLeft": ("ArrowLeft", 37, ""),
    "ArrowUp": ("ArrowUp", 38, ""),
    "ArrowRight": ("ArrowRight", 39, ""),
    "ArrowDown": ("ArrowDown", 40, ""),
    " ": ("Space", 32, " "),
}


def find_chromium() -> str | None:
    """Return the path of Chromium or Chrome; None if there is none."""
    return shutil.which("chromium") or shutil.which("google-chrome")


class Chromium:
    """One page of a browser."""

    def __init__(self, program: str, profile: Path) -> None:
        self.profile = profile
        from_us, self.to_browser = os.pipe()
        self.from_browser, from_browser = os.pipe()
        command = [sys.executable, "-c", CONNECT_PIPES, str(from_us), str(from_browser)]
        command += [program, *OPTIONS, f"--user-data-dir={profile}"]
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
            left = max(0.0, until - time.monotonic())
            poll = select.poll()  # unlike select, it takes file descriptors above 1023
            poll.register(self.from_browser, select.POLLIN)
            assert poll.poll(1000 * left), "the browser does not respond"
            part = os.read(self.from_browser, 1 << 20)
            assert part, "the browser has exited"
            self.buffer += part
        message, _, self.buffer = self.buffer.partition(b"\0")
        return dict(json.loads(message))

    # -- pages ---------------------------------------------------------------------------------

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page, or of the promise that it gives."""
        answer = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def screen(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Set the size of the screen, and the theme."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.send("Emulation.setEmulatedMedia", features=[scheme, still])
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1}
        self.send("Emulation.setDeviceMetricsOverride", mobile=width < 600, **metrics)

    def open(self, page: Path | str, **screen: Any) -> None:
        """Load a page on a screen of this size and wait until its figures are drawn."""
        self.screen(**screen)
        self.events.clear()
        url = page.resolve().as_uri() if isinstance(page, Path) else page
        # From another page: an address that differs after # only would load nothing.
        self.send("Page.navigate", url="about:blank")
        self.wait("location.href === 'about:blank'")
        self.send("Page.navigate", url=url)
        self.wait("location.href !== 'about:blank' && document.body?.dataset.drawn === 'yes'")

    def wait(self, condition: str, seconds: float = WAIT) -> Any:
        """Return the value of an expression as soon as it is true; an element is true."""
        script = f"(found => found instanceof Node ? true : found)({condition})"
        until = time.monotonic() + seconds
        while not (value := self.run(script)):
            assert time.monotonic() < until, f"not true: {condition}: {self.errors()}"
            time.sleep(POLL)
        return value

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

    # -- mouse and keys ------------------------------------------------------------------------

    def center(self, selector: str) -> tuple[float, float]:
        """Return the middle of the first element that a selector finds, scrolled into view."""
        found = self.wait(
            f"(() => {{ const found = document.querySelector({json.dumps(selector)});"
            " if (!found) return null;"
            " found.scrollIntoView({block: 'center', behavior: 'instant'});"
            " const box = found.getBoundingClientRect();"
            " return box.width ? [box.left + box.width / 2, box.top + box.height / 2] : null; })()",
            20,
        )
        return found[0], found[1]

    def click(self, target: str | tuple[float, float]) -> None:
        """Click an element, given by a selector, or a place."""
        x, y = self.center(target) if isinstance(target, str) else target
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)

    def drag(self, places: Sequence[tuple[float, float]], modifiers: int = 0) -> None:
        """Press the mouse button at the first place, and release it at the last."""
        self.mouse("mouseMoved", *places[0], modifiers=modifiers)
        self.mouse("mousePressed", *places[0], button="left", clickCount=1, modifiers=modifiers)
        for x, y in places[1:]:
            self.mouse("mouseMoved", x, y, button="left", buttons=1, modifiers=modifiers)
        self.mouse("mouseReleased", *places[-1], button="left", clickCount=1, modifiers=modifiers)

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """Send an event of the mouse."""
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def wheel(self, x: float, y: float, by: float) -> None:
        """Turn the wheel; a negative number zooms in."""
        self.mouse("mouseWheel", x, y, deltaX=0, deltaY=by)

    def press(self, key: str, times: int = 1, modifiers: int = 0) -> None:
        """Press a key: a character, or a name of ``KEYS``; modifiers: 8 is shift."""
        code, number, text = KEYS.get(key, (f"Key{key.upper()}", ord(key.upper()[0]), key))
        given = {"key": key, "code": code, "windowsVirtualKeyCode": number, "modifiers": modifiers}
        for _ in range(times):
            self.send(
                "Input.dispatchKeyEvent",
                type="keyDown",
                **given,
                **({"text": text} if text else {}),
            )
            self.send("Input.dispatchKeyEvent", type="keyUp", **given)

    def type(self, text: str) -> None:
        """Type a text into the element that has the focus."""
        self.send("Input.insertText", text=text)

    # -- pictures ------------------------------------------------------------------------------

    def screenshot(self, path: Path, *, full: bool = True) -> None:
        """Write an image of the page, or of its visible part, to a PNG file."""
        more: dict[str, Any] = {}
        if full:
            size = self.send("Page.getLayoutMetrics")["cssContentSize"]
            height = min(size["height"], LONGEST)
            clip = {"x": 0, "y": 0, "width": size["width"], "height": height, "scale": 1}
            more = {"captureBeyondViewport": True, "clip": clip}
        image = self.send("Page.captureScreenshot", **more)["data"]
        path.write_bytes(base64.b64decode(image))

    def close(self) -> None:
        """End the browser."""
        os.close(self.to_browser)  # the browser exits when its pipe is closed
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.from_browser)
