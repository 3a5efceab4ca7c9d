"""The shapes graph: statements of shape files by subject and predicate, with checked access to values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import pyoxigraph as ox

from provml.errors import FileFormatError
from provml.rdf.namespaces import RDF, SH, XSD
from provml.rdf.parse_file import ParsedFile
from provml.validation.datatypes import preserve, restore

INTEGER = f"{XSD}integer"
COUNTS = {ox.NamedNode(f"{SH}{name}") for name in ("minCount", "maxCount", "qualifiedMinCount", "qualifiedMaxCount",
                                                   "minLength", "maxLength")}  # fmt: skip
"""Parameters that take an xsd:integer; Oxigraph converts the types derived from it."""
NUMERIC_TRUE = ox.Literal("1", datatype=ox.NamedNode(f"{XSD}boolean"))
UNIQUE_LANG = ox.NamedNode(f"{SH}uniqueLang")


class ShapesGraph:
    """The statements of shape files. Terms are normalized as those of the data, so that equal values are equal terms.

    Names without a colon are those of the SHACL namespace.
    """

    def __init__(self) -> None:
        self.statements: dict[Any, dict[str, list[Any]]] = {}
        self.files: dict[Any, str] = {}
        self._subjects_by_value: dict[str, dict[Any, list[Any]]] = {}

    def load(self, path: Path) -> None:
        """Add the statements of a file."""
        store = ox.Store()
        store.extend(
            ox.Quad(quad.subject, quad.predicate, quad.object if quad.predicate in COUNTS else preserve(quad.object))
            for quad in _parse(path)
            # SHACL ignores sh:uniqueLang "1", and Oxigraph does not distinguish it from `true`
            if not (quad.predicate == UNIQUE_LANG and quad.object == NUMERIC_TRUE)
        )
        for quad in store:
            self.files.setdefault(quad.subject, str(path))
            values = self.statements.setdefault(quad.subject, {}).setdefault(quad.predicate.value, [])
            value = restore(quad.object)
            if value not in values:
                values.append(value)

    def error(self, node: Any, reason: str, advice: str) -> FileFormatError:
        """Return an error about a shape, with its name and file."""
        text = str(node)
        name = "an unnamed shape" if text.startswith("_:") else f"the shape {text}"
        if text.startswith("_:"):
            for predicate in self.values(node, "path"):
                name = f"the property shape for {predicate}"
        return FileFormatError(f"{name} {reason}", advice, file=self.file_of(node))

    def file_of(self, node: Any) -> str:
        """Return the file that describes a node."""
        return self.files.get(node, "shapes")

    def values(self, node: Any, name: str) -> list[Any]:
        """Return the values of a property, sorted to be the same on each run."""
        return sorted(self.statements.get(node, {}).get(_iri(name), ()), key=str)

    def value(self, node: Any, name: str) -> Any:
        """Return the only value of a property, or None."""
        values = self.values(node, name)
        if len(values) > 1:
            raise self.error(node, f"has {len(values)} values of sh:{name}", "Keep one.")
        return values[0] if values else None

    def integer(self, node: Any, name: str) -> int | None:
        """Return the value of a property as a non-negative integer, or None."""
        value = self.value(node, name)
        if value is None:
            return None
        is_integer = isinstance(value, ox.Literal) and value.datatype.value == INTEGER
        if not is_integer or not re.fullmatch("[0-9]{1,18}", value.value):
            raise self.error(node, f"has {value} for sh:{name}", "Use a non-negative integer.")
        return int(value.value)

    def boolean(self, node: Any, name: str) -> bool:
        """Return the value of a property as a boolean; False if it is not set."""
        value = self.value(node, name)
        if value is not None and (not isinstance(value, ox.Literal) or value.value not in ("true", "false")):
            raise self.error(node, f"has {value} for sh:{name}", "Use true or false.")
        return value is not None and value.value == "true"

    def subjects(self, name: str, value: Any = None) -> list[Any]:
        """Return the nodes with a property, or with a certain value of it."""
        predicate = _iri(name)
        if predicate not in self._subjects_by_value:
            subjects_by_value = self._subjects_by_value[predicate] = dict[Any, list[Any]]()
            for node, statements in self.statements.items():
                for term in statements.get(predicate, ()):
                    subjects_by_value.setdefault(term, []).append(node)
        index = self._subjects_by_value[predicate]
        return list(dict.fromkeys(chain(*index.values()))) if value is None else index.get(value, [])

    def list_members(self, owner: Any, node: Any, name: str) -> list[Any]:
        """Return the members of an RDF list that a shape (`owner`) uses for a property."""
        members: list[Any] = []
        visited: set[Any] = set()
        while node != ox.NamedNode(f"{RDF}nil"):
            first, rest = self.values(node, f"{RDF}first"), self.values(node, f"{RDF}rest")
            if len(first) != 1 or len(rest) != 1 or node in visited:
                raise self.error(owner, f"has a value of sh:{name} that is not a list", f"Write sh:{name} ( … ).")
            visited.add(node)
            members += first
            node = rest[0]
        return members


def triples_of(statements: Mapping[Any, Mapping[str, list[Any]]]) -> Iterator[ox.Triple]:
    """Iterate over statements by subject and predicate as triples."""
    for subject, properties in statements.items():
        for predicate, values in properties.items():
            for value in values:
                yield ox.Triple(subject, ox.NamedNode(predicate), value)


def _iri(name: str) -> str:
    return name if ":" in name else SH + name


def _parse(path: Path) -> list[ox.Quad]:
    rdf_format = ox.RdfFormat.from_extension(path.suffix[1:])
    if rdf_format is None:
        reason = f"unknown RDF file extension {path.suffix!r}"
        raise FileFormatError(reason, "Write shapes in Turtle.", file=str(path))
    return list(ParsedFile(path, rdf_format, base_iri=path.absolute().as_uri(), rename_blank_nodes=True))
