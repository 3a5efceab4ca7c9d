"""Random small graphs and shapes in Turtle, with few names, so that shapes apply to nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

PREFIXES = """@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix : <http://example.org/> .
"""
NODES = [":a", ":b", ":c", ":d", "_:x", "_:y"]
CLASSES = [":A", ":B", ":C"]
PREDICATES = [":p", ":q", ":r"]
NUMBERS = ["1", "2", "3", "2.5", '"1"^^xsd:double', '"-4"^^xsd:integer', '"2"^^xsd:int', '"3"^^xsd:unsignedByte']
TEXTS = ['"one"', '"two"', '""', '"one"@en', '"uno"@es', '"One"@en', '"two"@en-gb']
OTHERS = ['"x"^^xsd:integer', '"2020-01-01"^^xsd:date', '"2020-13-01"^^xsd:date', "true",
          '"2023-02-30"^^xsd:date', '"1"^^:own', '"2020-01-01T00:00:00Z"^^xsd:dateTime',
          '"99999999999999999999"^^xsd:integer', '"2020-01-01T00:00:00Z"^^xsd:dateTimeStamp']  # fmt: skip
DATATYPES = ["xsd:integer", "xsd:string", "xsd:decimal", "xsd:double", "xsd:boolean", "xsd:date", "xsd:dateTime",
             ":own", "rdf:langString", "xsd:int", "xsd:dateTimeStamp"]  # fmt: skip
KINDS = ["IRI", "BlankNode", "Literal", "BlankNodeOrIRI", "IRIOrLiteral"]
PATTERNS = ['"^o"', '"^O" ; sh:flags "i"', '"(o).*\\\\1"', '"[0-9]"', '"e$"']
LIMITS = ["minInclusive", "maxInclusive", "minExclusive", "maxExclusive"]
LANGUAGES = ['"en"', '"es" "en"']
TARGET_NODES = [*NODES[:4], ":nowhere", '"one"', "1", '"2"^^xsd:int']
VALUES = [*NODES[:4], *NUMBERS[:4], NUMBERS[-2], *TEXTS, *OTHERS]


@st.composite
def graphs(draw: st.DrawFn, values: Sequence[str] = (*NODES, *NUMBERS, *TEXTS, *OTHERS)) -> str:
    """Some triples about a few nodes, their classes, and a class hierarchy that may be cyclic."""

    def rows(max_size: int, *columns: Sequence[str]) -> list[str]:
        terms = st.tuples(*(st.sampled_from(column) for column in columns))
        return [f"{' '.join(row)} ." for row in draw(st.lists(terms, max_size=max_size))]

    lines = rows(16, NODES, PREDICATES, values)
    lines += rows(5, NODES, ["a"], CLASSES)
    lines += rows(2, CLASSES, ["rdfs:subClassOf"], CLASSES)
    return PREFIXES + "\n".join(lines)


class ShapeGenerator:
    """Draws the parts of a shapes graph."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def choose(self, options: Sequence[str]) -> str:
        return self.draw(st.sampled_from(options))

    def number(self, lower: int, upper: int) -> int:
        return self.draw(st.integers(lower, upper))

    def path(self, depth: int) -> str:
        kind = self.number(0, 6) if depth else 0
        if kind <= 1:
            return self.choose(PREDICATES)
        if kind == 2:
            return f"( {self.path(depth - 1)} {self.path(depth - 1)} )"
        if kind == 3:
            return f"[ sh:alternativePath ( {self.path(depth - 1)} {self.path(depth - 1)} ) ]"
        name = self.choose(["inversePath", "zeroOrMorePath", "oneOrMorePath", "zeroOrOnePath"])
        return f"[ sh:{name} {self.path(depth - 1)} ]"

    def test(self, depth: int) -> str:
        """A constraint on each value."""
        plain: list[Callable[[], str]] = [
            lambda: f"sh:class {self.choose(CLASSES)}",
            lambda: f"sh:datatype {self.choose(DATATYPES)}",
            lambda: f"sh:nodeKind sh:{self.choose(KINDS)}",
            lambda: f"sh:{self.choose(LIMITS)} {self.choose(NUMBERS)}",
            lambda: f"sh:{self.choose(['minLength', 'maxLength'])} {self.number(1, 4)}",
            lambda: f"sh:pattern {self.choose(PATTERNS)}",
            lambda: f"sh:languageIn ( {self.choose(LANGUAGES)} )",
            lambda: f"sh:in ( {' '.join(self.choose(VALUES) for _ in range(self.number(1, 3)))} )",
        ]
        nested: list[Callable[[], str]] = [
            lambda: f"sh:not {self.shape(depth - 1)}",
            lambda: f"sh:node [ {self.node_body(depth - 1)} ]",
            lambda: f"sh:{self.choose(['and', 'or', 'xone'])} ( {' '.join(self.shape(depth - 1) for _ in range(2))} )",
        ]
        return self.draw(st.sampled_from([*plain, *(nested * 2 if depth else [])]))()

    def whole(self, depth: int) -> str:
        """A constraint on all values of a property together."""
        plain: list[Callable[[], str]] = [
            lambda: f"sh:{self.choose(['minCount', 'maxCount'])} {self.number(0, 4)}",
            lambda: f"sh:{self.choose(['equals', 'disjoint'])} {self.choose(PREDICATES)}",
            lambda: f"sh:hasValue {self.choose(VALUES)}",
            lambda: "sh:uniqueLang true",
        ]
        counts = ["qualifiedMinCount", "qualifiedMaxCount"]
        nested: list[Callable[[], str]] = [
            lambda: f"sh:qualifiedValueShape {self.shape(depth - 1)} ; sh:{self.choose(counts)} {self.number(0, 3)}"
        ]
        return self.draw(st.sampled_from([*plain, *(nested if depth else [])]))()

    def some(self, generators: Sequence[Callable[[], str]]) -> str:
        """One to three parts with different parameters."""
        parts: dict[str, str] = {}
        for _ in range(self.number(1, 3)):
            part = self.draw(st.sampled_from(generators))()
            parts.setdefault(part.split()[0], part)
        return " ; ".join(parts.values())

    def property_shape(self, depth: int) -> str:
        parts = [lambda: self.test(depth), lambda: self.whole(depth)]
        if depth:
            parts.append(lambda: f"sh:property {self.property_shape(depth - 1)}")
        return f"[ sh:path {self.path(2)} ; {self.some(parts)} ]"

    def node_body(self, depth: int) -> str:
        parts = [
            lambda: self.test(depth),
            lambda: f"sh:hasValue {self.choose(VALUES)}",
            lambda: f"sh:equals {self.choose(PREDICATES)}",
            lambda: f"sh:closed true ; sh:ignoredProperties ( {self.choose(PREDICATES)} )",
            lambda: f"sh:property {self.property_shape(max(depth - 1, 0))}",
        ]
        return self.some([*parts, parts[0], parts[-1], parts[-1]])

    def shape(self, depth: int) -> str:
        return self.property_shape(depth) if self.number(0, 1) else f"[ {self.node_body(depth)} ]"

    def target(self) -> str:
        kind = self.number(0, 3)
        if kind == 0:
            return f"sh:targetClass {self.choose(CLASSES)}"
        if kind == 1:
            return f"sh:targetNode {self.choose(TARGET_NODES)}"
        return f"sh:target{'SubjectsOf' if kind == 2 else 'ObjectsOf'} {self.choose(PREDICATES)}"


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, str]:
    """A graph and shapes for it.

    If the shapes have limits, the graph has no literals that SPARQL cannot compare with numbers: pySHACL does compare
    some of them (true is greater than 0, any date is greater than any number).
    """
    shapes = draw(shapes_graphs())
    has_limits = any(f"sh:{limit}" in shapes for limit in LIMITS)
    return draw(graphs((*NODES, *NUMBERS, *TEXTS)) if has_limits else graphs()), shapes


@st.composite
def shapes_graphs(draw: st.DrawFn) -> str:
    """One or two shapes with targets."""
    generator = ShapeGenerator(draw)
    lines = []
    for number in range(generator.number(1, 2)):
        targets = " ; ".join(dict.fromkeys(generator.target() for _ in range(generator.number(1, 2))))
        severity = generator.choose(["", "; sh:severity sh:Warning", "; sh:severity :Own"])
        lines.append(f":Shape{number} a sh:NodeShape ; {targets} ; {generator.node_body(2)} {severity} .")
    return PREFIXES + "\n".join(lines)
