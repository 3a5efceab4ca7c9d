"""Record what a model's training used, did and produced as a W3C PROV knowledge graph, and query it.

`record` begins a run, `open_store` (or `open`) reads the recorded runs. Each part is imported when it is first used.
"""

from typing import TYPE_CHECKING

from provml import errors
from provml.errors import ProvmlError
from provml.model.thing import Thing
from provml.model.values import IRI, Literal, Text

if TYPE_CHECKING:
    from provml import capture, exchange, lake, vocab
    from provml.answers import Answer
    from provml.capture.autolog import autolog
    from provml.journal.redaction import not_secret
    from provml.recording.data import Data
    from provml.recording.run import Run, record
    from provml.repeat import rerun
    from provml.store import Store, open_store
    from provml.validation import Report

    open = open_store  # noqa: A001  # the short form

__version__ = "0.1.0"

__all__ = [
    "IRI",
    "Answer",
    "Data",
    "Literal",
    "ProvmlError",
    "Report",
    "Run",
    "Store",
    "Text",
    "Thing",
    "__version__",
    "autolog",
    "capture",
    "errors",
    "exchange",
    "lake",
    "not_secret",
    "open_store",
    "record",
    "rerun",
    "vocab",
]
"""`open` is left out: `from provml import *` must not replace the builtin."""

_LAZY = {
    "Answer": "provml.answers",
    "Data": "provml.recording.data",
    "Report": "provml.validation",
    "Run": "provml.recording.run",
    "Store": "provml.store",
    "autolog": "provml.capture.autolog",
    "capture": "",
    "exchange": "",
    "lake": "",
    "not_secret": "provml.journal.redaction",
    "open": "provml.store",
    "open_store": "provml.store",
    "record": "provml.recording.run",
    "rerun": "provml.repeat",
    "vocab": "",
}
"""The module that holds each name; a name without one is a package of provml itself."""


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module 'provml' has no attribute {name!r}")
    from importlib import import_module

    if not _LAZY[name]:
        return import_module(f"provml.{name}")
    value: object = getattr(import_module(_LAZY[name]), "open_store" if name == "open" else name)
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "open"])
