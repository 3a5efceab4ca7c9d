"""A document of sections with text, tables and pictures, as one HTML page without scripts, or as Markdown.

The page needs nothing from elsewhere: its style and pictures are inside, and a policy forbids scripts and requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from provml.drawing.palette import DARK, FONT, LIGHT, Theme
from provml.drawing.text import escape, single_line

Level = Literal["good", "warning", "bad", "unknown"]
SYMBOLS: dict[str, str] = {"good": "✓", "warning": "!", "bad": "✗", "unknown": "?"}
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Content security policy of the page: no scripts, and no requests."""


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of text."""

    text: str


@dataclass(frozen=True)
class Findings:
    """A list of sentences, each with a level."""

    items: tuple[tuple[Level, str], ...]


@dataclass(frozen=True)
class Facts:
    """Names and values in two columns; values of the names in `codes` are shown as code."""

    pairs: tuple[tuple[str, str], ...]
    codes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Table:
    """Rows of text; `numbers` are the columns of numbers, `codes` those of digests and paths."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[str] = frozenset()
    codes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Picture:
    """A picture as SVG, and as text in a language (such as mermaid) for Markdown."""

    svg: str
    text: str
    language: str = "text"


Block = Paragraph | Findings | Facts | Table | Picture


@dataclass(frozen=True)
class Section:
    """A heading and what is below it."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Document:
    """A title with a status, sections, and a last line."""

    title: str
    subtitle: str
    status: str
    status_level: Level
    sections: tuple[Section, ...]
    footer: str


# ---- HTML


def to_html(document: Document) -> str:
    """Return the page."""
    anchors = _anchors(document)
    menu = "".join(f'<li><a href="#{anchor}">{escape(name)}</a></li>' for anchor, name in anchors)
    sections = "\n".join(
        f'<section id="{anchor}">\n<h2>{escape(section.title)}</h2>\n'
        + "\n".join(map(_html_block, section.blocks))
        + "\n</section>"
        for (anchor, _), section in zip(anchors, document.sections, strict=True)
    )
    title = escape(single_line(document.title))
    level = document.status_level
    badge = f'<span class="status {level}">{_symbol(level)} {escape(document.status)}</span>'
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="generator" content="provml">\n'
        f"<title>{title}</title>\n<style>{PAGE_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f'<header>\n<h1>{title} {badge}</h1>\n<p class="subtitle">{escape(document.subtitle)}</p>\n</header>\n'
        f'<nav aria-label="Contents"><ul>{menu}</ul></nav>\n{sections}\n'
        f"<footer>{escape(document.footer)}</footer>\n</main>\n</body>\n</html>\n"
    )


def _anchors(document: Document) -> list[tuple[str, str]]:
    """Return the anchor and the title of each section."""
    anchors: dict[str, str] = {}
    for section in document.sections:
        base = re.sub(r"[^a-z0-9]+", "-", section.title.lower()).strip("-") or "section"
        anchor = base
        while anchor in anchors:
            anchor += "-2"
        anchors[anchor] = section.title
    return list(anchors.items())


def _symbol(level: str) -> str:
    return f'<span class="symbol" aria-hidden="true">{SYMBOLS[level]}</span>'


def _html_block(block: Block) -> str:
    if isinstance(block, Paragraph):
        return f"<p>{escape(block.text)}</p>"
    if isinstance(block, Findings):
        items = (f'<li class="{level}">{_symbol(level)} {escape(text)}</li>' for level, text in block.items)
        return f'<ul class="findings">{"".join(items)}</ul>'
    if isinstance(block, Facts):
        rows = (
            f"<tr><th>{escape(name)}</th><td>{_html_value(value, is_code=name in block.codes)}</td></tr>"
            for name, value in block.pairs
        )
        return f'<table class="facts"><tbody>{"".join(rows)}</tbody></table>'
    if isinstance(block, Picture):
        return f"<figure>{block.svg}</figure>"
    return _html_table(block)


def _html_value(value: str, *, is_code: bool) -> str:
    return f"<code>{escape(value)}</code>" if is_code and value else escape(value)


def _html_table(table: Table) -> str:
    def cell(tag: str, name: str, text: str) -> str:
        css = ' class="number"' if name in table.numbers else ""
        return f"<{tag}{css}>{_html_value(text, is_code=tag == 'td' and name in table.codes)}</{tag}>"

    head = "".join(cell("th", name, name) for name in table.columns)
    body = "\n".join(
        f"<tr>{''.join(cell('td', name, text) for name, text in zip(table.columns, row, strict=True))}</tr>"
        for row in table.rows
    )
    return f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'


def _theme_rules(theme: Theme) -> str:
    return (
        f":root{{--page:{theme.page};--text:{theme.text};--muted:{theme.muted};--line:{theme.line};--rule:{theme.rule};"
        f"--accent:{theme.accent};--good:{theme.good};--warning:{theme.warning};--bad:{theme.bad}}}"
    )


PAGE_STYLE = "".join(
    (
        _theme_rules(LIGHT),
        f"@media screen and (prefers-color-scheme:dark){{{_theme_rules(DARK)}}}",
        "*{box-sizing:border-box}",
        f"body{{margin:0;background:var(--page);color:var(--text);font:15px/1.5 {FONT}}}",
        "main{max-width:62rem;margin:0 auto;padding:2rem 1.25rem 3rem}",
        "h1{font-size:1.7rem;line-height:1.25;margin:0;overflow-wrap:anywhere}",
        "h2{font-size:1.2rem;margin:2.2rem 0 .6rem;padding-top:.7rem;border-top:1px solid var(--rule)}",
        ".subtitle,footer{color:var(--muted);overflow-wrap:anywhere}.subtitle{margin:.3rem 0 0}",
        "footer{margin-top:2.5rem;font-size:.85rem}",
        "nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1rem;padding:0;margin:1rem 0 0;font-size:.9rem}",
        "a{color:var(--accent);text-decoration:none}a:hover{text-decoration:underline}p{overflow-wrap:anywhere}",
        ".status{font-size:.85rem;font-weight:600;vertical-align:middle;white-space:nowrap;padding:.1rem .6rem}",
        ".status{border:1px solid currentColor;border-radius:1rem}",
        ".good{color:var(--good)}.warning{color:var(--warning)}.bad{color:var(--bad)}.unknown{color:var(--muted)}",
        ".findings{list-style:none;padding:0;margin:.6rem 0}",
        ".findings li{padding:.2rem 0 .2rem 1.7rem;position:relative;overflow-wrap:anywhere}",
        ".findings .symbol{position:absolute;left:.2rem;font-weight:700}",
        ".wide{overflow-x:auto}",
        "table{border-collapse:collapse;margin:.6rem 0;font-size:.9rem;font-variant-numeric:tabular-nums}",
        "th,td{text-align:left;vertical-align:top;padding:.28rem 1rem .28rem 0}",
        "th,td{overflow-wrap:break-word;max-width:32rem}",
        "thead th{font-weight:600;color:var(--muted);border-bottom:1px solid var(--line);white-space:nowrap}",
        "tbody tr+tr td,tbody tr+tr th{border-top:1px solid var(--rule)}",
        ".facts th{font-weight:400;color:var(--muted);white-space:nowrap;padding-right:1.6rem}",
        ".facts td{overflow-wrap:anywhere;max-width:none}th.number,td.number{text-align:right;white-space:nowrap}",
        "code{font:.86em/1.4 ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}",
        "code{overflow-wrap:anywhere}.wide td code{min-width:10rem;display:inline-block}",
        "figure{margin:.8rem 0;overflow-x:auto}figure svg{display:block}",
        "@media print{body{font-size:10pt}main{max-width:none;padding:0}nav{display:none}a{color:inherit}",
        "h2{break-after:avoid}tr,.findings li,figure{break-inside:avoid}thead{display:table-header-group}",
        ".wide,figure{overflow:visible}figure svg{max-height:24cm;width:auto;min-width:0!important}}",
    )
)


# ---- Markdown


def to_markdown(document: Document) -> str:
    """Return the document as Markdown; all text is escaped, so that no renderer takes it for markup."""
    symbol = SYMBOLS[document.status_level]
    status = f"**{symbol} {_markdown(document.status)}** · {_markdown(document.subtitle)}"
    lines = [f"# {_markdown(document.title)}", "", status]
    for section in document.sections:
        lines += ["", f"## {_markdown(section.title)}"]
        for block in section.blocks:
            lines += ["", *_markdown_block(block)]
    return "\n".join([*lines, "", "---", "", _markdown(document.footer), ""])


def _markdown_block(block: Block) -> Iterable[str]:
    if isinstance(block, Paragraph):
        return [_markdown(block.text)]
    if isinstance(block, Findings):
        return [f"- {SYMBOLS[level]} {_markdown(text)}" for level, text in block.items]
    if isinstance(block, Facts):
        rows = [(name, value) for name, value in block.pairs]
        return _markdown_table(("", ""), rows, [[False, name in block.codes] for name, _ in rows], ("---", "---"))
    if isinstance(block, Picture):
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", block.text)), default=0))
        return [f"{fence}{block.language}", block.text.rstrip("\n"), fence]
    codes = [[name in block.codes for name in block.columns]] * len(block.rows)
    marks = tuple("---:" if name in block.numbers else "---" for name in block.columns)
    return _markdown_table(block.columns, block.rows, codes, marks)


def _markdown_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], codes: Sequence[Sequence[bool]], marks: Sequence[str]
) -> list[str]:
    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cells)} |"

    body = [
        line(_code(text) if is_code and text else _markdown(text) for text, is_code in zip(row, flags, strict=True))
        for row, flags in zip(rows, codes, strict=True)
    ]
    return [line(map(_markdown, columns)), line(marks), *body]


def _markdown(text: str) -> str:
    """Return text with the characters of Markdown and HTML escaped."""
    text = re.sub(r"([\\`*_\[\]|~$#!])", r"\\\1", single_line(text))
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("://", ":&#47;/")


def _code(text: str) -> str:
    """Return a code span; a table ends a cell at a bar also in code."""
    text = single_line(text).replace("|", "\\|")
    ticks = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"
