"""References to the data of a run: datasets, files, features and models, and their roles."""

from __future__ import annotations

from functools import cache
from typing import Any

from provml.recording.encoding import to_text

ROLES = ("raw", "training", "validation", "test", "model")
"""Roles that questions ask for; users may pass others."""
SIMILARITY = 0.76
"""Similarity from which a role looks misspelt: 'train' is similar to 'training', 'text' is not to 'test'."""


class Data:
    """A dataset, a file, a set of features or a model of a run. `ref` is empty if it could not be recorded.

    `run_id` is the run that recorded it. Another run can use it too: a child run uses the data of its parent.
    """

    __slots__ = ("kind", "name", "path", "ref", "role", "run_id", "sha256")

    def __init__(
        self, ref: str, kind: str, name: str, *, role: str = "", path: str = "", sha256: str = "", run_id: str = ""
    ) -> None:
        self.ref = ref
        self.run_id = run_id
        self.kind = kind
        self.name = name
        self.role = role
        self.path = path
        self.sha256 = sha256

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}>"


def check_role(role: Any) -> str:
    """Return a role as text; log one that looks like a misspelling of a role that questions ask for."""
    text = to_text(role)
    if text and text not in ROLES:
        _warn_unknown_role(text)
    return text


@cache
def _warn_unknown_role(role: str) -> None:
    from difflib import get_close_matches

    candidates = [candidate for candidate in ROLES if candidate[0] == role[0].lower()]
    suggestions = get_close_matches(role.lower(), candidates, 1, SIMILARITY)
    if suggestions:
        import logging

        message = "provml: unknown role %r. Did you mean %r? Questions ask for that role; yours is recorded unchanged."
        logging.getLogger("provml").warning(message, role, suggestions[0])
