"""Record what a model's training used, did and produced as a W3C PROV knowledge graph, and ask it.

The typed classes are in `provml.vocab`, their RDF in `provml.rdf`; both are loaded when you import them.
"""

from provml.errors import ProvmlError
from provml.things import Thing
from provml.values import IRI, Literal, Text

__version__ = "0.1.0"

__all__ = ["IRI", "Literal", "ProvmlError", "Text", "Thing", "__version__"]
