"""Documents as HTML and Markdown: structure, escaping, and no scripts or requests."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from provml.drawing.document import (
    Document,
    Facts,
    Findings,
    Paragraph,
    Picture,
    Section,
    Table,
    to_html,
    to_markdown,
)

HOSTILE = (
    "</title></td><script>alert(1)</script><img src=x onerror=f()> & \"q\" 'p' | `x` [a](javascript:b) \x1b[1m\n# h"
)
VOID = {"meta", "br", "hr", "img", "link", "path", "rect", "ellipse", "circle"}


class Outline(HTMLParser):
    """The tags, attributes and texts of a page; fails if tags are not nested."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.texts: list[str] = []
        self.stack: list[str] = []
        self.feed(html)
        self.close()
        assert not self.stack

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def sample(text: str) -> Document:
    """Return a document with every kind of block, in which all text is the given one."""
    table = Table(("a", text), ((text, "1"), ("", text)), frozenset({"a"}), frozenset({text}))
    blocks = (
        Paragraph(text),
        Findings((("good", text), ("warning", text), ("bad", text), ("unknown", text))),
        Facts(((text, text), ("b", text)), frozenset({"b"})),
        table,
        Picture("<svg></svg>", f"graph {text}", "mermaid"),
    )
    return Document(text, text, text, "bad", (Section(text, blocks), Section("Data", (Paragraph(text),))), text)


def test_a_page_has_its_parts():
    page = Outline(to_html(sample("plain")))
    assert [tag for tag in page.tags if tag in ("h1", "h2", "svg")] == ["h1", "h2", "svg", "h2"]
    assert ("section", "id", "plain") in page.attributes
    assert ("a", "href", "#data") in page.attributes
    assert page.texts.count("✗") == 2


def test_a_page_has_no_scripts_and_asks_for_nothing():
    html = to_html(sample("plain"))
    page = Outline(html)
    assert "script" not in page.tags
    assert not {"link", "img", "iframe"}.intersection(page.tags)
    policy = next(value for tag, name, value in page.attributes if tag == "meta" and name == "content" and value)
    assert policy.startswith("default-src 'none'")
    assert not re.search(r"(src|href)=[\"'](?!#)", html)
    assert "url(" not in html
    assert "@import" not in html


def test_hostile_text_stays_text_in_html():
    page = Outline(to_html(sample(HOSTILE)))
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert not any(name.startswith("on") for _, name, _ in page.attributes)
    assert "\x1b" not in "".join(page.texts)
    assert any("<script>alert(1)</script>" in text for text in page.texts)


def test_hostile_text_stays_text_in_markdown():
    text = to_markdown(sample(HOSTILE))
    outside = re.sub(r"```mermaid.*?```", "", text, flags=re.S)
    outside = re.sub(r"(`+) ?.*?\1", "", outside)  # code spans
    assert "<" not in outside
    assert not re.search(r"(?<!\\)\]\(", outside)
    assert "\x1b" not in outside
    assert [line for line in outside.splitlines() if line.startswith("#")][1].startswith("## ")
    assert outside.count("\n# ") == 0


def test_rows_of_markdown_tables_have_the_same_number_of_cells():
    text = to_markdown(sample(HOSTILE))
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 8
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {3}


def test_a_code_block_is_fenced_by_more_backticks_than_it_has():
    document = Document("t", "", "ok", "good", (Section("s", (Picture("", "a\n````\nb"),)),), "")
    assert "`````text\na\n````\nb\n`````" in to_markdown(document)


def test_sections_with_the_same_title_have_their_own_anchors():
    document = Document("t", "", "ok", "good", (Section("A b", ()), Section("A b", ()), Section("花", ())), "")
    assert re.findall(r'section id="([^"]*)"', to_html(document)) == ["a-b", "a-b-2", "section"]


@given(st.text(max_size=60))
def test_any_text_gives_a_well_formed_page(text: str):
    Outline(to_html(sample(text)))
    assert to_markdown(sample(text)).startswith("# ")


def test_light_dark_and_paper_are_styled():
    html = to_html(sample("plain"))
    assert "@media screen and (prefers-color-scheme:dark)" in html
    assert "@media print" in html
