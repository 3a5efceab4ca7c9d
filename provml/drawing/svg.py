"""The SVG document of all pictures, with the style that they share."""

from __future__ import annotations

import math
from collections.abc import Sequence

from provml.drawing.layout import Size
from provml.drawing.palette import DARK, FONT, LIGHT, Theme
from provml.drawing.text import escape

PICTURE = ".provml-picture"
"""Selector of a picture. All rules are limited to it, because a notebook applies them to the whole page."""
TITLE_SIZE, LINE_SIZE, HEADING_SIZE = 13.0, 11.0, 16.0
"""Font sizes in pixels: titles of nodes and panels, other text, the title of the picture."""


LEAST_SCALE = 0.5
"""A narrow page shrinks a picture to this at most, so that its text stays readable; then the page scrolls."""


def rules(declarations: dict[str, str], css_class: str = "") -> str:
    """Return CSS rules that are limited to pictures (of a class); a key lists selectors, separated by commas."""
    scope = f"{PICTURE}.{css_class}" if css_class else PICTURE
    return "".join(
        ",".join(f"{scope} {selector}" for selector in selectors.split(",")) + f"{{{declaration}}}"
        for selectors, declaration in declarations.items()
    )


def _theme_rules(theme: Theme) -> str:
    return rules(
        {
            ".page": f"fill:{theme.page}",
            ".h,.b": f"fill:{theme.text}",
            ".m": f"fill:{theme.muted}",
            ".a": f"fill:{theme.line}",
            ".k": f"fill:{theme.bad}",
        }
    )


STYLE = (
    f"{PICTURE}{{font-family:{FONT};font-size:{LINE_SIZE:g}px}}"
    + rules(
        {
            "text": "text-anchor:middle",
            ".w": "text-anchor:start",
            ".h": f"font-size:{HEADING_SIZE:g}px;font-weight:600;text-anchor:start",
            ".b": f"font-size:{TITLE_SIZE:g}px;font-weight:600;text-anchor:start",
        }
    )
    + _theme_rules(LIGHT)
    + f"@media screen and (prefers-color-scheme:dark){{{_theme_rules(DARK)}}}"
)
"""The classes: page, h heading, b title of a part, m muted text, w text that starts at x, a arrow, k alert."""


def document(title: str, description: str, size: Size, body: Sequence[str], *, style: str, css_class: str) -> str:
    """Return an SVG document, light or dark as the reader prefers, and light on paper.

    `style` are the rules of this kind of picture, which are limited to `css_class`.
    """
    width, height = math.ceil(size.width), math.ceil(size.height)
    least = math.ceil(width * LEAST_SCALE)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="provml-picture {css_class}" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" style="max-width:100%;min-width:{least}px;height:auto">\n'
        f"<title>{escape(title)}</title>\n<desc>{escape(description)}</desc>\n<style>{STYLE}{style}</style>\n"
        f'<rect class="page" width="{width}" height="{height}" rx="6"/>\n'
        + "\n".join(filter(None, body))
        + "\n</svg>\n"
    )
