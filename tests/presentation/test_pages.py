"""The one way to make a page: what comes from elsewhere is text there, seen as it is."""

from __future__ import annotations

import re
from pathlib import Path

import jinja2
import pytest
from in_process import HOSTILE, forbidden

from localrag.presentation import pages
from localrag.presentation.plots import ChartRow, Markup, chart, element

FOLDER = Path(pages.__file__).with_name("templates")


def rendered(source: str, **values: object) -> str:
    return pages._environment().from_string(source).render(values)


def test_values_are_text_in_elements_and_attributes() -> None:
    html = rendered('<p title="{{ x }}">{{ x }}</p>', x="<b>&\"'")
    assert html == '<p title="&lt;b&gt;&amp;&#34;&#39;">&lt;b&gt;&amp;&#34;&#39;</p>'


def test_what_is_not_seen_is_replaced_wherever_a_value_goes_through() -> None:
    source = "{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m(x) }}{{ x | upper }}{{ [x] | join }}"
    html = rendered(source, x=f"a\u202eb\x1b[31m{HOSTILE}")
    assert forbidden(html) == []
    assert html.count("\ufffd") > 3


def test_only_markup_of_our_own_stands_as_it_is() -> None:
    assert rendered("{{ x }}", x=element("b", "<i>")) == "<b>&lt;i&gt;</b>"
    assert rendered("{{ x }}", x="<b>") == "&lt;b&gt;"


def test_a_name_that_is_not_there_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError):
        rendered("{{ missing }}")
    with pytest.raises(jinja2.UndefinedError):
        rendered("{{ x.missing }}", x=object())


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda p: p.name)
def test_templates_trust_nothing_and_load_nothing(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\|\s*safe|autoescape|~|https?:|@import|url\(|<script|\son\w+=", text)


def test_texts_and_attributes_of_a_drawing_are_escaped() -> None:
    drawing = element("a", '<">', title="\"'<\u202e", stroke_width=1.25).text
    assert drawing == '<a title="&quot;&#x27;&lt;\ufffd" stroke-width="1.2">&lt;&quot;&gt;</a>'
    assert element("g", Markup("<b/>")).text == "<g><b/></g>"


def test_dots_at_one_place_are_stacked_and_then_counted() -> None:
    drawing = chart("t", [("m", [ChartRow(9, dots=[(0.5, "q")] * 8 + [(0.1, "r")])])]).text
    assert drawing.count("<circle") == 9
    assert drawing.count("×8") == 1
    assert 'class="run1 dot"' in drawing
    heights = re.findall(r'cx="400.0" cy="([\d.]+)"', drawing)
    assert len(heights) == 8
    assert len(set(heights)) == 6
