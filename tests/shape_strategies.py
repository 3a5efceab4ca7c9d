"""Random small graphs and shapes, as Turtle: few names, so that they meet."""

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
NUMBERS = ["1", "2", "3", "2.5", '"1"^^xsd:double', '"-4"^^xsd:integer']
TEXTS = ['"one"', '"two"', '""', '"one"@en', '"uno"@es', '"One"@en', '"two"@en-gb']
OTHERS = ['"x"^^xsd:integer', '"2020-01-01"^^xsd:date', '"2020-13-01"^^xsd:date', "true",
          '"2023-02-30"^^xsd:date', '"1"^^:own', '"2020-01-01T00:00:00Z"^^xsd:dateTime',
          '"99999999999999999999"^^xsd:integer']  # fmt: skip
DATATYPES = ["xsd:integer", "xsd:string", "xsd:decimal", "xsd:double", "xsd:boolean", "xsd:date", "xsd:dateTime",
             ":own", "rdf:langString"]  # fmt: skip
KINDS = ["IRI", "BlankNode", "Literal", "BlankNodeOrIRI", "IRIOrLiteral"]
PATTERNS = ['"^o"', '"^O" ; sh:flags "i"', '"(o).*\\\\1"', '"[0-9]"', '"e$"']
LIMITS = ["minInclusive", "maxInclusive", "minExclusive", "maxExclusive"]
LANGUAGES = ['"en"', '"es" "en"']
AIMED = [*NODES[:4], ":nowhere", '"one"', "1"]
VALUES = [*NODES[:4], *NUMBERS[:4], *TEXTS, *OTHERS]


@st.composite
def graphs(draw: st.DrawFn, values: Sequence[str] = (*NODES, *NUMBERS, *TEXTS, *OTHERS)) -> str:
    """Some triples about a few nodes, their classes, and a class hierarchy, which may go round."""

    def some(most: int, *columns: Sequence[str]) -> list[str]:
        rows = st.lists(st.tuples(*(st.sampled_from(column) for column in columns)), max_size=most)
        return [f"{' '.join(row)} ." for row in draw(rows)]

    lines = some(16, NODES, PREDICATES, values)
    lines += some(5, NODES, ["a"], CLASSES)
    lines += some(2, CLASSES, ["rdfs:subClassOf"], CLASSES)
    return PREFIXES + "\n".join(lines)


