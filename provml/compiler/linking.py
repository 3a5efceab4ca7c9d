"""What follows from an ontology's axioms: the class tree with its equivalents, and who stands above a property."""

from __future__ import annotations

from collections.abc import Iterator

import pyoxigraph as ox

from provml.compiler.expression import (
    ANYTHING,
    DataRange,
    Restriction,
    conjuncts,
    data_range,
    members,
    restriction,
    union,
)
from provml.compiler.schema import ANY_SCALAR, PROVLAKE, ClassTerm, PropertyTerm, Schema
from provml.compiler.source import OWL, RDF, RDFS, SKOS, split

# ---- classes


def link_classes(schema: Schema) -> None:
    order = {source: index for index, source in enumerate(schema.sources)}
    up: dict[str, set[str]] = {iri: set() for iri in schema.classes}
    retired: dict[str, str] = {}
    for cls in schema.classes.values():
        found: list[Restriction] = []
        for predicate in (RDFS + "subClassOf", OWL + "equivalentClass"):
            for stated in schema.axioms(cls, predicate):
                for node in conjuncts(schema.said, stated):
                    if isinstance(node, ox.NamedNode):
                        other = schema.classes.get(node.value)
                        if other is None or other is cls:
                            continue
                        if predicate == OWL + "equivalentClass" and cls.deprecated and not other.deprecated:
                            retired[cls.iri] = other.iri
                        elif predicate == OWL + "equivalentClass" and order[other.source] == order[cls.source]:
                            up[cls.iri].add(other.iri)
                            up[other.iri].add(cls.iri)
                        elif predicate == RDFS + "subClassOf" or order[other.source] < order[cls.source]:
                            up[cls.iri].add(other.iri)
                        else:
                            up[other.iri].add(cls.iri)
                        continue
                    read = restriction(schema.said, node)
                    if read is not None:
                        found.append(read)
                    elif union(schema.said, node) is None or predicate == RDFS + "subClassOf":
                        _note_expression(schema, cls)
        cls.restrictions = tuple(found)
    for iri in retired:
        up.pop(iri)
    reach = {iri: _reach(iri, up) for iri in up}
    for iri in sorted(up):
        group = sorted(
            (other for other in reach[iri] if iri in reach[other]),
            key=lambda o: (schema.classes[o].deprecated, order[schema.classes[o].source], o),
        )
        schema.canonical[iri] = group[0]
        if group[0] == iri and len(group) > 1:
            schema.classes[iri].equivalents = tuple(group[1:])
            if schema.classes[iri].source in schema.targets:
                same = ", ".join(split(other)[1] for other in group[1:])
                schema.note(schema.classes[iri].source, iri, f"equivalent to {same}; one Python class stands for them")
    for iri, kept in sorted(retired.items()):
        schema.canonical[iri] = schema.canonical[kept]
        kept_class = schema.classes[schema.canonical[kept]]
        kept_class.aliases = (*kept_class.aliases, schema.classes[iri].name)
    for iri, cls in schema.classes.items():
        if schema.canonical[iri] != iri:
            continue
        cls.ancestors = frozenset(schema.canonical[other] for other in reach[iri])
        cls.aliases = (*cls.aliases, *(schema.classes[other].name for other in cls.equivalents))
    for iri, cls in schema.kept():
        direct = {schema.canonical[other] for own in (iri, *cls.equivalents) for other in up[own]} - {iri}
        inner = {x for x in direct if any(x in schema.classes[y].ancestors for y in direct if y != x)}
        cls.parents = tuple(sorted(direct - inner, key=schema.rank))
        written = [x for a in sorted(cls.ancestors, key=schema.rank) for x in (a, *schema.classes[a].equivalents)]
        cls.types = tuple(x for x in written if x in cls.ancestors or not schema.classes[x].deprecated)
        cls.matches = tuple(
            sorted(
                n.value
                for p in ("closeMatch", "exactMatch")
                for n in schema.objects(iri, SKOS + p)
                if isinstance(n, ox.NamedNode)
            )
        )
        inherited = [
            r
            for a in sorted(cls.ancestors, key=schema.rank)
            for x in (a, *schema.classes[a].equivalents)
            for r in schema.classes[x].restrictions
        ]
        cls.restrictions = tuple(dict.fromkeys(inherited))
    _link_disjoint(schema)


def _note_expression(schema: Schema, cls: ClassTerm) -> None:
    if cls.source in schema.targets:
        schema.note(
            cls.source, cls.iri, "a superclass is an expression that classes cannot hold; it is left to reasoners"
        )


