"""Colours of pages and pictures: contrast of text, and series that people with any colour vision can distinguish."""

from __future__ import annotations

import itertools
import math

import pytest

from provml.drawing.palette import ACTIVITY, AGENT, DARK, ENTITY, INK, LIGHT, Theme

VISION = {  # Machado, Oliveira and Fernandes 2009, severity 1.0
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
WHITE_POINT = (0.95047, 1.0, 1.08883)
TO_XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))

Vector = tuple[float, ...]


def linear(color: str) -> Vector:
    parts = [int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    return tuple(part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)


def multiply(matrix: tuple[Vector, ...], vector: Vector) -> Vector:
    return tuple(sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix)


def contrast(first: str, second: str) -> float:
    """Return the contrast of two colours as WCAG defines it."""
    low, high = sorted(
        0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue in map(linear, (first, second))
    )
    return (high + 0.05) / (low + 0.05)


def lab(color: str, vision: str) -> Vector:
    rgb = tuple(min(max(part, 0.0), 1.0) for part in multiply(VISION[vision], linear(color)))
    x, y, z = (
        value ** (1 / 3) if value > 216 / 24389 else (24389 / 27 * value + 16) / 116
        for value in (part / white for part, white in zip(multiply(TO_XYZ, rgb), WHITE_POINT, strict=True))
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def least_difference(colors: tuple[str, ...]) -> float:
    """Return the least difference (delta E 76) of two colours, for any colour vision."""
    return min(
        math.dist(lab(first, vision), lab(second, vision))
        for vision in VISION
        for first, second in itertools.combinations(colors, 2)
    )


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_of_pages_has_enough_contrast(theme: Theme):
    for color in (theme.text, theme.muted, theme.accent, theme.good, theme.warning, theme.bad):
        assert contrast(color, theme.page) >= 4.5
        assert contrast(color, theme.panel) >= 4.5


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_curves_stand_out_and_can_be_distinguished(theme: Theme):
    assert all(contrast(color, theme.page) >= 3 for color in theme.series)
    assert least_difference(theme.series) >= 12


def test_shapes_of_prov_have_readable_text():
    for paint in (ENTITY, ACTIVITY, AGENT):
        assert contrast(INK, paint.fill) >= 7


def test_roles_of_a_dataflow_are_distinguished():
    assert least_difference(("#009e73", "#0072b2", "#d55e00")) >= 12
    for fill in ("#7fd6ba", "#9fd0ee", "#f6b98f"):
        assert contrast(INK, fill) >= 7
