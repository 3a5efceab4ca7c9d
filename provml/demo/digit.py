"""The demo's data: digits drawn in this file, then coloured, shifted and blurred by chance, and filters over them."""

from __future__ import annotations

import csv
import random
from pathlib import Path

WIDTH, HEIGHT, COLOURS = 6, 8, 3

DRAWN = """
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
"""The brightness of each point, from 0 to 1: three colours a point, or one after a filter."""


def shapes() -> list[list[list[bool]]]:
    """The ten digits as drawn: rows of points."""
    lines = [line.split() for line in DRAWN.strip().splitlines()]
    return [[[sign == "#" for sign in line[digit]] for line in lines] for digit in range(10)]


def draw(count: int, seed: int) -> list[tuple[Image, int]]:
    """So many digits, each with a colour on a ground, a shift and a noise of its own."""
    chance, drawn = random.Random(seed), shapes()
    images = []
    for number in range(count):
        digit = number % 10
        ink = [chance.uniform(0.4, 1.0) for _ in range(COLOURS)]
        ground = [chance.uniform(0.0, 0.45) for _ in range(COLOURS)]
        right, down = chance.choice((-1, 0, 0, 1)), chance.choice((-1, 0, 0, 1))
        image = []
        for row in range(HEIGHT):
            for column in range(WIDTH):
                y, x = row - down, column - right
                is_ink = 0 <= y < HEIGHT and 0 <= x < WIDTH and drawn[digit][y][x]
                shade = ink if is_ink else ground
                image += [round(min(1.0, max(0.0, value + chance.gauss(0.0, 0.18))), 3) for value in shade]
        images.append((image, digit))
    return images


def gray_scale(image: Image) -> Image:
    """One brightness a point, as the eye weighs the colours."""
    return [
        round(0.299 * red + 0.587 * green + 0.114 * blue, 3)
        for red, green, blue in zip(image[::3], image[1::3], image[2::3], strict=True)
    ]


def contrast(image: Image) -> Image:
    """Gray, with the darkest point at 0 and the brightest at 1, so that the ground does not matter."""
    gray = gray_scale(image)
    least, most = min(gray), max(gray)
    return [round((value - least) / ((most - least) or 1.0), 3) for value in gray]


FILTERS = {"gray-scale": gray_scale, "contrast": contrast}


def write(images: list[tuple[Image, int]], path: Path) -> Path:
    """A file with a line an image, the digit first."""
    part = path.with_suffix(".part")
    with part.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([digit, *image] for image, digit in images)
    part.replace(path)
    return path


def read(path: Path) -> list[tuple[Image, int]]:
    """The images of such a file."""
    with path.open(newline="", encoding="utf-8") as file:
        return [([float(value) for value in line[1:]], int(line[0])) for line in csv.reader(file)]