class Drawn:
    """A shapes graph while it is drawn."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def one(self, of: Sequence[str]) -> str:
        return self.draw(st.sampled_from(of))

    def number(self, least: int, most: int) -> int:
        return self.draw(st.integers(least, most))

    def path(self, depth: int) -> str:
        kind = self.number(0, 6) if depth else 0
        if kind <= 1:
            return self.one(PREDICATES)
        if kind == 2:
            return f"( {self.path(depth - 1)} {self.path(depth - 1)} )"
        if kind == 3:
            return f"[ sh:alternativePath ( {self.path(depth - 1)} {self.path(depth - 1)} ) ]"
        name = self.one(["inversePath", "zeroOrMorePath", "oneOrMorePath", "zeroOrOnePath"])
        return f"[ sh:{name} {self.path(depth - 1)} ]"

    def test(self, depth: int) -> str:
        """Something that is asked of each value."""
        plain: list[Callable[[], str]] = [
            lambda: f"sh:class {self.one(CLASSES)}",
            lambda: f"sh:datatype {self.one(DATATYPES)}",
            lambda: f"sh:nodeKind sh:{self.one(KINDS)}",
            lambda: f"sh:{self.one(LIMITS)} {self.one(NUMBERS)}",
            lambda: f"sh:{self.one(['minLength', 'maxLength'])} {self.number(1, 4)}",
            lambda: f"sh:pattern {self.one(PATTERNS)}",
            lambda: f"sh:languageIn ( {self.one(LANGUAGES)} )",
            lambda: f"sh:in ( {' '.join(self.one(VALUES) for _ in range(self.number(1, 3)))} )",
        ]
        nested: list[Callable[[], str]] = [
            lambda: f"sh:not {self.shape(depth - 1)}",
            lambda: f"sh:node [ {self.node_body(depth - 1)} ]",
            lambda: f"sh:{self.one(['and', 'or', 'xone'])} ( {' '.join(self.shape(depth - 1) for _ in range(2))} )",
        ]
        return self.draw(st.sampled_from([*plain, *(nested * 2 if depth else [])]))()

    def whole(self, depth: int) -> str:
        """Something that is asked of all values of a property together."""
        plain: list[Callable[[], str]] = [
            lambda: f"sh:{self.one(['minCount', 'maxCount'])} {self.number(0, 4)}",
            lambda: f"sh:{self.one(['equals', 'disjoint'])} {self.one(PREDICATES)}",
            lambda: f"sh:hasValue {self.one(VALUES)}",
            lambda: "sh:uniqueLang true",
        ]
        counts = ["qualifiedMinCount", "qualifiedMaxCount"]
        nested: list[Callable[[], str]] = [
            lambda: f"sh:qualifiedValueShape {self.shape(depth - 1)} ; sh:{self.one(counts)} {self.number(0, 3)}"
        ]
        return self.draw(st.sampled_from([*plain, *(nested if depth else [])]))()

    def some(self, of: Sequence[Callable[[], str]]) -> str:
        """One to three parts; what SHACL allows once is there once."""
        kept: dict[str, str] = {}
        for _ in range(self.number(1, 3)):
            part = self.draw(st.sampled_from(of))()
            kept.setdefault(part.split()[0], part)
        return " ; ".join(kept.values())

    def property_shape(self, depth: int) -> str:
        parts = [lambda: self.test(depth), lambda: self.whole(depth)]
        if depth:
            parts.append(lambda: f"sh:property {self.property_shape(depth - 1)}")
        return f"[ sh:path {self.path(2)} ; {self.some(parts)} ]"

    def node_body(self, depth: int) -> str:
        parts = [
            lambda: self.test(depth),
            lambda: f"sh:hasValue {self.one(VALUES)}",
            lambda: f"sh:equals {self.one(PREDICATES)}",
            lambda: f"sh:closed true ; sh:ignoredProperties ( {self.one(PREDICATES)} )",
            lambda: f"sh:property {self.property_shape(max(depth - 1, 0))}",
        ]
        return self.some([*parts, parts[0], parts[-1], parts[-1]])

    def shape(self, depth: int) -> str:
        return self.property_shape(depth) if self.number(0, 1) else f"[ {self.node_body(depth)} ]"

    def target(self) -> str:
        kind = self.number(0, 3)
        if kind == 0:
            return f"sh:targetClass {self.one(CLASSES)}"
        if kind == 1:
            return f"sh:targetNode {self.one(AIMED)}"
        return f"sh:target{'SubjectsOf' if kind == 2 else 'ObjectsOf'} {self.one(PREDICATES)}"


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, str]:
    """A graph, and shapes for it.

    Where the shapes have limits, the graph has no literals that SPARQL cannot compare with numbers: pySHACL does
    compare some of them (true is more than 0, any date is more than any number).
    """
    shapes = draw(shapes_graphs())
    compared = any(f"sh:{limit}" in shapes for limit in LIMITS)
    return draw(graphs((*NODES, *NUMBERS, *TEXTS)) if compared else graphs()), shapes


@st.composite
def shapes_graphs(draw: st.DrawFn) -> str:
    """One or two shapes with targets."""
    drawn = Drawn(draw)
    lines = []
    for number in range(drawn.number(1, 2)):
        aimed = " ; ".join(dict.fromkeys(drawn.target() for _ in range(drawn.number(1, 2))))
        severity = drawn.one(["", "; sh:severity sh:Warning", "; sh:severity :Own"])
        lines.append(f":Shape{number} a sh:NodeShape ; {aimed} ; {drawn.node_body(2)} {severity} .")
    return PREFIXES + "\n".join(lines)
