"""The report file: its content, escaping of names, and atomic writing."""

from __future__ import annotations

import base64
import errno
import gzip
import html
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from plotly import graph_objects
from plotly.offline import get_plotlyjs
from torch import nn

from pmvge import MultiViewGraph, PMvGE
from pmvge.checks import NotFitted
from pmvge.errors import InputError, StorageError
from pmvge.evaluation import evaluate_links
from pmvge.report import write_report
from pmvge.report.sections.training import training
from pmvge.report.summary import pair_data
from pmvge.training import History, Record

SECTIONS = [
    "space",
    "examples",
    "explained",
    "evaluation",
    "calibration",
    "distributions",
    "effects",
    "training",
    "details",
]


@pytest.fixture(scope="module")
def path(case: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    return write_report(folder / "report.html", case.model, title="A & B")


def test_every_section_has_a_link(path: Path, read_page: Any) -> None:
    page = read_page(path)
    assert [attrs["id"] for tag, attrs in page.elements if tag == "section"] == SECTIONS
    reached = [attrs["href"] for tag, attrs in page.elements if tag == "a"]
    assert reached == [f"#{section}" for section in SECTIONS]
    assert "Not shown" not in page.words
    assert "A & B" in page.words
    for word in ("A model of 24 item and 60 user", "user-", "item-", "4 dimensions", "lookup"):
        assert word in page.words


def test_every_figure_is_valid_for_plotly(path: Path, read_page: Any) -> None:
    figures = read_page(path).figures()
    # curves, map; calibration, degrees, similarities by pair
    assert len(figures) == 2 + 3 * 2
    for figure in figures:
        drawn = graph_objects.Figure(figure)  # raises for unknown properties
        assert len(drawn.data)
        assert all(len(trace.x) == len(trace.y) > 0 for trace in drawn.data)


def test_map_shows_every_entity_and_its_labels(path: Path, case: Any, read_page: Any) -> None:
    (space,) = (f for f in read_page(path).figures() if f["data"][0].get("mode") == "markers")
    item, user = space["data"]
    assert len(item["x"]) == 24
    assert user["text"][7] == f"<b>user</b> user-7<br>colour: {['red', 'green', 'blue'][7 % 3]}"
    assert item["marker"]["symbol"] != user["marker"]["symbol"]
    assert item["marker"]["color"] != user["marker"]["color"]


def test_the_file_refers_to_nothing_outside(path: Path, read_page: Any) -> None:
    page = read_page(path)
    for tag, attrs in page.elements:
        assert "src" not in attrs
        assert attrs.get("href") is None or attrs["href"].startswith(("#", "data:"))
        assert not [name for name in attrs if name.startswith("on")], tag
    style = re.search("<style>(.*)</style>", page.source, re.DOTALL)
    assert style is not None
    assert not re.search(r"url\(|@import|https?:", style[1])
    assert "default-src 'none'" in page.source[:1000]


def test_plotly_is_included_once(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    (packed,) = re.findall(r'<script type="application/gzip" id="plotly">(.*?)</script>', page)
    assert gzip.decompress(base64.b64decode(packed)).decode() == get_plotlyjs()
    assert "plotly.js v" not in page
    assert len(page) < 2_500_000


def test_same_model_and_seed_give_the_same_file(case: Any, tmp_path: Path) -> None:
    one, two, other = (
        write_report(tmp_path / name, case.model, seed=seed).read_bytes()
        for name, seed in (("one.html", 3), ("two.html", 3), ("other.html", 4))
    )
    assert one == two
    assert one != other


def test_a_saved_model_gives_the_same_report(case: Any, path: Path, tmp_path: Path) -> None:
    case.model.save(tmp_path / "model")
    again = write_report(tmp_path / "report.html", PMvGE.load(tmp_path / "model"), title="A & B")
    assert again.read_bytes() == path.read_bytes()


def test_names_are_escaped(hostile: Any, tmp_path: Path, read_page: Any) -> None:
    title = "</title><script>window.hacked = 1</script>"
    page = read_page(write_report(tmp_path / "r.html", hostile.model, title=title))
    programs = [attrs for attrs, _ in page.scripts if attrs.get("type") != "application/json"]
    assert [attrs.get("type") for attrs in programs] == ["application/gzip", None]  # plotly.js, own
    assert "img" not in [tag for tag, _ in page.elements]
    assert "window.hacked" in page.words  # as text
    for tag, attrs in page.elements:
        assert not [name for name in attrs if name.startswith("on")], tag
        assert tag != "a" or str(attrs["href"]).startswith("#")
    (space,) = (f for f in page.figures() if f["data"][0].get("mode") == "markers")
    texts = [text for trace in space["data"] for text in trace["text"]]
    assert len(texts) == 84
    assert set(re.findall("<[^>]*>", "".join(texts))) == {"<b>", "</b>", "<br>"}
    assert max(map(len, texts)) < 500


def test_sections_without_data_give_the_reason(case: Any, tmp_path: Path, read_page: Any) -> None:
    page = read_page(write_report(tmp_path / "report.html", case.bare))
    assert [attrs["id"] for tag, attrs in page.elements if tag == "section"] == SECTIONS
    assert page.words.count("Not shown: the model was saved without its training links") == 4
    assert "Not shown: there are no held-out links" in page.words
    assert len(page.figures()) == 2


def test_without_held_out_links_calibration_uses_training_links(
    fit: Callable[..., Any], tmp_path: Path, read_page: Any
) -> None:
    page = read_page(write_report(tmp_path / "report.html", fit(hold_out=0).model))
    assert "There are no held-out links: observed weights are those of the training links" in (
        page.words
    )
    assert "Not shown: there are no held-out links" in page.words
    assert len(page.figures()) == 8


def test_evaluation_is_computed_from_held_out_links(case: Any, path: Path, read_page: Any) -> None:
    words = read_page(path).words
    for part in pair_data(case.model):
        results = evaluate_links(
            part.query,
            part.candidate,
            part.held_out,
            log_alpha=part.log_alpha,
            known=part.training,
            exposure=part.exposure,
        )
        row = f"{part.pair[0]} – {part.pair[1]}"
        assert f"{row} {results['roc_auc']:.3f} {results['average_precision']:.3f} " in words, row


def test_popularity_is_below_every_row_of_the_evaluation(
    case: Any, path: Path, read_page: Any
) -> None:
    words = read_page(path).words
    results = case.model.evaluate()["popularity"]
    assert results["meaning"] in words  # the whole sentence
    rows = [results["overall"], *results["pairs"].values()]
    assert len(re.findall(r"popularity [–\d]", words)) == 2 * len(rows)  # in both tables
    for row in rows:
        assert f"popularity {row['roc_auc']:.3f} " in words


def test_a_given_evaluation_is_shown(case: Any, tmp_path: Path, read_page: Any) -> None:
    values = {"roc_auc": 0.4321, "recall@7": 0.125, "<new>": 3.5, "average_precision": math.nan}
    given = {"pairs": {"user,item": values, "x<y": {}}, "overall": {"roc_auc": 0.9999}}
    page = read_page(write_report(tmp_path / "r.html", case.model, evaluation=given))
    for text in ("0.432", "0.125", "3.5", "<new>", "x<y", "recall@7", "first 7", "1.000"):
        assert text in page.words


def test_exposure_counts_the_links_that_alpha_was_computed_from(case: Any) -> None:
    for part in pair_data(case.model):
        seen = part.training.total + part.held_out.total
        assert part.exposure == pytest.approx(part.held_out.total / seen)


def test_views_and_pairs_without_links_can_be_reported(tmp_path: Path, read_page: Any) -> None:
    none: tuple[list[int], list[int]] = ([], [])
    links = {("a", "b"): ([0, 1], [0, 0]), ("b", "b"): none, ("a", "c"): none}
    graph = MultiViewGraph({"a": 3, "b": 2, "c": 1}, links)
    model = PMvGE(n_components=1, max_steps=3, patience=None, progress=False, random_state=0)
    model.fit(graph).label({"c": {"only": ["one"]}})
    page = read_page(write_report(tmp_path / "r.html", model, k=100))
    assert len(page.figures()) == 2 + 3


def test_parameters_are_shown_without_memory_addresses(tmp_path: Path, read_page: Any) -> None:
    graph = MultiViewGraph({"a": np.eye(3, 2), "b": np.eye(3)}, {("a", "b"): ([0, 1], [0, 2])})
    model = PMvGE(
        n_components=3,
        encoder={"a": nn.Linear(2, 3), "b": "linear"},
        max_steps=1,
        random_state=np.random.default_rng(0),
        progress=False,
    ).fit(graph, hold_out=0)
    page = read_page(write_report(tmp_path / "r.html", model))
    assert "encoder a: Linear, b: linear" in page.words
    assert f"random_state {model.describe()['training']['seed']}" in page.words
    assert "hidden_sizes (128)" in page.words
    assert " at 0x" not in page.words


# -- writing ------------------------------------------------------------------------------------


def test_a_full_disk_keeps_the_old_report(
    case: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    path.write_text("the old one")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match=r"report\.html: cannot be written: No space"):
        write_report(path, case.model)
    assert path.read_text() == "the old one"
    assert list(tmp_path.iterdir()) == [path]


def test_the_report_is_synced_before_it_replaces_the_old_one(
    case: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    path.write_text("the old one")
    seen = []
    real = os.fsync

    def watched(descriptor: int) -> None:
        seen.append((path.read_text(), os.fstat(descriptor).st_size > 1_500_000))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    assert write_report(str(path), case.model) == path
    assert seen == [("the old one", True)]
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_is_not_replaced(case: Any, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=re.escape(str(tmp_path))):
        write_report(tmp_path, case.model)
    assert not list(tmp_path.parent.glob("*.partial"))


# -- invalid arguments --------------------------------------------------------------------------


def test_models_that_are_not_fitted_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFitted, match="call fit"):
        write_report(tmp_path / "r.html", PMvGE())


@pytest.mark.parametrize("wrong", [{"k": 0}, {"k": 2.5}, {"k": True}, {"seed": -1}, {"seed": "x"}])
def test_invalid_k_and_seed_are_refused(case: Any, tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        write_report(tmp_path / "r.html", case.model, **wrong)


# -- large graphs -------------------------------------------------------------------------------


def test_the_page_of_100_000_entities_has_a_bounded_size(tmp_path: Path, read_page: Any) -> None:
    rng = np.random.default_rng(0)
    n, m, E = 99_000, 1_000, 300_000
    links = {
        ("user", "item"): (rng.integers(n, size=E), (rng.random(E) ** 3 * m).astype(int)),
        ("item", "item"): (rng.integers(500, size=900), 500 + rng.integers(500, size=900)),
    }
    graph = MultiViewGraph({"user": n, "item": m}, links)
    model = PMvGE(n_components=8, max_steps=1, patience=None, progress=False, random_state=0)
    model.fit(graph)
    labels = {"user": {"age": rng.integers(90, size=n).astype(str)}}
    path = write_report(tmp_path / "large.html", model.label(labels))
    assert path.stat().st_size < 5_000_000
    words = read_page(path).words
    assert "2,000 of 100,000 entities, sampled at random" in words
    assert "Estimated on 20,000 of 99,000 entities of user" in words


# -- names, features only, warnings -----------------------------------------------------------


def named(effects):
    """Return a model of random links: it cannot be better than a popularity list."""
    rng = np.random.default_rng(0)
    ids = {"user": [f"u{i}" for i in range(40)], "item": [f"i{j}" for j in range(20)]}
    links = {("user", "item"): rng.poisson(0.5 * rng.gamma(1.0, size=20), size=(40, 20))}
    graph = MultiViewGraph({"user": rng.normal(size=(40, 3)), "item": 20}, links, ids=ids)
    model = PMvGE(n_components=3, max_steps=20, effects=effects, random_state=0, progress=False)
    titles = {"item": {"title": [f"Title {j}" for j in range(20)], "year": ["1999"] * 20}}
    return model.fit(graph, hold_out=0.3).label(columns=titles, names={"item": "title"})


def test_names_come_first_and_ids_are_small(read_page, tmp_path):
    page = read_page(write_report(tmp_path / "r.html", named("none")))
    best = re.findall(r"<td>\d</td><td>(.*?)</td>", page.source)
    best += re.findall(r"<li><span class(.*?)</li>", page.source)  # known links
    assert len(best) >= 2 * 30  # suggestions, and similar entities
    for cell in best:
        pattern = r".*<bdi>Title (\d+)</bdi></span> <small><bdi>i(\d+)</bdi></small>"
        number = re.fullmatch(pattern, cell)
        assert number, cell
        assert number[1] == number[2]
    traces = [trace for figure in page.figures() for trace in figure["data"]]
    hover = [text for trace in traces for text in trace.get("text", [])]
    assert "<b>Title 3</b><br><b>item</b> i3" in hover


@pytest.mark.parametrize("effects", ["none", "vector"])
def test_rows_beside_the_model_and_warnings(effects, read_page, tmp_path):
    model = named(effects)
    results = model.evaluate()
    page = read_page(write_report(tmp_path / "r.html", model))
    assert "<h2>Scores</h2>" in page.source
    rivals = re.findall(r'<tr class="rival"><td[^>]*>([\w ]+)</td>', page.source)
    assert rivals == 2 * (["features only"] * (effects == "vector") + ["popularity"])
    for warning in results["warnings"]:
        assert html.escape(warning) in page.source
    assert len(results["warnings"]) == 2
    assert "Not clearly better than a popularity list" in page.words
    assert results["popularity"]["meaning"] in page.words


# -- new entities ------------------------------------------------------------------------------


def test_factors_of_new_entities_are_shown(tmp_path: Path, read_page: Any) -> None:
    rng = np.random.default_rng(0)
    graph = MultiViewGraph(
        {"a": rng.normal(size=(60, 2)), "b": 20}, {("a", "b"): rng.poisson(0.5, size=(60, 20))}
    )
    model = PMvGE(2, max_steps=20, random_state=0, progress=False)
    page = read_page(write_report(tmp_path / "no.html", model.fit(graph)))
    assert page.words.count("not calibrated") == 3 + 1  # kinds, and the explanation
    before = len(page.figures())
    page = read_page(write_report(tmp_path / "yes.html", model.fit(graph, calibrate=0.3)))
    factor = model.describe()["calibrated"]["a,b"]["new-known"]["factor"]
    assert f"new-known {factor:.3g}"[:13] in page.words
    assert page.words.count("not calibrated") == 2 + 1  # "b" has no features
    assert len(page.figures()) == before + 1
    for figure in page.figures():
        graph_objects.Figure(figure)


# -- the explained prediction ------------------------------------------------------------------


def test_bars_of_the_explained_prediction_add_up(case: Any, path: Path, read_page: Any) -> None:
    text = path.read_text(encoding="utf-8")
    zero = float(re.search(r'<dl class="parts" style="--zero:([\d.]+)"', text)[1])
    row = r"--from:([\d.]+);--share:([\d.]+)\"><dt><bdi>(.*?)</bdi></dt>.*?<dd>([-+][\d.]+)</dd>"
    bars = [(float(a), float(b), name, float(v)) for a, b, name, v in re.findall(row, text)]
    assert bars[0][2] == "log alpha"
    assert bars[-1][2] == "remainder"
    mu = {
        f"{value:.2g}"
        for a, b in case.model.links_.training
        for value in case.model.intensity(a, None, b, None).ravel()
    }
    assert f"{np.exp(sum(value for *_, value in bars)):.2g}" in mu
    values = [value for *_, value in bars]
    scale = max(0, *values) - min(0, *values)
    for start, share, _, value in bars:  # each bar begins or ends at zero, and has its length
        assert share == pytest.approx(abs(value) / scale, abs=2e-3)
        assert (start if value > 0 else start + share) == pytest.approx(zero, abs=2e-3)
    assert "Known partners like it" in read_page(path).words


@pytest.mark.parametrize(
    ("phase", "says"),
    [
        ("decay", "The model is that of step 20, after the decay of the learning rate."),
        ("hold", "The model is that of step 10, the best one on the validation links."),
    ],
)
def test_the_report_names_the_step_whose_weights_the_model_has(phase: str, says: str) -> None:
    records = [Record(10, 1.0, -0.5, 0.75, 0.01, 1.0, "hold")]
    records += [Record(20, 2.0, -0.9, 0.25, 0.01, 2.0, phase)]
    section = training(SimpleNamespace(history_=History(records)))  # type: ignore[arg-type]
    assert section.lead.endswith(says)
    assert says.split(",")[0].removeprefix("The model is that") in section.body


def test_bars_of_a_probability_do_not_add_up_to_its_logarithm(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    links = {("a", "b"): (rng.random((12, 9)) < 0.7).astype(float)}
    graph = MultiViewGraph({"a": rng.normal(size=(12, 3)), "b": 9}, links)
    for family, found in (("poisson", "its logarithm"), ("logistic", "which the likelihood fam")):
        model = PMvGE(3, family=family, max_steps=20, random_state=0, progress=False).fit(graph)
        page = write_report(tmp_path / "report.html", model).read_text()
        assert f"The bars add up to {found}" in re.sub(r"[-−]?[\d.]+, ", "", page)
