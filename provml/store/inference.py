"""Materialise what follows from the graphs of a store, by RDFS and the rules of OWL 2 RL, into a graph of its own.

The hierarchy of classes and properties is closed in Python. The rules about individuals are SPARQL queries over a copy
of all graphs as one, which return only what is new. They are repeated until nothing is, and a rule is left out of a
round if nothing that it looks at was new in the last one. No triple that another graph has is written.

Left out on purpose: what holds of everything (`a owl:Thing`, `a rdfs:Resource`, a class below itself), hasKey,
datatypes, and contradictions, which `provml validate --owl` finds.
"""

from __future__ import annotations

import contextlib
import gc
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import pyoxigraph as ox

from provml.errors import QueryError
from provml.rdf.namespaces import OWL, RDF, RDF_TYPE, RDFS

MAX_INFERRED = 20_000_000
"""Triples that are inferred at most."""
MAX_IN_MEMORY = 2_000_000
"""Triples that are copied into memory at most; they take about a gigabyte."""
ROWS_PER_QUERY = 2000
"""Pairs of terms in one query."""
TRIVIAL = frozenset((f"{OWL}Thing", f"{RDFS}Resource", f"{RDFS}Literal", f"{RDFS}Class", f"{OWL}Class"))
"""Classes whose members are not inferred."""

_TYPE = ox.NamedNode(RDF_TYPE)
_SAME = ox.NamedNode(f"{OWL}sameAs")

Node = ox.NamedNode | ox.BlankNode
Pairs = set[tuple[Any, Any]]


def materialize(store: ox.Store, target: ox.NamedNode) -> int:
    """Replace the content of a graph by what follows from all others; return the number of triples."""
    store.clear_graph(target)
    with contextlib.ExitStack() as stack:
        merged = _merged(store, stack)
        inferred = infer(merged)
        del merged
        gc.collect()
    store.bulk_extend(ox.Quad(triple.subject, triple.predicate, triple.object, target) for triple in inferred)
    return len(inferred)


def _merged(store: ox.Store, stack: contextlib.ExitStack) -> ox.Store:
    """Return a copy of all graphs as one: in memory, where it is several times as fast, or in a temporary folder."""
    merged = ox.Store()
    if len(store) > MAX_IN_MEMORY:
        merged = ox.Store(stack.enter_context(tempfile.TemporaryDirectory(prefix="provml-inference-")))
    merged.bulk_extend(ox.Quad(quad.subject, quad.predicate, quad.object) for quad in store)
    return merged


def infer(graph: ox.Store) -> list[ox.Triple]:
    """Add all that follows to a graph, and return it."""
    schema = Schema(graph)
    inferred = _add(graph, schema.hierarchy())
    rules = list(schema.rules())
    changed: set[str] | None = None
    while True:
        new: set[ox.Triple] = set()
        for rule in rules:
            if changed is None or changed & rule.reads:
                new.update(rule.apply(graph))
        fresh = _add(graph, new)
        if not fresh:
            return inferred
        inferred += fresh
        if len(inferred) > MAX_INFERRED:
            advice = "Ask without inference, or unload the ontology that implies them."
            raise QueryError(f"more than {MAX_INFERRED:,} triples can be inferred", advice)
        changed = {ANY}
        for triple in fresh:
            term = triple.object if triple.predicate == _TYPE else triple.predicate
            changed.add(getattr(term, "value", ""))


ANY = "*"
"""What a rule reads that looks at every triple."""


def _add(graph: ox.Store, triples: Iterable[ox.Triple]) -> list[ox.Triple]:
    """Add triples, and return those that are new."""
    quads = {ox.Quad(triple.subject, triple.predicate, triple.object) for triple in triples}
    new = [quad for quad in quads if quad not in graph]
    graph.bulk_extend(new)
    return [quad.triple for quad in new]


# ---- rules


@dataclass(frozen=True)
class Rule:
    """A query whose rows are new triples, and the classes and properties that it reads."""

    reads: frozenset[str]
    where: str
    subject: Any
    predicate: Any
    object: Any

    def apply(self, graph: ox.Store) -> Iterator[ox.Triple]:
        """Yield the triples that follow and that the graph does not have."""
        terms = (self.subject, self.predicate, self.object)
        names = [term for term in dict.fromkeys(terms) if isinstance(term, str)]
        head = " ".join(f"?{term}" if isinstance(term, str) else str(term) for term in terms)
        text = f"SELECT DISTINCT {' '.join(f'?{n}' for n in names)} {{ {self.where} FILTER NOT EXISTS {{ {head} }} }}"
        rows: Any = graph.query(text)
        for row in rows:
            subject, predicate, value = (row[term] if isinstance(term, str) else term for term in terms)
            if not isinstance(subject, ox.Literal):
                yield ox.Triple(subject, predicate, value)


