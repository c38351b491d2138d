"""The explorer in a real browser, by clicks and keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import numpy as np
import pytest

from pmvge import PMvGE
from pmvge.model import Map
from pmvge.pages import COLORS

pytestmark = pytest.mark.slow  # starts a browser

SHIFT = 8
HEADING = "document.querySelector('#panel .title')?.textContent"


def link(server: Any, **state: Any) -> str:
    """Return the address of a state of the page."""
    texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in state.items()}
    return server.url + ("#" + urlencode(texts) if texts else "")


def address(browser: Any) -> dict[str, str]:
    """Return the state in the address bar."""
    return {k: v[0] for k, v in parse_qs(urlsplit(browser.run("location.href")).fragment).items()}


def text(browser: Any, selector: str) -> list[str]:
    return browser.run(
        f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)"
    )


def shown(browser: Any, title: str) -> None:
    """Wait until the details have a title."""
    browser.wait(f"{HEADING} === {json.dumps(title)} && !document.querySelector('[aria-busy]')")


def listed(part: str, names: list[str]) -> str:
    """Return a condition: the first part of the page that a selector finds lists these names."""
    found = f"[...document.querySelector('{part}')?.querySelectorAll('.name') ?? []]"
    wanted = json.dumps(json.dumps([str(n) for n in names], separators=(",", ":")))
    return f"JSON.stringify({found}.map(e => e.textContent)) === {wanted}"


def places(model: PMvGE, folder: Path) -> dict[str, np.ndarray]:
    """Return the coordinates of the page's camera: the larger side of the map is 2, y goes down."""
    xy = Map.load(folder, model).xy
    rows = np.concatenate(list(xy.values())).astype(float)
    low, high = rows.min(0), rows.max(0)
    middle, width = (low + high) / 2, (high - low).max()
    return {view: (part - middle) * [2, -2] / width for view, part in xy.items()}


def camera(browser: Any, condition: str) -> list[float]:
    """Wait until the camera in the address, `[x, y, k]`, meets a condition, and return it."""
    found = "new URLSearchParams(location.hash.slice(1)).get('camera')"
    values = f"({found} ?? 'NaN,NaN,NaN').split(',').map(Number)"
    browser.wait(f"(([x, y, k]) => {condition})({values})")
    return [float(part) for part in address(browser)["camera"].split(",")]


def middle(browser: Any) -> tuple[float, float]:
    return browser.center("#marks")


def looking_at(model: PMvGE, folder: Path, view: str, at: int) -> str:
    x, y = places(model, folder)[view][at]
    return f"{x:.6f},{y:.6f},400"


def test_the_page_shows_the_model_and_asks_this_host_only(browser, server, mapped):
    browser.open(server.url)
    assert text(browser, "#title") == ["Films, Genre, Users"]
    counts = [f"{v}{len(mapped.ids_[v])}" for v in mapped.view_names_]
    assert text(browser, "#views button") == counts
    # Coloured by the first label, with its legend.
    assert (
        browser.run("document.querySelector('#color').selectedOptions[0].textContent") == "country"
    )
    assert len(text(browser, "#key .entry")) == 3
    assert browser.errors() == []
    assert browser.requests()
    assert all(request.startswith(server.url) for request in browser.requests()[1:])


def pixels(browser: Any, colors: list[str]) -> list[int]:
    """Return how many pixels of the map have each of the colours, in a picture of the screen."""
    box = browser.run(
        "(() => { const b = document.querySelector('#marks').getBoundingClientRect();"
        " return {x: b.left, y: b.top, width: b.width, height: b.height, scale: 1}; })()"
    )
    picture = browser.send("Page.captureScreenshot", clip=box)["data"]
    return browser.run(
        f"""(async () => {{
          const bytes = Uint8Array.from(atob("{picture}"), c => c.charCodeAt(0));
          const image = await createImageBitmap(new Blob([bytes], {{type: "image/png"}}));
          const canvas = new OffscreenCanvas(image.width, image.height);
          const context = canvas.getContext("2d");
          context.drawImage(image, 0, 0);
          const {{data}} = context.getImageData(0, 0, image.width, image.height);
          const counts = new Map();
          for (let i = 0; i < data.length; i += 4) {{
            const hex = k => data[i + k].toString(16).padStart(2, "0");
            const key = `#${{hex(0)}}${{hex(1)}}${{hex(2)}}`;
            counts.set(key, (counts.get(key) ?? 0) + 1);
          }}
          return {json.dumps(colors)}.map(color => counts.get(color) ?? 0);
        }})()"""
    )


