"""Parts of a page: sections, tables, figures, and the policy for scripts."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re

from plotly.offline import get_plotlyjs

from pmvge.pages import Section, document, figure, table

DRAWN = figure("f", {"data": [], "layout": {}}, "<label>", caption="a < b")


PACKED = re.compile(r'<script type="application/gzip" id="plotly">(.*?)</script>')


def unpacked(page: str) -> str:
    """Return the script that the page decompresses."""
    (packed,) = PACKED.findall(page)
    return gzip.decompress(base64.b64decode(packed)).decode()


def scripts(page: str) -> list[str]:
    return re.findall(r"<script>(.*?)</script>", page, re.DOTALL)


def test_plotly_is_included_only_for_figures() -> None:
    plain = document("t", "", [Section("a", "A", "", "<p>text</p>")], kind="Test")
    drawn = document("t", "", [Section("a", "A", "", DRAWN)], kind="Test")
    assert len(scripts(plain)) == len(scripts(drawn)) == 1
    assert len(plain) < 50_000
    assert not PACKED.search(plain)
    assert unpacked(drawn) == get_plotlyjs()


def test_the_policy_allows_exactly_the_scripts_of_the_page() -> None:
    page = document("t", "", [Section("a", "A", "", DRAWN)], kind="Test")
    programs = [*scripts(page), unpacked(page)]
    digests = [hashlib.sha256(script.encode()).digest() for script in programs]
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    assert f"script-src {allowed};" in page


def test_plain_text_is_escaped() -> None:
    page = document("<t>", "", [Section('"a"', "<h>", "", "")], kind="<k>", tiles=[("<n>", "<v>")])
    for text in ("<t>", "<h>", "<k>", "<n>", "<v>", '""a""'):
        assert text not in page
    assert page.count("&lt;h&gt;") == 2  # in the navigation, and as a heading
    assert '<a href="#&quot;a&quot;">' in page


def test_a_figure_has_its_numbers_label_and_caption() -> None:
    content = {"data": [{"x": [1, 2], "name": "</script>"}], "layout": {}}
    text = figure("f", content, "<label>", above="<b>above</b>", caption="a < b" * 100)
    (numbers,) = re.findall(r'<script type="application/json">(.*?)</script>', text)
    assert json.loads(numbers) == content
    assert 'aria-label="&lt;label&gt;"' in text
    assert "<b>above</b>" in text
    assert f"<figcaption>{'a &lt; b' * 100}</figcaption>" in text
    assert "figcaption" not in figure("f", content, "label")


def test_a_table_aligns_numbers_right_and_marks_rows() -> None:
    text = table(["name", "n"], [["a", "1"], ["b", "2"]], row_classes=["", "total"], caption="C")
    assert "<caption>C</caption>" in text
    assert '<th>name</th><th class="n">n</th>' in text
    assert '<tr class="total"><td>b</td><td class="n">2</td></tr>' in text
    assert '<tr class=""><td>a</td>' in text


def test_wide_tables_repeat_the_column_names_for_phones() -> None:
    columns = ["<i>a</i>", *"bcdef"]
    text = table(columns, [[*"123456"]])
    assert '<div class="scroll stack">' in text
    assert '<td data-label="a">1</td><td class="n" data-label="b">2</td>' in text
    assert "data-label" not in table(columns[:5], [[*"12345"]])
