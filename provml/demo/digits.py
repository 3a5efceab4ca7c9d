"""The data of the demo: digits drawn in this file with random colours, shifts and noise, and filters for them."""

from __future__ import annotations

import csv
import random
from pathlib import Path

WIDTH, HEIGHT, COLOURS = 6, 8, 3

DRAWINGS = """
.####.  ..##..  .####.  .####.  #...#.  ######  .####.  ######  .####.  .####.
#....#  .###..  #....#  #....#  #...#.  #.....  #.....  .....#  #....#  #....#
#....#  ...#..  .....#  .....#  #...#.  #.....  #.....  ....#.  #....#  #....#
#....#  ...#..  ....#.  ..###.  ######  #####.  #####.  ...#..  .####.  .#####
#....#  ...#..  ...#..  .....#  ....#.  .....#  #....#  ..#...  #....#  .....#
#....#  ...#..  ..#...  .....#  ....#.  .....#  #....#  ..#...  #....#  .....#
#....#  ...#..  .#....  #....#  ....#.  #....#  #....#  ..#...  #....#  .....#
.####.  .#####  ######  .####.  ....#.  .####.  .####.  ..#...  .####.  .####.
"""

Image = list[float]
"""Brightness values from 0 to 1: three per point (red, green, blue), or one per point after a filter."""


def shapes() -> list[list[list[bool]]]:
    """Return the ten digits as drawn: rows of points, True where there is ink."""
    lines = [line.split() for line in DRAWINGS.strip().splitlines()]
    return [[[char == "#" for char in line[digit]] for line in lines] for digit in range(10)]


def draw(count: int, seed: int) -> list[tuple[Image, int]]:
    """Return `count` images of digits, each with random colours of ink and background, shift and noise."""
    rng, drawings = random.Random(seed), shapes()
    images = []
    for number in range(count):
        digit = number % 10
        ink = [rng.uniform(0.4, 1.0) for _ in range(COLOURS)]
        background = [rng.uniform(0.0, 0.45) for _ in range(COLOURS)]
        shift_x, shift_y = rng.choice((-1, 0, 0, 1)), rng.choice((-1, 0, 0, 1))
        image = []
        for row in range(HEIGHT):
            for column in range(WIDTH):
                y, x = row - shift_y, column - shift_x
                is_ink = 0 <= y < HEIGHT and 0 <= x < WIDTH and drawings[digit][y][x]
                colour = ink if is_ink else background
                image += [round(min(1.0, max(0.0, value + rng.gauss(0.0, 0.18))), 3) for value in colour]
        images.append((image, digit))
    return images


def gray_scale(image: Image) -> Image:
    """Return one brightness per point, with the colours weighted as the eye perceives them."""
    return [
        round(0.299 * red + 0.587 * green + 0.114 * blue, 3)
        for red, green, blue in zip(image[::3], image[1::3], image[2::3], strict=True)
    ]


def contrast(image: Image) -> Image:
    """Return gray values scaled so that the darkest point is 0 and the brightest 1."""
    gray = gray_scale(image)
    darkest, brightest = min(gray), max(gray)
    return [round((value - darkest) / ((brightest - darkest) or 1.0), 3) for value in gray]


FILTERS = {"gray-scale": gray_scale, "contrast": contrast}


def write(images: list[tuple[Image, int]], path: Path) -> Path:
    """Write one line per image to a CSV file, the digit first, and return the path."""
    temporary = path.with_suffix(".part")
    with temporary.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([digit, *image] for image, digit in images)
    temporary.replace(path)
    return path


def read(path: Path) -> list[tuple[Image, int]]:
    """Return the images of a file that `write` has written."""
    with path.open(newline="", encoding="utf-8") as file:
        return [([float(value) for value in line[1:]], int(line[0])) for line in csv.reader(file)]