@pytest.mark.parametrize("dark", [False, True])
def test_points_have_the_colours_of_the_palette(browser, server, mapped, dark):
    hues = [list(COLORS.items())[at][dark] for at in range(10)]
    browser.open(link(server, color="view"), dark=dark)
    by_view = pixels(browser, hues)
    assert all(count > 20 for count in by_view[2:5])  # three views
    assert sum(by_view) == sum(by_view[2:5])
    browser.open(link(server, color=["users", "country"]), dark=dark)
    by_label = pixels(browser, hues)
    assert all(count > 20 for count in by_label[:3])
    assert sum(by_label) == sum(by_label[:3])
    browser.open(link(server, color="view", hide=list(mapped.view_names_)), dark=dark)
    assert sum(pixels(browser, hues)) == 0


def test_a_click_on_a_point_shows_the_entity_with_partners_and_reasons(
    browser, server, mapped, mapped_model
):
    browser.open(link(server, camera=looking_at(mapped, mapped_model, "films", 8)))
    browser.click(middle(browser))
    shown(browser, mapped.names_["films"][8])
    assert address(browser)["id"] == mapped.ids_["films"][8]
    rows = dict(zip(text(browser, "dl.row dt"), text(browser, "dl.row dd"), strict=True))
    assert rows["year"] == mapped.columns_["films"]["year"][8]
    assert "title" not in rows
    ids, mu = mapped.search(
        "films", ids=mapped.ids_["films"][8:9], among="users", k=10, exclude="self"
    )
    names = text(browser, ".near:nth-of-type(3) .go .name")
    assert names == ids[0].tolist()
    weights = [float(w) for w in text(browser, ".near:nth-of-type(3) .weight .n")]
    assert weights == pytest.approx(mu[0].tolist(), rel=0.006)
    linked = mapped.known_links("films", mapped.ids_["films"][8:9], among="users").toarray()[0]
    known = sum(bool(linked[mapped.ids_["users"].tolist().index(i)]) for i in ids[0])
    assert len(text(browser, ".near:nth-of-type(3) .pill.known")) == known
    assert text(browser, ".near h3 bdi") == ["Genre", "Users", "Films"]
    # Why: factors that multiply to the expected weight.
    browser.click(".near:nth-of-type(3) .why")
    browser.wait("document.querySelector('.explained .factors')")
    found = mapped.explain("films", mapped.ids_["films"][8], "users", ids[0][0].item())
    base = np.exp(next(part.value for part in found.parts if part.kind == "alpha"))
    factors = [float(t.removeprefix("× ")) for t in text(browser, ".factors .n")]
    assert base * np.prod(factors) == pytest.approx(found.expected_weight, rel=0.05)
    # A partner is one click away, and back is the film again.
    browser.click(".near:nth-of-type(3) .go")
    shown(browser, ids[0][0].item())
    browser.run("history.back()")
    shown(browser, mapped.names_["films"][8])
    browser.run("history.forward()")
    shown(browser, ids[0][0].item())
    assert browser.errors() == []


def test_known_links_can_be_left_out(browser, server, mapped):
    id_ = mapped.ids_["users"][4].item()
    browser.open(link(server, view="users", id=id_))
    shown(browser, id_)
    browser.click("#unknown")
    browser.wait(
        "document.querySelector('#unknown')?.checked && !document.querySelector('.pill.known')"
    )
    ids, _ = mapped.search("users", ids=[id_], among="films", k=10, exclude="known")
    names = [mapped.names_["films"][mapped.ids_["films"].tolist().index(i)] for i in ids[0]]
    browser.wait(listed("#panel .near", names))
    assert address(browser)["unknown"] == "1"


