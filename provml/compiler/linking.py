"""What follows from an ontology's axioms: the class tree with its equivalents, and who stands above a property."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyoxigraph as ox

from provml.compiler.datarange import ANY_SCALAR, DataRange, data_range, narrowed
from provml.compiler.expression import conjuncts, listed, members, restriction, union
from provml.compiler.schema import ClassTerm, PropertyTerm, Schema, Term
from provml.compiler.source import OWL, RDF, RDFS, SKOS, STANDARD, split
from provml.compiler.terms import PROVLAKE

Up = dict[str, set[str]]

# ---- classes


def link_classes(schema: Schema) -> None:
    """Give every class its place in the tree, its types and all restrictions that hold for it."""
    up: Up = {iri: set() for iri in schema.classes}
    for cls in schema.classes.values():
        _read_superclasses(schema, cls, up)
    reach = {iri: _reach(iri, up) for iri in up}
    _join_equivalents(schema, reach)
    for iri, cls in schema.kept():
        cls.ancestors = frozenset(schema.canonical[other] for other in reach[iri])
    for iri, cls in schema.kept():
        direct = {schema.canonical[other] for own in (iri, *cls.equivalents) for other in up[own]} - {iri}
        inner = {x for x in direct if any(x in schema.classes[y].ancestors for y in direct if y != x)}
        cls.parents = tuple(sorted(direct - inner, key=schema.rank))
        line = [schema.classes[x] for a in sorted(cls.ancestors, key=schema.rank) for x in _group(schema, a)]
        cls.types = tuple(one.iri for one in line if one.iri in cls.ancestors or not one.deprecated)
        cls.restrictions = tuple(dict.fromkeys(r for one in line for r in one.stated))
        cls.matches = tuple(
            sorted(
                n.value
                for p in ("closeMatch", "exactMatch")
                for n in schema.objects(iri, SKOS + p)
                if isinstance(n, ox.NamedNode)
            )
        )
    _link_disjoint(schema)
    _note_unheard(schema, schema.classes, (RDFS + "subClassOf", OWL + "equivalentClass"))


def _group(schema: Schema, iri: str) -> tuple[str, ...]:
    return (iri, *schema.classes[iri].equivalents)


def _read_superclasses(schema: Schema, cls: ClassTerm, up: Up) -> None:
    for stated in schema.axioms(cls, RDFS + "subClassOf"):
        for node in conjuncts(schema.said, stated):
            if not isinstance(node, ox.NamedNode):
                _read_expression(schema, cls, node)
            elif node.value in up:
                up[cls.iri].add(node.value)
    for stated in schema.axioms(cls, OWL + "equivalentClass"):
        parts = list(conjuncts(schema.said, stated))
        for node in parts:
            if isinstance(node, ox.NamedNode) and node.value in up:
                _put_below(schema, up, cls.iri, node.value)
                if len(parts) == 1:
                    _put_below(schema, up, node.value, cls.iri)
            elif len(parts) == 1 and union(schema.said, node):
                for inner in sorted(union(schema.said, node) or ()):
                    _put_below(schema, up, inner, cls.iri)
            elif not isinstance(node, ox.NamedNode):
                _read_expression(schema, cls, node)
    for head in schema.axioms(cls, OWL + "disjointUnionOf"):
        for member in members(schema.said, head):
            if isinstance(member, ox.NamedNode):
                _put_below(schema, up, member.value, cls.iri)


def _put_below(schema: Schema, up: Up, below: str, above: str) -> None:
    """State that a class is a subclass of another, unless its module would have to import one that imports it."""
    if below in up and above in up and below != above:
        lower, upper = schema.classes[below].source, schema.classes[above].source
        same = schema.modules[lower] == schema.modules[upper]
        if same or schema.sources.index(upper) < schema.sources.index(lower):
            up[below].add(above)


def _read_expression(schema: Schema, cls: ClassTerm, node: ox.BlankNode | ox.Literal | ox.Triple) -> None:
    read = restriction(schema.said, node)
    if read is not None:
        cls.stated = (*cls.stated, read)
    else:
        text = "a superclass is an expression that classes cannot hold; it is left to reasoners"
        schema.note(cls.source, cls.iri, text)


def _join_equivalents(schema: Schema, reach: Mapping[str, set[str]]) -> None:
    """Let one class stand for those that are each other's superclasses."""
    for iri in sorted(reach):
        group = sorted(
            (other for other in reach[iri] if iri in reach[other]),
            key=lambda x: (schema.classes[x].deprecated, schema.sources.index(schema.classes[x].source), x),
        )
        schema.canonical[iri] = group[0]
        if group[0] != iri:
            continue
        cls = schema.classes[iri]
        cls.equivalents = tuple(group[1:])
        cls.aliases = tuple(schema.classes[other].name for other in group[1:])
        same = [split(other)[1] for other in group[1:] if not schema.classes[other].deprecated]
        if same:
            schema.note(cls.source, iri, f"equivalent to {', '.join(same)}; one Python class stands for them")


