"""The software of a client, from the `User-Agent` header of its requests."""

from __future__ import annotations

import re

PRODUCT = re.compile(r"(?:^|\s)([A-Za-z][\w.-]{0,60})/(\d[\w.+-]{0,40})")
MAX_PRODUCTS = 5


def software_of(user_agent: str) -> dict[str, str]:
    """Return the products of a header with their versions; comments in parentheses do not count."""
    without_comments = re.sub(r"\([^()]*\)", " ", user_agent)
    return dict(PRODUCT.findall(without_comments)[:MAX_PRODUCTS])