def test_the_search_box_works_with_keys(browser, server, mapped):
    browser.open(server.url)
    browser.press("/")
    browser.type("f000")
    browser.wait("document.querySelectorAll('[role=option]').length === 12")
    selected = "document.querySelector('[role=option][aria-selected=true]').textContent"
    first = browser.run(selected)
    assert mapped.ids_["films"][0] in first
    browser.press("ArrowDown", 2)
    assert mapped.ids_["films"][2] in browser.run(selected)
    active = browser.run("document.activeElement.getAttribute('aria-activedescendant')")
    assert browser.run(f"document.getElementById({json.dumps(active)}).textContent") == browser.run(
        selected
    )
    browser.press("Enter")
    shown(browser, mapped.names_["films"][2])
    browser.press("/")
    browser.type("no such entity")
    browser.wait("document.querySelector('[role=option].none')")
    browser.press("Escape")
    assert browser.run("document.querySelector('[role=listbox]').hidden")


def test_everything_is_reached_by_the_tab_key(browser, server):
    browser.open(server.url)
    browser.run("document.activeElement.blur()")
    seen = []
    for _ in range(40):
        browser.press("Tab")
        one = browser.run(
            "(() => { const e = document.activeElement; const s = getComputedStyle(e);"
            " return [e === document.body ? 'BODY' : e.id || e.className,"
            " e.textContent.slice(0, 20),"
            " s.outlineStyle !== 'none' || s.boxShadow !== 'none']; })()"
        )
        if one[0] == "BODY":
            break
        seen.append(one)
    names = [one[0] for one in seen]
    for wanted in ("skip", "home", "new", "color", "marks", "zoom-in", "lasso"):
        assert wanted in names
    assert any("Users" in one[1] or "users" in one[1] for one in seen)
    assert [one for one in seen if not one[2]] == []  # focus is visible


def test_the_map_is_moved_by_mouse_and_keys(browser, server):
    browser.open(server.url)
    x, y = middle(browser)
    browser.wheel(x, y, -300)
    camera(browser, "k > 1.2")
    browser.drag([(x, y), (x + 60, y), (x + 120, y)])
    camera(browser, "x < -0.1 && k > 1.2")
    browser.click("#zoom-all")
    browser.wait("!location.hash.includes('camera')")
    browser.run("document.querySelector('#marks').focus()")
    # The address follows half a second after a key, so it may have the first one alone for a while.
    browser.press("+")
    browser.press("ArrowRight")
    assert camera(browser, "x > 0.05")[1:] == pytest.approx([0, 1.4], abs=0.01)
    browser.press("0")
    browser.wait("!location.hash.includes('camera')")


def test_a_gesture_is_in_the_address_although_the_page_changes_its_size(browser, server):
    browser.open(server.url)
    x, y = middle(browser)
    # The size changes at the end of the gesture, before the address follows.
    browser.run("addEventListener('mouseup', () => { document.body.style.width = '900px'; }, true)")
    browser.drag([(x, y), (x + 60, y), (x + 120, y)])
    camera(browser, "x < -0.1")


def test_colours_and_views_can_be_chosen(browser, server, mapped, mapped_model):
    browser.open(link(server, color=["films", "year"]))
    assert len(text(browser, "#key .scale")) == 1
    missing = int((mapped.columns_["films"]["year"] == "").sum())
    assert text(browser, "#key .entry")[-1] == f"no value{missing}"
    browser.run(
        "(() => { const s = document.querySelector('#color'); s.value = 'view';"
        " s.dispatchEvent(new Event('change')); })()"
    )
    browser.wait("document.querySelector('#key').childElementCount === 0")
    assert address(browser)["color"] == "view"
    # A hidden view cannot be picked.
    browser.click("#views button:first-child")
    assert json.loads(address(browser)["hide"]) == ["films"]
    state = {"hide": ["films"], "camera": looking_at(mapped, mapped_model, "films", 7)}
    browser.open(link(server, **state))
    browser.click(middle(browser))
    browser.run("new Promise(done => setTimeout(done, 500))")
    assert mapped.names_["films"][7] not in text(browser, ".title")


