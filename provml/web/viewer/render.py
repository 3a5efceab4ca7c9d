"""Templates, pictures and static files of the pages."""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from importlib import resources
from typing import Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from provml.answers import format_cell, single_line
from provml.answers.humanize import format_duration, format_size
from provml.answers.plot import Curves
from provml.answers.table import is_numeric
from provml.drawing import chart, lineage_svg, svg
from provml.drawing.palette import DARK, LIGHT, Theme
from provml.errors import plural
from provml.model.values import IRI
from provml.web.viewer.links import EXAMPLE_ORIGIN, Links
from provml.web.viewer.viewer import Page

MAX_TEXT = 80
"""Characters of a text that a cell shows; the tooltip has more."""
MAX_TITLE = 400
MAX_LINES = 30
"""Lines of an error message that a page shows."""
MAX_POINTS = 1000
"""Points of a curve that a page has; of more, the extremes of each part."""
MAX_STYLED_SERIES = 12
WIDTH_STEP, MAX_WIDTH_STEPS = 200, 60
"""The least width of a picture, below which it cannot be read, is a class in steps of some pixels."""
STATUS_SIGNS = {
    "FINISHED": "✓", "FAILED": "✗", "INTERRUPTED": "■", "PRUNED": "✂", "RUNNING": "◐", "KILLED": "✗", "LOST": "?",
}  # fmt: skip
PAGES = (
    ("", "Runs"),
    ("models", "Models"),
    ("data", "Data"),
    ("lineage", "Lineage"),
    ("dataflow", "Dataflow"),
    ("questions", "Questions"),
    ("build", "Build"),
    ("query", "SPARQL"),
    ("validation", "Validation"),
    ("ontology", "Ontology"),
)
"""The pages of the navigation, with their titles."""
MEDIA_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
_WORD_STARTS = re.compile(r"(?<=[_./:-])(?=\w)|(?<=[a-z0-9])(?=[A-Z])")
_LEAST_WIDTH = re.compile(r'<svg [^>]*? style="[^"]*min-width:(\d+)px')
_STYLE_ELEMENT = re.compile("<style>.*?</style>", re.DOTALL)
_STYLE_ATTRIBUTE = re.compile(r'(<svg [^>]*?) style="[^"]*"')


def render(page: Page, links: Links, *, active: str = "", shared: Mapping[str, Any] | None = None) -> str:
    """Return the HTML of a page. `active` is its place in the navigation."""
    template = _environment().get_template(page.template)
    pages = [(links.page(name), title, name == active) for name, title in PAGES if links.page(name)]
    context = {
        "title": single_line(page.title)[:MAX_TITLE],
        "links": links,
        "pages": pages,
        "static": lambda name: links.static(name, static_file(name).version),
        "is_live": page.is_live,
        "value": lambda value, digits=4: value_html(value, links, digits),
        "can_write": False,
        "form_token": "",
        "home": "",
        "origin": EXAMPLE_ORIGIN,
        "example_origin": EXAMPLE_ORIGIN,
        **(shared or {}),
        **page.context,
    }
    return template.render(context)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("provml.web.viewer"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        text=text,
        long_text=lambda value: text(value, MAX_TITLE),
        lines=lambda value: "\n".join(text(line, MAX_TITLE) for line in str(value).splitlines()[:MAX_LINES]),
        breakable=breakable,
        moment=moment,
        duration=format_duration,
        size=format_size,
        count=lambda number: f"{number:,}",
        plural=plural,
        svg=inline_svg,
        data=data_element,
        is_number=lambda value: is_numeric([value]),
        sign=lambda status: STATUS_SIGNS.get(status, "·"),
    )
    return environment


# ---- values


def text(value: Any, limit: int = MAX_TEXT) -> str:
    """Return any value as one line of text without control characters, shortened."""
    line = format_cell(value) if not isinstance(value, str) else single_line(str(value))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def breakable(value: Any) -> Markup:
    """Return a name that a browser may break after a separator and before a capital letter, not inside a word."""
    return Markup("<wbr>").join(_WORD_STARTS.split(text(value)))


def moment(value: datetime | None, *, seconds: bool = False) -> Markup:
    """Return a time as an element: the date and the minute, in UTC in its tooltip."""
    if value is None:
        return Markup("")
    local = value.astimezone()
    shown = f"{local:%Y-%m-%d %H:%M:%S}" if seconds else f"{local:%Y-%m-%d %H:%M}"
    iso = f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return Markup('<time datetime="{0}" title="{0}">{1}</time>').format(iso, shown)


def short_number(value: float, digits: int) -> str:
    """Return a number with some significant digits."""
    return f"{value:.{digits}g}" if value - value == 0.0 else format_cell(value)


def value_html(value: Any, links: Links, digits: int = 4) -> Markup:
    """Return a value for a cell: a number with few digits and all of them in its tooltip, a node as a link."""
    if value is None:
        return Markup('<span class="none">–</span>')
    if isinstance(value, datetime) and value.tzinfo is not None:
        return moment(value, seconds=True)
    if isinstance(value, IRI):
        address, shown = links.node(value), text(format_cell(value))
        if not address:
            return Markup('<bdi title="{}">{}</bdi>').format(value, shown)
        return Markup('<a href="{}" title="{}"><bdi>{}</bdi></a>').format(address, value, shown)
    if isinstance(value, (float, Decimal)):
        number = float(value)
        shown, full = short_number(number, digits), repr(number)
        return Markup('<span title="{}">{}</span>').format(full, shown) if shown != full else escape(shown)
    shown, full = text(value), text(value, MAX_TITLE)
    return (
        Markup('<bdi title="{}">{}</bdi>').format(full, shown)
        if shown != full
        else Markup("<bdi>{}</bdi>").format(shown)
    )


