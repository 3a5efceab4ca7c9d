"""Record what a model's training used, did and produced as a W3C PROV knowledge graph, and ask it.

`record` begins a run, `open` reads a home. The typed classes are in `provml.vocab`, their RDF in `provml.rdf`. Each
part is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from provml.errors import ProvmlError
from provml.things import Thing
from provml.values import IRI, Literal, Text

if TYPE_CHECKING:
    from provml.recorder import record
    from provml.store import open_store as open  # noqa: A004  # provml.open reads as what it does

__version__ = "0.1.0"

__all__ = ["IRI", "Literal", "ProvmlError", "Text", "Thing", "__version__", "open", "record"]


def __getattr__(name: str) -> object:
    if name == "record":
        from provml.recorder import record

        return record
    if name == "open":
        from provml.store import open_store

        return open_store
    raise AttributeError(f"module 'provml' has no attribute {name!r}")