def _link_disjoint(schema: Schema) -> None:
    pairs: set[tuple[str, str]] = set()
    for node, cell in schema.said.items():
        apart = [*cell.get(OWL + "disjointWith", [])]
        groups = [[node, other] for other in apart] + [listed(schema.said, node, OWL + "disjointUnionOf")]
        if ox.NamedNode(OWL + "AllDisjointClasses") in cell.get(RDF + "type", []):
            groups.append(listed(schema.said, node, OWL + "members"))
        for group in groups:
            names = [n.value for n in group if isinstance(n, ox.NamedNode) and n.value in schema.canonical]
            inside = [schema.canonical[name] for name in names]
            pairs |= {(a, b) for a in inside for b in inside if a != b}
    for a, b in sorted(pairs):
        schema.classes[a].disjoint = (*schema.classes[a].disjoint, b)
    for iri, cls in schema.kept():
        for a, b in sorted(pairs):
            both = {a, b} <= cls.ancestors
            if a < b and both and not any({a, b} <= schema.classes[x].ancestors for x in cls.parents):
                here, there = schema.classes[a].name, schema.classes[b].name
                text = f"lies in {here} and in {there}, which exclude each other; nothing can be one"
                schema.note(cls.source, iri, text)


def _note_unheard(schema: Schema, terms: Mapping[str, Term], predicates: tuple[str, ...]) -> None:
    """Say where a compiled source speaks of a term whose module it cannot change."""
    for source in schema.targets:
        for iri, term in terms.items():
            said = source.subjects.get(ox.NamedNode(iri), {})
            if term.source in schema.targets:
                continue
            for predicate in predicates:
                if not set(said.get(predicate, [])) <= set(schema.axioms(term, predicate)):
                    text = f"compiled elsewhere; what is said here of its {split(predicate)[1]} does not change it"
                    schema.note(source, iri, text)


# ---- properties


