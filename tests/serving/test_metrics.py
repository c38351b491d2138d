"""Counts of requests, and the documentation that needs no network."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from pmvge.serving.metrics import Metrics

GOOD = {"view": "users", "among": "films", "ids": ["u00004"], "k": 3}
SAMPLE = re.compile(r'(\w+)(?:\{((?:\w+="[^"]*",?)*)\})? ([-+.\deInf]+)')


def samples(text: str) -> dict[tuple[str, str], float]:
    """Return the samples of a text in the format of Prometheus; check every line."""
    found = {}
    for line in text.splitlines():
        if line.startswith("# HELP ") or line.startswith("# TYPE "):
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        found[match[1], match[2] or ""] = float(match[3])
    return found


def test_requests_are_counted_by_route_and_status(serve, films):
    client = serve()
    before = samples(client.get("/metrics").text)
    for _ in range(3):
        client.post("/search", json=GOOD)
    client.post("/search", json={**GOOD, "view": "x"})
    client.get("/no/such/path?x=1")
    after = samples(client.get("/metrics").text)

    def more(name: str, labels: str) -> float:
        return after.get((name, labels), 0) - before.get((name, labels), 0)

    assert more("pmvge_requests_total", 'route="/search",status="200"') == 3
    assert more("pmvge_requests_total", 'route="/search",status="422"') == 1
    assert more("pmvge_requests_total", 'route="other",status="404"') == 1
    assert more("pmvge_request_seconds_count", 'route="/search"') == 4
    assert more("pmvge_request_seconds_bucket", 'route="/search",le="+Inf"') == 4
    assert after["pmvge_model_info", f'model="{films.checksum_[:16]}"'] == 1
    bounds = [
        v for (name, label), v in after.items() if name.endswith("bucket") and "/search" in label
    ]
    assert bounds == sorted(bounds)


def test_counts_are_summed_over_workers(tmp_path, monkeypatch):
    for process, seconds in ((1, 0.002), (2, 0.3), (3, 100.0)):
        monkeypatch.setattr("os.getpid", lambda process=process: process)
        metrics = Metrics(tmp_path)
        metrics.add("/search", 200, seconds)
        metrics.add("/embed", 422, seconds)
        metrics.save()
    found = samples(metrics.text({"model": "m"}, {"pmvge_running": 0.0}))
    assert found["pmvge_requests_total", 'route="/search",status="200"'] == 3
    assert found["pmvge_request_seconds_sum", 'route="/search"'] == 100.302
    buckets = {
        re.search('le="(.*?)"', label)[1]: count
        for (name, label), count in found.items()
        if name == "pmvge_request_seconds_bucket" and "/search" in label
    }
    assert [buckets[b] for b in ("0.001", "0.0025", "0.25", "0.5", "10", "+Inf")] == [
        0,
        1,
        1,
        2,
        2,
        3,
    ]


class References(HTMLParser):
    """Addresses that a page would fetch, and elements that could run."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attributes):
        assert tag not in ("script", "iframe", "img", "link", "object")
        self.found += [value for name, value in attributes if name in ("src", "href")]


def test_the_documentation_needs_no_other_server(client):
    page = client.get("/docs")
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    references = References()
    references.feed(page.text)
    assert references.found == ["openapi.json"]
    assert "http" not in page.text.replace("HTTP", "").lower().replace("not valid http", "")
    for path in (
        "/search",
        "/similar",
        "/embed",
        "/fold-in",
        "/intensity",
        "/explain",
        "/views",
        "/health",
    ):
        assert f"{path}</code>" in page.text, path
    assert client.get("/redoc").status_code == 404


def test_the_description_has_every_route_and_error(client):
    api = client.get("/openapi.json").json()
    assert "HTTPValidationError" not in api["components"]["schemas"]
    for path, methods in api["paths"].items():
        for operation in methods.values():
            assert operation["description"], path
            for status, answer in operation["responses"].items():
                if status not in ("200",):
                    schema = answer["content"]["application/json"]["schema"]
                    assert schema["$ref"].endswith("ErrorAnswer")