def _link_disjoint(schema: Schema) -> None:
    pairs: set[tuple[str, str]] = set()
    for iri, cls in schema.kept():
        for node in schema.axioms(cls, OWL + "disjointWith"):
            if isinstance(node, ox.NamedNode) and node.value in schema.canonical:
                pairs.add((iri, schema.canonical[node.value]))
    for cell in schema.said.values():
        if ox.NamedNode(OWL + "AllDisjointClasses") in cell.get(RDF + "type", []):
            listed = [m.value for m in members(schema.said, cell[OWL + "members"][0]) if isinstance(m, ox.NamedNode)]
            inside = [schema.canonical[x] for x in listed if x in schema.canonical]
            pairs |= {(a, b) for a in inside for b in inside if a != b}
    for a, b in sorted(pairs):
        schema.classes[a].disjoint = tuple(sorted({*schema.classes[a].disjoint, b}))
        schema.classes[b].disjoint = tuple(sorted({*schema.classes[b].disjoint, a}))


# ---- properties


def link_properties(schema: Schema) -> None:
    functional = ox.NamedNode(OWL + "FunctionalProperty")
    for prop in schema.properties.values():
        stated = [*schema.axioms(prop, RDFS + "subPropertyOf")]
        stated += [n for n in schema.axioms(prop, OWL + "equivalentProperty") if not prop.deprecated]
        prop.parents = tuple(
            sorted(
                n.value
                for n in stated
                if isinstance(n, ox.NamedNode) and n.value in schema.properties and n.value != prop.iri
            )
        )
        prop.functional = functional in [*schema.axioms(prop, RDF + "type")]
        prop.stop = "true" in schema.texts(prop.iri, PROVLAKE + "closureStop")
        inverse = [n.value for n in schema.axioms(prop, OWL + "inverseOf") if isinstance(n, ox.NamedNode)]
        prop.inverse = next((x for x in inverse if x in schema.properties and x != prop.iri), None)
        prop.chains = tuple(
            tuple(n.value for n in members(schema.said, head) if isinstance(n, ox.NamedNode))
            for head in schema.axioms(prop, OWL + "propertyChainAxiom")
        )
        if prop.chains and prop.source in schema.targets:
            for chain in prop.chains:
                path = " / ".join(split(x)[1] for x in chain)
                schema.note(
                    prop.source,
                    prop.iri,
                    f"also follows from the chain {path}; that is not worked out when things are written",
                )
    up = {iri: set(prop.parents) for iri, prop in schema.properties.items()}
    for prop in schema.properties.values():
        above = sorted(_reach(prop.iri, up) - {prop.iri})
        prop.above = tuple(above)
        prop.supers = tuple(sorted(_written_above(schema, prop)))
        lines = [schema.properties[x] for x in (prop.iri, *above)]
        prop.domains = schema.narrowest([x for p in lines for x in _classes(schema, p, RDFS + "domain")])
        if prop.is_object:
            prop.ranges = schema.narrowest([x for p in lines for x in _classes(schema, p, RDFS + "range")])
        else:
            prop.data = _data(schema, prop, lines)
    for prop in schema.properties.values():
        backwards = [p for p in schema.properties.values() if p.inverse == prop.iri]
        other = schema.properties.get(prop.inverse or "") or next(iter(backwards), None)
        if other is not None and prop.is_object:
            prop.domains = prop.domains or other.ranges
            prop.ranges = prop.ranges or other.domains


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
            names = union(schema.said, node)
            if names is None:
                where = "domain" if predicate.endswith("domain") else "range"
                if prop.source in schema.targets:
                    schema.note(
                        prop.source,
                        prop.iri,
                        f"its {where} is an expression that classes cannot hold; it is not checked",
                    )
            elif not names & ANYTHING:
                yield frozenset(schema.canonical.get(name, name) for name in names)


def _data(schema: Schema, prop: PropertyTerm, lines: list[PropertyTerm]) -> DataRange:
    for line in lines:
        for stated in schema.axioms(line, RDFS + "range"):
            read = data_range(schema.said, stated)
            if read is not None:
                return read
            if prop.source in schema.targets:
                schema.note(
                    prop.source,
                    prop.iri,
                    "its range is an expression that classes cannot hold; any scalar is taken",
                )
    return ANY_SCALAR


def _reach(start: str, up: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting.extend(up.get(node, ()))
    return seen
