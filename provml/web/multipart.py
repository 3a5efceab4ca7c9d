"""Forms with files (multipart/form-data), as far as graphs need them: the parts of a body, with their headers."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from provml.web.problems import Problem

MAX_PARTS = 100
_BOUNDARY = re.compile(r"boundary=(?:\"([^\"]{1,70})\"|([^\s;\"]{1,70}))", re.IGNORECASE)
_BLANK_LINE = re.compile(rb"\r*\n\r*\n")
_LINE_BREAK = re.compile(rb"\r*\n")


def parse(body: bytes, content_type: str) -> Iterator[tuple[dict[str, str], bytes]]:
    """Yield the headers and the data of each part. Line breaks may be those of any system."""
    match = _BOUNDARY.search(content_type)
    if match is None:
        raise Problem(400, "InvalidForm", "The Content-Type of a form has to have a boundary.")
    boundary = re.escape((match[1] or match[2]).encode("latin-1", "replace"))
    delimiter = re.compile(rb"(?:\A|\r*\n)--" + boundary + rb"(--)?[ \t]*(?=\r*\n|\Z)")
    marks = list(delimiter.finditer(body))
    if not marks or marks[-1][1] is None:
        raise Problem(400, "InvalidForm", "The form has no end: its last line has to be the boundary with `--`.")
    if len(marks) > MAX_PARTS + 1:
        raise Problem(413, "TooManyParts", f"The form has more than {MAX_PARTS} parts.")
    for mark, following in itertools.pairwise(marks):
        start = _LINE_BREAK.match(body, mark.end())
        part = body[start.end() if start is not None else mark.end() : following.start()]
        blank = _BLANK_LINE.search(part)
        if blank is None:
            raise Problem(400, "InvalidForm", "A part of the form has no blank line after its headers.")
        yield _headers(part[: blank.start()]), part[blank.end() :]


def _headers(data: bytes) -> dict[str, str]:
    headers = {}
    for line in _LINE_BREAK.split(data):
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    return headers
