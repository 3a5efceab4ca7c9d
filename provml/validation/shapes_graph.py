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
from provml.rdf.positions import Mention, in_turtle, line_of
from provml.validation.datatypes import preserve, restore

INTEGER = f"{XSD}integer"
COUNTS = {ox.NamedNode(f"{SH}{name}") for name in ("minCount", "maxCount", "qualifiedMinCount", "qualifiedMaxCount",
                                                   "minLength", "maxLength")}  # fmt: skip
"""Parameters that take an xsd:integer; Oxigraph converts the types derived from it."""
NUMERIC_TRUE = ox.Literal("1", datatype=ox.NamedNode(f"{XSD}boolean"))
TURTLE_EXTENSIONS = (".ttl", ".shacl", ".nt", ".n3", ".trig")
UNIQUE_LANG = ox.NamedNode(f"{SH}uniqueLang")


class ShapesGraph:
    """The statements of shape files. Terms are normalized as those of the data, so that equal values are equal terms.

    Names without a colon are those of the SHACL namespace.
    """

    def __init__(self) -> None:
        self.statements: dict[Any, dict[str, list[Any]]] = {}
        self.files: dict[Any, str] = {}
        self.prefixes: dict[str, str] = {}
        """The prefixes that the files declare for themselves, which queries may use if they lack others."""
        self.notes: dict[str, None] = {}
        """What was assumed where the shapes are incomplete, in sentences."""
        self._mentions: dict[str, list[Mention]] = {}
        self._subjects_by_value: dict[str, dict[Any, list[Any]]] = {}

    def load(self, path: Path) -> None:
        """Add the statements of a file."""
        store = ox.Store()
        quads = self._parse(path)
        store.extend(
            ox.Quad(quad.subject, quad.predicate, quad.object if quad.predicate in COUNTS else preserve(quad.object))
            for quad in quads
            # SHACL ignores sh:uniqueLang "1", and Oxigraph does not distinguish it from `true`
            if not (quad.predicate == UNIQUE_LANG and quad.object == NUMERIC_TRUE)
        )
        for quad in store:
            self.files.setdefault(quad.subject, str(path))
            values = self.statements.setdefault(quad.subject, {}).setdefault(quad.predicate.value, [])
            value = restore(quad.object)
            if value not in values:
                values.append(value)

    def _parse(self, path: Path) -> list[ox.Quad]:
        """Parse a file; an IRI with a character that IRIs do not allow is taken as it is."""
        rdf_format = ox.RdfFormat.TURTLE if path.suffix == ".shacl" else ox.RdfFormat.from_extension(path.suffix[1:])
        if rdf_format is None:
            reason = f"unknown RDF file extension {path.suffix!r}"
            raise FileFormatError(reason, "Write shapes in Turtle.", file=str(path))
        options: dict[str, Any] = {"base_iri": path.absolute().as_uri(), "rename_blank_nodes": True}
        parsed = ParsedFile(path, rdf_format, **options)
        try:
            quads = list(parsed)
        except FileFormatError as error:
            if "Invalid IRI" not in str(error):
                raise
            parsed = ParsedFile(path, rdf_format, lenient=True, **options)
            quads = list(parsed)
            self.note(f"{path.name}:{error.line}: an IRI has a character that IRIs do not allow; it is taken as it is.")
        self.prefixes |= parsed.prefixes
        return quads

    def note(self, text: str) -> None:
        """Note what was assumed."""
        self.notes[text] = None

    def error(self, node: Any, reason: str, advice: str) -> FileFormatError:
        """Return an error about a shape, with its name, file and line."""
        return FileFormatError(
            f"{self.name_of(node)} {reason}", advice, file=self.file_of(node), line=self.line_of(node)
        )

    def name_of(self, node: Any) -> str:
        """Return the name of a shape in messages."""
        text = str(node)
        if not text.startswith("_:"):
            return f"the shape {text}"
        paths = [str(path) for path in self.values(node, "path") if not isinstance(path, ox.BlankNode)]
        owner = self._owner(node)
        place = f" of {owner}" if owner is not None else ""
        return f"the property shape for {paths[0]}{place}" if paths else f"an unnamed shape{place}"

    def _owner(self, node: Any) -> Any:
        """Return the nearest named subject that refers to an unnamed node."""
        visited = {node}
        queue = [node]
        for current in queue:  # grows while it is iterated
            for subject in self._subjects_of(current):
                if isinstance(subject, ox.NamedNode):
                    return subject
                if subject not in visited:
                    visited.add(subject)
                    queue.append(subject)
        return None

    def _subjects_of(self, value: Any) -> list[Any]:
        return [
            subject
            for subject, statements in self.statements.items()
            if any(value in values for values in statements.values())
        ]

    def line_of(self, node: Any) -> int | None:
        """Return the line of a shape in its file: of its name, of its path, or of the shape that it belongs to."""
        file = self.file_of(node)
        if file not in self._mentions:
            path = Path(file)
            is_turtle = path.suffix in TURTLE_EXTENSIONS and path.is_file()
            self._mentions[file] = list(in_turtle(path.read_text(errors="replace"))) if is_turtle else []
        mentions = self._mentions[file]
        owner = node if isinstance(node, ox.NamedNode) else self._owner(node)
        for predicate in self.values(node, "path"):
            if isinstance(predicate, ox.NamedNode) and not isinstance(node, ox.NamedNode):
                subject = owner.value if owner is not None else None
                return line_of(mentions, predicate.value, f"{SH}path", subject)
        return None if owner is None else line_of(mentions, owner.value, None, None)

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