# ---- pictures


def inline_svg(picture: str) -> Markup:
    """Return a picture of `provml.drawing` for a page, whose style sheet has its rules."""
    least = _LEAST_WIDTH.search(picture)
    plain = _STYLE_ATTRIBUTE.sub(r"\1", _STYLE_ELEMENT.sub("", picture))
    if least is not None:  # the policy of the pages allows no style attribute
        step = min(int(least[1]) // WIDTH_STEP, MAX_WIDTH_STEPS)
        plain = plain.replace('class="provml-picture', f'class="provml-picture least-{step}', 1)
    if "<a href=" in plain:  # an image has no parts that can be reached by keyboard
        plain = plain.replace('role="img"', 'role="group" aria-label="Graph"', 1)
    return Markup(plain)


def data_element(value: Any) -> Markup:
    """Return a value as JSON inside a script element, which a browser does not execute."""
    encoded = msgspec.json.encode(value).decode().replace("<", "\\u003c").replace("\u2028", "\\u2028")
    return Markup('<script type="application/json">{}</script>').format(Markup(encoded))


def chart_data(curves: Curves, key: str = "") -> dict[str, Any]:
    """Return curves as the script of the pages draws them; `key` joins charts whose cursors are linked."""
    groups = list(dict.fromkeys(series.group or series.name for series in curves.series))
    thinned = [
        (series, chart.thinned(series.points) if len(series.points) > MAX_POINTS else series.points)
        for series in curves.series
    ]
    xs = sorted({float(x) for _, points in thinned for x, _ in points})
    return {
        "x": curves.x,
        "y": curves.y,
        "key": key,
        "xs": xs,
        "series": [
            {
                "name": single_line(series.part or series.name) if len(groups) == 1 else single_line(series.name),
                "group": groups.index(series.group or series.name),
                "dashed": series.is_dashed,
                "step": series.is_step,
                "ys": [by_x.get(x) for x in xs],
            }
            for series, points in thinned
            for by_x in [{float(x): y for x, y in points}]
        ],
        "marks": [
            {"x": mark.x, "label": mark.label, "group": groups.index(mark.group)}
            for mark in curves.marks
            if mark.group in groups
        ],
    }


def charts(panels: Sequence[Curves], key: str = "") -> list[dict[str, Any]]:
    """Return the charts of a page: data for the script, and a picture for browsers without scripts."""
    return [
        {"name": curves.y, "data": chart_data(curves, key), "svg": chart.draw([curves]), "note": curves.note}
        for curves in panels
    ]


def sparkline(values: Sequence[float]) -> Markup:
    """Return a curve as a small picture without axes."""
    points = chart.thinned([(float(index), value) for index, value in enumerate(values) if value - value == 0.0])
    if len(points) < 2:
        return Markup("")
    step = max(len(points) // 60, 1)
    points = [*points[::step], points[-1]]
    low, high = min(y for _, y in points), max(y for _, y in points)
    width = points[-1][0] - points[0][0] or 1.0
    path = "L".join(
        f"{(x - points[0][0]) / width * 70 + 1:.1f} {17 - ((y - low) / (high - low or 1.0)) * 14:.1f}"
        for x, y in points
    )
    label = f"from {short_number(points[0][1], 4)} to {short_number(points[-1][1], 4)}"
    return Markup(
        '<svg class="spark" viewBox="0 0 72 18" width="72" height="18" role="img" aria-label="{0}">'
        '<title>{0}</title><path d="M{1}"/></svg>'
    ).format(label, path)


# ---- static files


@dataclass(frozen=True)
class StaticFile:
    """A file that pages refer to; `version` depends on its content."""

    content: bytes
    compressed: bytes
    media_type: str
    version: str


def _tokens(theme: Theme) -> str:
    names = ("page", "text", "muted", "line", "rule", "panel", "accent", "good", "warning", "bad")
    colors = [f"--{name}:{getattr(theme, name)}" for name in names]
    colors += [f"--series-{index}:{color}" for index, color in enumerate(theme.series)]
    return ";".join(colors)


def style_sheet() -> str:
    """Return the style sheet of the pages: colours, rules of pictures, and our own rules."""
    pictures = [svg.STYLE, lineage_svg.STYLE, *(chart.chart_style(count) for count in range(1, MAX_STYLED_SERIES + 1))]
    tokens = f":root{{{_tokens(LIGHT)}}}@media screen and (prefers-color-scheme:dark){{:root{{{_tokens(DARK)}}}}}"
    widths = [f".picture .least-{step}{{min-width:{step * WIDTH_STEP}px}}" for step in range(1, MAX_WIDTH_STEPS + 1)]
    return "\n".join([tokens, *pictures, *widths, _read("uPlot.min.css"), _read("viewer.css")])


def _read(name: str) -> str:
    return (resources.files("provml.web.viewer") / "static" / name).read_text(encoding="utf-8")


STATIC_FILES = ("viewer.css", "viewer.js", "uPlot.iife.min.js", "icon.svg")


@cache
def static_file(name: str) -> StaticFile:
    """Return a static file; the style sheet has what it shares with pictures."""
    content = (style_sheet() if name == "viewer.css" else _read(name)).encode()
    version = hashlib.sha256(content).hexdigest()[:12]
    return StaticFile(content, gzip.compress(content, 9, mtime=0), MEDIA_TYPES[name.rpartition(".")[2]], version)
