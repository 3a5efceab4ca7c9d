"""Colours of all pictures: W3C's of PROV, and series that people with any colour vision can distinguish."""

from __future__ import annotations

from typing import NamedTuple


class Paint(NamedTuple):
    """Fill and line of a shape."""

    fill: str
    line: str


ENTITY = Paint("#fffc87", "#808080")
ACTIVITY = Paint("#9fb1fc", "#0000ff")
AGENT = Paint("#fed37f", "#6b4e00")
"""W3C's colours of PROV diagrams, the same in dark mode: their text is dark, with a contrast of at least 7.8."""
INK = "#1c2128"
"""Text on the shapes of PROV."""


class Theme(NamedTuple):
    """Colours of the page around the shapes."""

    page: str
    text: str
    muted: str
    line: str
    rule: str
    panel: str
    accent: str
    good: str
    warning: str
    bad: str
    series: tuple[str, ...]
    ramp: str
    """Saturation and lightness of the colours of many series."""

    def series_colors(self, count: int) -> list[str]:
        """Return the colours of some series: distinct ones, or of many a range of hues in their order."""
        if count <= len(self.series):
            return list(self.series[:count])
        first, last = RAMP_HUES
        hues = [first + (last - first) * index / (count - 1) for index in range(count)]
        return [f"hsl({hue:.0f} {self.ramp})" for hue in hues]


LIGHT = Theme(
    page="#ffffff",
    text="#1c2128",
    muted="#57606a",
    line="#8c959f",
    rule="#d8dee4",
    panel="#f6f8fa",
    accent="#0a58a8",
    good="#116b3c",
    warning="#7a4b00",
    bad="#a4262c",
    series=("#0072b2", "#882255", "#997700", "#ee6677", "#332288", "#1c2128"),
    ramp="62% 40%",
)
DARK = Theme(
    page="#0f1419",
    text="#e6edf3",
    muted="#9aa7b5",
    line="#6e7b88",
    rule="#2a323b",
    panel="#171d24",
    accent="#6cb6ff",
    good="#6fdd9b",
    warning="#f0c04a",
    bad="#ff8a80",
    series=("#56b4e9", "#ddcc77", "#ee7733", "#ee3377", "#bbbbbb", "#ffb000"),
    ramp="70% 65%",
)
"""Themes. Six series can be told apart by colour."""
RAMP_HUES = (275.0, 15.0)
"""Hues of the first and the last of more than six series, whose colours show their order."""

FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,'Noto Sans',sans-serif"