@pytest.mark.parametrize("by", ["button", "shift"])
def test_a_lasso_lists_what_is_inside(browser, server, mapped, mapped_model, by):
    browser.open(server.url)
    box = browser.run(
        "(() => { const b = document.querySelector('#marks').getBoundingClientRect();"
        " return [b.left, b.top, b.width, b.height]; })()"
    )
    left, top, width, height = box
    corners = [(0.3, 0.3), (0.5, 0.29), (0.7, 0.3), (0.7, 0.6), (0.5, 0.61), (0.3, 0.6)]
    path = [(left + x * width, top + y * height) for x, y in [*corners, corners[0]]]
    if by == "button":
        browser.click("#lasso")
        browser.drag(path)
    else:
        browser.drag(path, modifiers=SHIFT)
    browser.wait(f"location.hash.includes('lasso') && {HEADING}?.includes('entities')")
    assert browser.run("document.querySelector('#lasso').getAttribute('aria-pressed')") == "false"
    polygon = np.array(json.loads(address(browser)["lasso"]))
    inside = {v: _within(polygon, xy) for v, xy in places(mapped, mapped_model).items()}
    counts = [int(n.replace(",", "")) for n in text(browser, ".counts .n")]
    assert counts == [len(inside[v]) for v in mapped.view_names_]
    assert sum(counts) > 10
    assert text(browser, ".title") == [f"{sum(counts)} entities"]
    first = inside["users"][0]
    names = text(browser, ".near .go .name")
    assert mapped.ids_["users"][first] in names
    browser.click(".near .go")
    browser.wait("location.hash.includes('id=')")
    browser.wait("document.querySelector('#panel .under')")
    browser.click(".over button")  # back to the selection
    browser.wait(f"{HEADING}?.includes('entities')")


def _within(polygon: np.ndarray, xy: np.ndarray) -> list[int]:
    """Return the rows inside a polygon: their winding number is not 0."""
    around = np.vstack([polygon, polygon[:1]])
    angles = [np.unwrap(np.arctan2(around[:, 1] - y, around[:, 0] - x)) for x, y in xy]
    return [at for at, one in enumerate(angles) if abs(one[-1] - one[0]) > np.pi]


def test_a_new_entity_is_described_in_the_form(browser, server, mapped):
    browser.open(server.url)
    browser.click("#new")
    browser.wait("document.querySelector('.fields')")
    browser.click(".choice button:nth-child(3)")  # users
    browser.wait("document.querySelector('.fields label')?.textContent === 'age'")
    browser.click(".fields input[type=number]")
    browser.type("33")
    browser.run(
        "(() => { const s = document.querySelector('.fields select'); s.value = 'jp';"
        " s.dispatchEvent(new Event('change')); })()"
    )
    browser.click(".fields textarea")
    browser.type("robot planet alien")
    row = {"age": 33.0, "country": "jp", "likes": "robot planet alien"}
    wanted = _best(mapped, row)
    browser.wait(_weights(wanted))
    browser.click(".first input[type=search]")
    browser.type("f00003")
    browser.wait("document.querySelector('.first [role=option]')")
    browser.press("Enter")
    browser.wait("document.querySelector('.links input')")
    browser.run("document.querySelector('.links input').focus()")
    browser.run("document.querySelector('.links input').select()")
    browser.type("500")
    browser.press("Tab")
    linked = _best(mapped, row, {"films": ([0], ["f00003"], [500.0])})
    assert not np.allclose(linked, wanted, rtol=0.01)
    browser.wait(_weights(linked))
    # The address bar has it all.
    state = address(browser)
    assert json.loads(state["row"]) == {"age": "33", "country": "jp", "likes": "robot planet alien"}
    assert json.loads(state["links"])["films"][0]["weight"] == 500
    browser.open(browser.run("location.href"))
    browser.wait(_weights(linked))
    browser.click(".links li button")
    browser.wait(_weights(wanted))
    assert browser.errors() == []