def _chunks(pairs: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    rows = sorted(pairs, key=str)
    for start in range(0, len(rows), ROWS_PER_QUERY):
        yield rows[start : start + ROWS_PER_QUERY]


def _table(names: str, pairs: Iterable[tuple[Any, ...]]) -> Iterator[tuple[frozenset[str], str]]:
    """Yield what is read (the first of each pair) and the rows of VALUES."""
    for rows in _chunks(pairs):
        values = " ".join(f"({' '.join(map(str, row))})" for row in rows)
        yield frozenset(row[0].value for row in rows), f"VALUES ({names}) {{ {values} }}"


class Schema:
    """The classes, properties and class expressions of all graphs."""

    def __init__(self, store: ox.Store) -> None:
        self.store = store
        self.classes = self._closure(self._class_edges())
        self.properties = self._closure(self._property_edges())

    def pairs(self, *names: str) -> Pairs:
        """Return the subjects and objects of some properties of the schema."""
        quads = (quad for name in names for quad in self.store.quads_for_pattern(None, ox.NamedNode(name), None))
        return {(quad.subject, quad.object) for quad in quads if not isinstance(quad.object, ox.Literal)}

    def instances(self, *names: str) -> set[Any]:
        """Return the members of some classes of the schema."""
        classes = (ox.NamedNode(name) for name in names)
        return {quad.subject for name in classes for quad in self.store.quads_for_pattern(None, _TYPE, name)}

    def members(self, head: Any) -> list[Any]:
        """Return the items of an RDF list; a list that is broken or contains itself ends there."""
        items, visited = [], set()
        while head not in visited and not isinstance(head, ox.Literal):
            visited.add(head)
            first = next(self.store.quads_for_pattern(head, ox.NamedNode(f"{RDF}first"), None), None)
            rest = next(self.store.quads_for_pattern(head, ox.NamedNode(f"{RDF}rest"), None), None)
            if first is None or rest is None:
                break
            items.append(first.object)
            head = rest.object
        return items

    def value(self, node: Any, name: str) -> Any:
        """Return an object of a node; None if there is none."""
        quad = next(self.store.quads_for_pattern(node, ox.NamedNode(name), None), None)
        return None if quad is None else quad.object

    # ---- hierarchy

    def _class_edges(self) -> Pairs:
        edges = self.pairs(f"{RDFS}subClassOf")
        equal = self.pairs(f"{OWL}equivalentClass")
        edges |= equal | {(b, a) for a, b in equal}
        for node, head in self.pairs(f"{OWL}intersectionOf"):
            edges |= {(node, member) for member in self.members(head)}
        for node, head in self.pairs(f"{OWL}unionOf", f"{OWL}disjointUnionOf"):
            edges |= {(member, node) for member in self.members(head)}
        return edges

    def _property_edges(self) -> Pairs:
        edges = self.pairs(f"{RDFS}subPropertyOf")
        equal = self.pairs(f"{OWL}equivalentProperty")
        return edges | equal | {(b, a) for a, b in equal}

    @staticmethod
    def _closure(edges: Pairs) -> dict[Any, set[Any]]:
        """Return all nodes above each node."""
        above: dict[Any, set[Any]] = {}
        for low, high in edges:
            above.setdefault(low, set()).add(high)
        closed = {}
        for node in above:
            reached: set[Any] = set()
            stack = [node]
            while stack:
                for high in above.get(stack.pop(), ()):
                    if high not in reached:
                        reached.add(high)
                        stack.append(high)
            closed[node] = reached - {node}
        return closed

    def above(self, node: Any) -> set[ox.NamedNode]:
        """Return the named classes that a class, or a class expression, is below or is."""
        nodes = {node, *self.classes.get(node, ())}
        return {item for item in nodes if isinstance(item, ox.NamedNode) and item.value not in TRIVIAL}

    def hierarchy(self) -> Iterator[ox.Triple]:
        """Yield the closed hierarchy of named classes and properties."""
        for name, closed in (("subClassOf", self.classes), ("subPropertyOf", self.properties)):
            predicate = ox.NamedNode(f"{RDFS}{name}")
            for low, highs in closed.items():
                for high in highs:
                    if isinstance(low, ox.NamedNode) and isinstance(high, ox.NamedNode) and high.value not in TRIVIAL:
                        yield ox.Triple(low, predicate, high)

    # ---- rules

    def rules(self) -> Iterator[Rule]:
        """Yield all rules."""
        for make in (self._membership, self._property_rules, self._expressions, self._restrictions, self._identity):
            yield from make()

    def _membership(self) -> Iterator[Rule]:
        """Classes: members of a class are members of those above; domains and ranges."""
        below = {
            (low, high) for low in self.classes if isinstance(low, ox.NamedNode) for high in self.above(low) - {low}
        }
        for reads, values in _table("?c ?d", below):
            yield Rule(reads, f"{values} ?s a ?c", "s", _TYPE, "d")
        domains = {(p, c) for p, node in self.pairs(f"{RDFS}domain") for c in self.above(node)}
        for reads, values in _table("?p ?d", self._named(domains)):
            yield Rule(reads, f"{values} ?s ?p ?o", "s", _TYPE, "d")
        ranges = {(p, c) for p, node in self.pairs(f"{RDFS}range") for c in self.above(node)}
        for reads, values in _table("?p ?d", self._named(ranges)):
            yield Rule(reads, f"{values} ?o ?p ?s FILTER(!isLiteral(?s))", "s", _TYPE, "d")
        for node, head in self.pairs(f"{OWL}oneOf"):
            members = [member for member in self.members(head) if not isinstance(member, ox.Literal)]
            for _, values in _table("?s ?d", {(member, c) for member in members for c in self.above(node)}):
                yield Rule(frozenset(), values, "s", _TYPE, "d")

    @staticmethod
    def _named(pairs: Iterable[tuple[Any, Any]]) -> Pairs:
        return {pair for pair in pairs if all(isinstance(item, ox.NamedNode) for item in pair)}

    def _property_rules(self) -> Iterator[Rule]:
        """Properties: those above, inverse, symmetric and transitive ones, and chains."""
        below = self._named((low, high) for low, highs in self.properties.items() for high in highs)
        named = {high for _, high in below}
        for reads, values in _table("?p ?q", below):
            yield Rule(reads, f"{values} ?s ?p ?o", "s", "q", "o")
        inverse = self._named(self.pairs(f"{OWL}inverseOf"))
        inverse |= {(b, a) for a, b in inverse}
        for low, highs in self.properties.items():  # p below the inverse of q
            inverse |= self._named((low, self.value(high, f"{OWL}inverseOf")) for high in highs if high not in named)
        symmetric = self.instances(f"{OWL}SymmetricProperty")
        inverse |= self._named((p, p) for p in symmetric)
        for reads, values in _table("?p ?q", inverse):
            yield Rule(reads, f"{values} ?o ?p ?s FILTER(!isLiteral(?s))", "s", "q", "o")
        for p in self.instances(f"{OWL}TransitiveProperty"):
            if isinstance(p, ox.NamedNode):
                yield Rule(frozenset({p.value}), f"?s {p} ?m . ?m {p} ?o FILTER(?s != ?o)", "s", p, "o")
        for p, head in self.pairs(f"{OWL}propertyChainAxiom"):
            chain = self.members(head)
            if isinstance(p, ox.NamedNode) and len(chain) > 1 and all(isinstance(q, ox.NamedNode) for q in chain):
                path = "/".join(map(str, chain))
                yield Rule(frozenset(q.value for q in chain), f"?s {path} ?o", "s", p, "o")

    def _expressions(self) -> Iterator[Rule]:
        """Class expressions: who fulfils one is a member of the classes above it."""
        nodes = {node for node, _ in self.pairs(f"{OWL}onProperty", f"{OWL}intersectionOf")}
        for node in nodes:
            targets = self.above(node)
            condition = Condition(self)
            where = condition.pattern(node, "?s") if targets else None
            for target in targets if where else ():
                yield Rule(frozenset(condition.reads), str(where), "s", _TYPE, target)

    def _restrictions(self) -> Iterator[Rule]:
        """Members of a class below `p only C` have values in C, below `p value v` v, and below `p Self` themselves."""
        ranges = self.pairs(f"{RDFS}range")
        for node, p in self.pairs(f"{OWL}onProperty"):
            only, value = self.value(node, f"{OWL}allValuesFrom"), self.value(node, f"{OWL}hasValue")
            has_self = getattr(self.value(node, f"{OWL}hasSelf"), "value", "") == "true"
            if not isinstance(p, ox.NamedNode) or (only is None and value is None and not has_self):
                continue
            members = {low for low, highs in self.classes.items() if node in highs and isinstance(low, ox.NamedNode)}
            implied = {c for q, node in ranges if q in (p, *self.properties.get(p, ())) for c in self.above(node)}
            for reads, values in _table("?c", {(low,) for low in members}):
                for target in self.above(only) - implied if only is not None else ():
                    where = f"?m {p} ?s {values} ?m a ?c FILTER(!isLiteral(?s))"
                    yield Rule(reads | {p.value}, where, "s", _TYPE, target)
                if value is not None or has_self:
                    yield Rule(reads, f"{values} ?s a ?c", "s", p, "s" if value is None else value)

    def _identity(self) -> Iterator[Rule]:
        """Functional properties imply owl:sameAs, which is symmetric and transitive, and shares all triples."""
        unequal = "FILTER(?s != ?o && !isLiteral(?s) && !isLiteral(?o))"
        for p in self.instances(f"{OWL}FunctionalProperty"):
            if isinstance(p, ox.NamedNode):
                yield Rule(frozenset({p.value}), f"?m {p} ?s, ?o {unequal}", "s", _SAME, "o")
        for p in self.instances(f"{OWL}InverseFunctionalProperty"):
            if isinstance(p, ox.NamedNode):
                yield Rule(frozenset({p.value}), f"?s {p} ?m . ?o {p} ?m {unequal}", "s", _SAME, "o")
        same = frozenset({_SAME.value})
        yield Rule(same, f"?o {_SAME} ?s", "s", _SAME, "o")
        yield Rule(same, f"?s {_SAME} ?m . ?m {_SAME} ?o FILTER(?s != ?o)", "s", _SAME, "o")
        everything = frozenset({_SAME.value, ANY})
        yield Rule(everything, f"?m {_SAME} ?s . ?m ?p ?o FILTER(?p != {_SAME})", "s", "p", "o")
        yield Rule(everything, f"?m {_SAME} ?o . ?s ?p ?m FILTER(?p != {_SAME})", "s", "p", "o")


class Condition:
    """A class expression as a pattern of SPARQL, and the classes and properties that it reads."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.reads: set[str] = set()
        self.variables = count()

    def pattern(self, node: Any, variable: str, depth: int = 0) -> str | None:
        """Return the pattern that members match; None if OWL 2 RL does not derive members of the expression."""
        if isinstance(node, ox.NamedNode):
            self.reads.add(node.value)
            return "" if node.value in TRIVIAL else f"{variable} a {node} ."
        if depth > 10 or not isinstance(node, ox.BlankNode):
            return None
        parts: tuple[tuple[str, Callable[[list[Any], str, int], str | None]], ...] = (
            ("intersectionOf", self._all),
            ("unionOf", self._any),
        )
        for name, build in parts:
            head = self.schema.value(node, f"{OWL}{name}")
            if head is not None:
                return build(self.schema.members(head), variable, depth + 1)
        return self._restriction(node, variable, depth)

    def _all(self, members: list[Any], variable: str, depth: int) -> str | None:
        patterns = [self.pattern(member, variable, depth) for member in members]
        return None if not patterns or None in patterns else " ".join(filter(None, patterns)) or None

    def _any(self, members: list[Any], variable: str, depth: int) -> str | None:
        patterns = [pattern for member in members if (pattern := self.pattern(member, variable, depth))]
        return " UNION ".join(f"{{ {pattern} }}" for pattern in patterns) or None

    def _restriction(self, node: Any, variable: str, depth: int) -> str | None:
        p = self.schema.value(node, f"{OWL}onProperty")
        some, value = (self.schema.value(node, f"{OWL}{name}") for name in ("someValuesFrom", "hasValue"))
        if not isinstance(p, ox.NamedNode):
            return None
        self.reads.add(p.value)
        if value is not None:
            return f"{variable} {p} {value} ." if not isinstance(value, ox.BlankNode) else None
        if some is None:
            return None
        inner = f"?v{next(self.variables)}"
        rest = self.pattern(some, inner, depth + 1)
        return None if rest is None else f"{variable} {p} {inner} . {rest}"
