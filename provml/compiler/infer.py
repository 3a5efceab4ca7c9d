"""Infer the class tree and the property tree with their equivalents from the axioms of an ontology."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyoxigraph as ox

from provml.compiler.class_expressions import conjuncts, list_members, members, restriction, union
from provml.compiler.data_ranges import ANY_SCALAR, DataRange, data_range, intersection
from provml.compiler.schema import ClassTerm, PropertyTerm, Schema, Term
from provml.compiler.sources import STANDARD, Node, split
from provml.rdf.namespaces import OWL, PROVLAKE, RDF, RDFS, SKOS

Parents = dict[str, set[str]]
"""Direct superclasses or super-properties by IRI."""

# ---- classes


def infer_classes(schema: Schema) -> None:
    """Set the superclasses, types, restrictions and disjoint classes of every class."""
    parents: Parents = {iri: set() for iri in schema.classes}
    for cls in schema.classes.values():
        _read_superclasses(schema, cls, parents)
    reachable = {iri: _reachable(iri, parents) for iri in parents}
    _merge_equivalents(schema, reachable)
    for iri, cls in schema.canonical_classes():
        cls.ancestors = frozenset(schema.canonical[other] for other in reachable[iri])
    for iri, cls in schema.canonical_classes():
        direct = {schema.canonical[other] for each in (iri, *cls.equivalents) for other in parents[each]} - {iri}
        indirect = {
            each for each in direct if any(each in schema.classes[other].ancestors for other in direct - {each})
        }
        cls.parents = tuple(sorted(direct - indirect, key=schema.rank))
        _inherit(schema, cls)
    _infer_bases(schema)
    _infer_disjoint(schema)
    _note_ignored(schema, schema.classes, (RDFS + "subClassOf", OWL + "equivalentClass"))


def _infer_bases(schema: Schema) -> None:
    """Set the bases of the Python classes so that Python orders the superclasses of each by `Schema.rank`.

    With the parents as bases, Python can give two classes the same superclasses in different orders, and a class
    that has both as parents cannot exist. Where the order would differ, the class names all its superclasses.
    """
    python_classes: dict[str, type] = {}
    for iri, cls in sorted(schema.canonical_classes(), key=lambda item: schema.rank(item[0]), reverse=True):
        ancestors = sorted(cls.ancestors - {iri}, key=schema.rank)
        ordered = tuple(python_classes[ancestor] for ancestor in ancestors)
        parents = tuple(python_classes[parent] for parent in cls.parents)
        cls.bases = cls.parents if _order_of_superclasses(parents) == ordered else tuple(ancestors)
        python_classes[iri] = type(cls.name, ordered, {})


def _order_of_superclasses(bases: tuple[type, ...]) -> tuple[type, ...] | None:
    """Return the order in which Python searches the superclasses of a class; None if it finds no order."""
    try:
        return type("", bases, {}).__mro__[1:-1]
    except TypeError:
        return None


def _inherit(schema: Schema, cls: ClassTerm) -> None:
    """Set the types and restrictions of a class from its ancestors and their equivalents."""
    line = [
        schema.classes[each]
        for ancestor in sorted(cls.ancestors, key=schema.rank)
        for each in (ancestor, *schema.classes[ancestor].equivalents)
    ]
    cls.types = tuple(each.iri for each in line if each.iri in cls.ancestors or not each.deprecated)
    cls.restrictions = tuple(dict.fromkeys(stated for each in line for stated in each.stated))
    matches = (schema.named_objects(cls.iri, SKOS + predicate) for predicate in ("closeMatch", "exactMatch"))
    cls.matches = tuple(sorted(iri for iris in matches for iri in iris))


def _read_superclasses(schema: Schema, cls: ClassTerm, parents: Parents) -> None:
    for stated in schema.axioms(cls, RDFS + "subClassOf"):
        for node in conjuncts(schema.statements, stated):
            if not isinstance(node, ox.NamedNode):
                _read_expression(schema, cls, node)
            elif node.value in parents:
                parents[cls.iri].add(node.value)
    for stated in schema.axioms(cls, OWL + "equivalentClass"):
        _read_equivalent(schema, cls, stated, parents)
    for head in schema.axioms(cls, OWL + "disjointUnionOf"):
        for member in members(schema.statements, head):
            if isinstance(member, ox.NamedNode):
                _add_parent(schema, parents, member.value, cls.iri)


def _read_equivalent(schema: Schema, cls: ClassTerm, stated: Node, parents: Parents) -> None:
    parts = list(conjuncts(schema.statements, stated))
    for node in parts:
        if isinstance(node, ox.NamedNode) and node.value in parents:
            _add_parent(schema, parents, cls.iri, node.value)
            if len(parts) == 1:
                _add_parent(schema, parents, node.value, cls.iri)
        elif len(parts) == 1 and (names := union(schema.statements, node)):
            for name in sorted(names):
                _add_parent(schema, parents, name, cls.iri)
        elif not isinstance(node, ox.NamedNode):
            _read_expression(schema, cls, node)


def _add_parent(schema: Schema, parents: Parents, child: str, parent: str) -> None:
    """Make a class a subclass of another, unless its module would have to import one that imports it."""
    if child in parents and parent in parents and child != parent:
        lower, upper = schema.classes[child].source, schema.classes[parent].source
        same_module = schema.modules[lower] == schema.modules[upper]
        if same_module or schema.sources.index(upper) < schema.sources.index(lower):
            parents[child].add(parent)


def _read_expression(schema: Schema, cls: ClassTerm, node: ox.BlankNode | ox.Literal | ox.Triple) -> None:
    stated = restriction(schema.statements, node)
    if stated is not None:
        cls.stated = (*cls.stated, stated)
    else:
        schema.note(cls.source, cls.iri, "a superclass is an expression that Python classes cannot express")


def _merge_equivalents(schema: Schema, reachable: Mapping[str, set[str]]) -> None:
    """Choose the class that represents each group of classes that are superclasses of each other."""
    for iri in sorted(reachable):
        group = sorted(
            (other for other in reachable[iri] if iri in reachable[other]),
            key=lambda each: (
                schema.classes[each].deprecated,
                schema.sources.index(schema.classes[each].source),
                each,
            ),
        )
        schema.canonical[iri] = group[0]
        if group[0] != iri:
            continue
        cls = schema.classes[iri]
        cls.equivalents = tuple(group[1:])
        cls.aliases = tuple(schema.classes[other].name for other in group[1:])
        current = [split(other)[1] for other in group[1:] if not schema.classes[other].deprecated]
        if current:
            schema.note(cls.source, iri, f"equivalent to {', '.join(current)}; they share one Python class")


def _infer_disjoint(schema: Schema) -> None:
    """Set the disjoint classes of every class, and note the classes that can have no instances."""
    pairs = _disjoint_pairs(schema)
    for first, second in sorted(pairs):
        schema.classes[first].disjoint = (*schema.classes[first].disjoint, second)
    for iri, cls in schema.canonical_classes():
        for first, second in sorted(pairs):
            pair = {first, second}
            is_inherited = any(pair <= schema.classes[parent].ancestors for parent in cls.parents)
            if first < second and pair <= cls.ancestors and not is_inherited:
                names = f"{schema.classes[first].name} and {schema.classes[second].name}"
                schema.note(cls.source, iri, f"a subclass of {names}, which are disjoint; it can have no instances")


def _disjoint_pairs(schema: Schema) -> set[tuple[str, str]]:
    """Return every pair of disjoint classes, in both orders."""
    pairs: set[tuple[str, str]] = set()
    for node, cell in schema.statements.items():
        groups = [[node, other] for other in cell.get(OWL + "disjointWith", [])]
        groups.append(list_members(schema.statements, node, OWL + "disjointUnionOf"))
        if ox.NamedNode(OWL + "AllDisjointClasses") in cell.get(RDF + "type", []):
            groups.append(list_members(schema.statements, node, OWL + "members"))
        for group in groups:
            names = [each.value for each in group if isinstance(each, ox.NamedNode) and each.value in schema.canonical]
            classes = [schema.canonical[name] for name in names]
            pairs |= {(first, second) for first in classes for second in classes if first != second}
    return pairs


def _note_ignored(schema: Schema, terms: Mapping[str, Term], predicates: tuple[str, ...]) -> None:
    """Note the statements of a compiled source about terms of modules that it cannot change."""
    for source in schema.targets:
        for iri, term in terms.items():
            if term.source in schema.targets:
                continue
            cell = source.subjects.get(ox.NamedNode(iri), {})
            for predicate in predicates:
                if not set(cell.get(predicate, [])) <= set(schema.axioms(term, predicate)):
                    text = f"compiled in another module; its {split(predicate)[1]} in this file does not change it"
                    schema.note(source, iri, text)


# ---- properties


def infer_properties(schema: Schema) -> None:
    """Set domain, range, super-properties and inverse of every property."""
    properties = schema.properties
    equivalents = _equivalent_properties(schema)
    external = {iri: _read_property(schema, prop, equivalents) for iri, prop in properties.items()}
    _infer_super_properties(schema, external)
    _infer_domains_and_ranges(schema)
    _complete_from_inverses(schema)
    _note_ignored(schema, properties, (RDFS + "subPropertyOf", RDFS + "domain", RDFS + "range", OWL + "inverseOf"))


def _equivalent_properties(schema: Schema) -> Parents:
    equivalents: Parents = {}
    for prop in schema.properties.values():
        for iri in schema.named_axioms(prop, OWL + "equivalentProperty"):
            if iri in schema.properties:
                equivalents.setdefault(prop.iri, set()).add(iri)
                equivalents.setdefault(iri, set()).add(prop.iri)
    return equivalents


def _read_property(schema: Schema, prop: PropertyTerm, equivalents: Parents) -> set[str]:
    """Set what is stated on a property itself; return its super-properties of standard vocabularies."""
    properties = schema.properties
    stated = set(schema.named_axioms(prop, RDFS + "subPropertyOf"))
    current = {
        iri
        for iri in equivalents.get(prop.iri, ())
        if not properties[iri].deprecated and _may_refer(schema, prop, properties[iri])
    }
    prop.parents = tuple(sorted(((stated & properties.keys()) | current) - {prop.iri}))
    prop.functional = OWL + "FunctionalProperty" in schema.named_axioms(prop, RDF + "type")
    prop.is_closure_stop = "true" in schema.texts(prop.iri, PROVLAKE + "closureStop")
    inverses = schema.named_axioms(prop, OWL + "inverseOf")
    prop.inverse = next((iri for iri in inverses if iri in properties and iri != prop.iri), None)
    for head in schema.axioms(prop, OWL + "propertyChainAxiom"):
        chain = members(schema.statements, head)
        path = " / ".join(split(node.value)[1] for node in chain if isinstance(node, ox.NamedNode))
        schema.note(prop.source, prop.iri, f"also follows from the chain {path}, which is not evaluated on writing")
    return {iri for iri in stated - properties.keys() if iri.startswith(STANDARD) and not iri.startswith(OWL)}


def _may_refer(schema: Schema, prop: PropertyTerm, other: PropertyTerm) -> bool:
    return prop.source in schema.targets or other.source not in schema.targets


def _infer_super_properties(schema: Schema, external: Mapping[str, set[str]]) -> None:
    parents = {iri: set(prop.parents) for iri, prop in schema.properties.items()}
    functional = {iri for iri, prop in schema.properties.items() if prop.functional}
    for prop in schema.properties.values():
        prop.ancestors = tuple(sorted(_reachable(prop.iri, parents) - {prop.iri}))
        prop.functional = not functional.isdisjoint((prop.iri, *prop.ancestors))
        written = _written_super_properties(schema, prop)
        prop.super_properties = tuple(sorted(written.union(*(external[iri] for iri in (prop.iri, *written)))))


def _written_super_properties(schema: Schema, prop: PropertyTerm) -> set[str]:
    """Return the super-properties written with a statement: all except closure stops (see provlake.ttl)."""
    written: set[str] = set()
    queue = [(prop.iri, parent) for parent in prop.parents]
    while queue:
        child, iri = queue.pop()
        if iri in written or iri == prop.iri:
            continue
        same_vocabulary = split(iri)[0] == split(prop.iri)[0]
        if schema.properties[iri].is_closure_stop and (child != prop.iri or same_vocabulary):
            continue
        written.add(iri)
        queue += [(iri, parent) for parent in schema.properties[iri].parents]
    return written


def _infer_domains_and_ranges(schema: Schema) -> None:
    for prop in schema.properties.values():
        line = [schema.properties[iri] for iri in (prop.iri, *prop.ancestors)]
        prop.domains = schema.narrowest([names for each in line for names in _classes(schema, each, RDFS + "domain")])
        if prop.is_object:
            prop.ranges = schema.narrowest([names for each in line for names in _classes(schema, each, RDFS + "range")])
        else:
            prop.data = _data_range(schema, prop, line)


def _complete_from_inverses(schema: Schema) -> None:
    """Take a missing domain from the range of the inverse property, and a missing range from its domain."""
    properties = schema.properties
    for prop in properties.values():
        backwards = [other for other in properties.values() if other.inverse == prop.iri]
        other = properties.get(prop.inverse or "") or next(iter(backwards), None)
        if other is not None and prop.is_object:
            prop.domains = prop.domains or other.ranges
            prop.ranges = prop.ranges or other.domains


def _classes(schema: Schema, prop: PropertyTerm, predicate: str) -> Iterator[frozenset[str]]:
    """Return the domain or range axioms of a property, each as a union of named classes."""
    for stated in schema.axioms(prop, predicate):
        for node in conjuncts(schema.statements, stated):
            names = schema.classes_of(node)
            if names is None:
                text = f"its {split(predicate)[1]} is an expression that Python classes cannot express; it is unchecked"
                schema.note(prop.source, prop.iri, text)
            elif names:
                yield names


def _data_range(schema: Schema, prop: PropertyTerm, line: list[PropertyTerm]) -> DataRange:
    """Return the intersection of the ranges of a property and its super-properties."""
    result = ANY_SCALAR
    for each in line:
        for stated in schema.axioms(each, RDFS + "range"):
            values = data_range(schema.statements, stated)
            if values is None:
                text = "its range is an expression that Python classes cannot express; it takes any scalar"
                schema.note(each.source, each.iri, text)
                continue
            for facet in values.unchecked:
                schema.note(each.source, each.iri, f"this part of its range is unchecked: {facet}")
            common = intersection(result, values)
            if common is None:
                schema.note(prop.source, prop.iri, "no value is in all of its ranges; only the first is checked")
            result = common or result
    return result


def _reachable(start: str, parents: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    queue = [start]
    while queue:
        node = queue.pop()
        if node not in reached:
            reached.add(node)
            queue.extend(parents.get(node, ()))
    return reached