def _best(model: PMvGE, row: dict[str, Any], links: Any = None) -> list[float]:
    """Return the expected weights of the best films of a new user."""
    from pmvge.tables import rows_of_records

    _, X = rows_of_records(model.tables_, "users", [row])
    weights: list[float] = model.index("films", among="users").search(X, links=links)[1][0].tolist()
    return weights


def _weights(wanted: list[float]) -> str:
    """Return a condition: the results are films with these expected weights."""
    found = "[...document.querySelector('.results .near')?.querySelectorAll('.weight .n') ?? []]"
    return (
        f"{found}.length === {len(wanted)} && {found}.every((e, at) =>"
        f" Math.abs(Number(e.textContent) / {json.dumps(wanted)}[at] - 1) < 0.006)"
    )


def test_two_entities_are_compared(browser, server, mapped):
    user, film = mapped.ids_["users"][4].item(), mapped.ids_["films"][7].item()
    browser.open(link(server, view="users", id=user))
    shown(browser, user)
    browser.click(".compare")
    browser.type(film)
    browser.wait("document.querySelector('.with [role=option]')")
    browser.press("Enter")
    browser.wait("document.querySelector('.versus')")
    weight = mapped.intensity("users", None, "films", None, ids=[user], ids_other=[film])[0, 0]
    verdict = text(browser, ".verdict b")[0]
    assert float(verdict) == pytest.approx(weight, rel=0.006)
    assert [t.strip() for t in text(browser, ".side h2")] == [user, mapped.names_["films"][7]]
    # Two users: shared and distinct films.
    ids = mapped.ids_["users"]
    partners, _ = mapped.search("users", ids=ids, among="films", k=30, exclude="self")
    best = [set(row.tolist()) for row in partners]
    at = min(range(len(ids)), key=lambda one: len(best[one] & best[4]))
    best, other = [best[4], best[at]], ids[at].item()
    browser.open(link(server, view="users", id=user, with_view="users", with_id=other))
    browser.wait("document.querySelector('.both')")
    groups = text(browser, ".near:first-of-type .both th[scope=rowgroup]")
    assert groups == [f"Shared: {len(best[0] & best[1])}", f"Only {user}", f"Only {other}"]
    assert "no expected weight" in text(browser, ".verdict")[0]
    browser.click(".over button")
    shown(browser, user)


def test_an_unknown_entity_in_a_link_is_one_sentence(browser, server):
    browser.open(link(server, view="users", id="nobody"))
    browser.wait("document.querySelector('#panel .warning')")
    assert "'nobody' is not among" in text(browser, "#panel .warning")[0]
    browser.click("#panel button")
    browser.wait(f"{HEADING} === 'What you see'")


@pytest.mark.parametrize(
    "hash_",
    [
        "#camera=x,y&lasso=[[1]]&color=[1]&hide=3&row=4&links=5&form=a",
        "#%E0%A4%A&&=&lasso={}",
        "#view=films",
        "#with_id=a",
    ],
)
def test_a_damaged_address_shows_the_overview_or_a_form(browser, server, hash_):
    browser.open(server.url + hash_)
    browser.wait("document.querySelector('#panel').textContent.length > 20")
    assert browser.errors() == []


def test_a_token_is_asked_for_once(browser, open_server, mapped_model):
    token = "a-token-of-some-length"
    server = open_server(mapped_model, token=token)
    browser.screen()
    browser.events.clear()
    browser.send("Page.navigate", url=server.url)
    browser.wait("document.querySelector('#ask')?.open")
    browser.click("#token")
    browser.type("a-wrong-token-of-some-length")
    browser.press("Enter")
    browser.wait("document.querySelector('#ask-note').textContent.includes('not accept')")
    browser.wait("document.querySelector('#ask').open")
    browser.type(token)
    browser.press("Enter")
    browser.wait("document.body.dataset.drawn === 'yes'")
    assert text(browser, "#title") == ["Films, Genre, Users"]
    browser.send("Page.reload")
    browser.wait("document.body?.dataset.drawn === 'yes'")  # without asking again
    assert not browser.run("document.querySelector('#ask').open")
    assert not any(token in request for request in browser.requests())