def link_properties(schema: Schema) -> None:
    """Give every property what it takes and who may have it, with what follows from the properties above it."""
    properties = schema.properties
    same: Up = {}
    for prop in properties.values():
        for node in schema.axioms(prop, OWL + "equivalentProperty"):
            if isinstance(node, ox.NamedNode) and node.value in properties:
                same.setdefault(prop.iri, set()).add(node.value)
                same.setdefault(node.value, set()).add(prop.iri)
    outside: Up = {}
    for iri, prop in properties.items():
        stated = {n.value for n in schema.axioms(prop, RDFS + "subPropertyOf") if isinstance(n, ox.NamedNode)}
        current = {
            x for x in same.get(iri, ()) if not properties[x].deprecated and _may_see(schema, prop, properties[x])
        }
        prop.parents = tuple(sorted(((stated & properties.keys()) | current) - {iri}))
        outside[iri] = {x for x in stated - properties.keys() if x.startswith(STANDARD) and not x.startswith(OWL)}
        prop.functional = ox.NamedNode(OWL + "FunctionalProperty") in [*schema.axioms(prop, RDF + "type")]
        prop.stop = "true" in schema.texts(iri, PROVLAKE + "closureStop")
        inverse = [n.value for n in schema.axioms(prop, OWL + "inverseOf") if isinstance(n, ox.NamedNode)]
        prop.inverse = next((x for x in inverse if x in properties and x != iri), None)
        for head in schema.axioms(prop, OWL + "propertyChainAxiom"):
            path = " / ".join(split(n.value)[1] for n in members(schema.said, head) if isinstance(n, ox.NamedNode))
            text = f"also follows from the chain {path}; that is not worked out when things are written"
            schema.note(prop.source, iri, text)
    up = {iri: set(prop.parents) for iri, prop in properties.items()}
    for prop in properties.values():
        prop.above = tuple(sorted(_reach(prop.iri, up) - {prop.iri}))
        written = _written_above(schema, prop)
        prop.supers = tuple(sorted(written.union(*(outside[x] for x in (prop.iri, *written)))))
    stated_functional = {iri for iri, prop in properties.items() if prop.functional}
    for prop in properties.values():
        prop.functional = not stated_functional.isdisjoint((prop.iri, *prop.above))
        lines = [properties[x] for x in (prop.iri, *prop.above)]
        prop.domains = schema.narrowest([x for p in lines for x in _classes(schema, p, RDFS + "domain")])
        if prop.is_object:
            prop.ranges = schema.narrowest([x for p in lines for x in _classes(schema, p, RDFS + "range")])
        else:
            prop.data = _data(schema, prop, lines)
    for prop in properties.values():
        backwards = [p for p in properties.values() if p.inverse == prop.iri]
        other = properties.get(prop.inverse or "") or next(iter(backwards), None)
        if other is not None and prop.is_object:
            prop.domains = prop.domains or other.ranges
            prop.ranges = prop.ranges or other.domains
    _note_unheard(schema, properties, (RDFS + "subPropertyOf", RDFS + "domain", RDFS + "range", OWL + "inverseOf"))


def _may_see(schema: Schema, prop: PropertyTerm, other: PropertyTerm) -> bool:
    return prop.source in schema.targets or other.source not in schema.targets


def _written_above(schema: Schema, prop: PropertyTerm) -> set[str]:
    """The super-properties written with a statement: all but those that a closure stops at (see provlake.ttl)."""
    found: set[str] = set()
    waiting = [(prop.iri, name) for name in prop.parents]
    while waiting:
        below, name = waiting.pop()
        if name in found or name == prop.iri:
            continue
        if schema.properties[name].stop and (below != prop.iri or split(name)[0] == split(prop.iri)[0]):
            continue
        found.add(name)
        waiting += [(name, above) for above in schema.properties[name].parents]
    return found


def _classes(schema: Schema, prop: PropertyTerm, predicate: str) -> Iterator[frozenset[str]]:
    """The domain or range axioms of a property, each as a union of named classes."""
    for stated in schema.axioms(prop, predicate):
        for node in conjuncts(schema.said, stated):
            names = schema.classes_of(node)
            if names is None:
                text = f"its {split(predicate)[1]} is an expression that classes cannot hold; it is not checked"
                schema.note(prop.source, prop.iri, text)
            elif names:
                yield names


def _data(schema: Schema, prop: PropertyTerm, lines: list[PropertyTerm]) -> DataRange:
    """What the ranges of a property and of those above it allow together."""
    found = ANY_SCALAR
    for line in lines:
        for stated in schema.axioms(line, RDFS + "range"):
            read = data_range(schema.said, stated)
            if read is None:
                text = "its range is an expression that classes cannot hold; any scalar is taken"
                schema.note(line.source, line.iri, text)
                continue
            for left in read.unchecked:
                schema.note(line.source, line.iri, f"of its range, this is not checked: {left}")
            both = narrowed(found, read)
            if both is None:
                schema.note(prop.source, prop.iri, "nothing is in all of its ranges; only one is checked")
            found = both or found
    return found


def _reach(start: str, up: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting.extend(up.get(node, ()))
    return seen
