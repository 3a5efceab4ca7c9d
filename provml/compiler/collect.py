"""Collect the terms of an ontology: classes, properties and individuals with their names and texts."""

from __future__ import annotations

import re

import pyoxigraph as ox

from provml.compiler import builtins
from provml.compiler.class_expressions import ANYTHING, union
from provml.compiler.naming import class_name, constant_name, field_name
from provml.compiler.references import TermKey, declare_used_terms, term_kinds
from provml.compiler.schema import ClassTerm, Individual, PropertyTerm, Schema
from provml.compiler.sources import ALIASES, STANDARD, Source, split
from provml.rdf import KIND_OF_DATATYPE
from provml.rdf.namespaces import DCTERMS, OWL, PROVLAKE, RDF, RDFS, SKOS, XSD


def collect_terms(schema: Schema) -> None:
    """Add classes and properties to the schema, also those that are used but not defined."""
    for source in schema.targets:
        builtins.check(source)
    owners = _assign_sources(schema)
    class_names: dict[str, set[str]] = {}  # by module
    field_names: set[str] = set()
    for source in schema.sources:
        terms = sorted(key for key, owner in owners.items() if owner is source)
        for kind, iri in terms:
            if kind == "class":
                _add_class(schema, source, iri, class_names.setdefault(schema.modules[source], set()), field_names)
        all_class_names = set().union(*class_names.values())
        for kind, iri in terms:
            if kind != "class":
                _add_property(schema, source, iri, all_class_names, field_names)
                schema.properties[iri].is_object = kind == "object"
    _infer_property_kinds(schema, [iri for kind, iri in owners if kind == "unspecified"])
    for source in schema.targets:
        _correct_kinds(schema, source)


def _add_class(schema: Schema, source: Source, iri: str, class_names: set[str], field_names: set[str]) -> None:
    local = split(iri)[1]
    name = class_name(local, class_names, field_names)
    _note_renamed(schema, source, iri, name, class_name(local))
    class_names.add(name)
    schema.classes[iri] = ClassTerm(iri, name, source, side=schema.text(iri, PROVLAKE + "side") or None)
    _add_texts(schema, schema.classes[iri])


def _add_property(schema: Schema, source: Source, iri: str, class_names: set[str], field_names: set[str]) -> None:
    namespace, local = split(iri)
    name = field_name(local)
    if name in field_names:
        name = field_name(f"{_prefix(source, namespace)}_{name}", field_names)
    name = field_name(name, class_names, field_names)
    _note_renamed(schema, source, iri, name, field_name(local))
    field_names.add(name)
    schema.properties[iri] = PropertyTerm(iri, name, source)
    _add_texts(schema, schema.properties[iri])


# ---- the source of each term


def _assign_sources(schema: Schema) -> dict[TermKey, Source]:
    """Return the source of each term: among those that declare it, the one in its rdfs:isDefinedBy, or the first."""
    declarations = _declarations(schema)
    owners: dict[TermKey, Source] = {}
    for (kind, iri), declarers in declarations.items():
        kinds = [each for each in ("object", "data", "unspecified") if (each, iri) in declarations]
        if kind != "class" and kind != kinds[0]:
            continue
        stated = schema.named_objects(iri, RDFS + "isDefinedBy")
        definers = {*stated, *(ALIASES[each] for each in stated if each in ALIASES)}
        owners[kind, iri] = next((source for source in declarers if source.iri in definers), declarers[0])
        if kind == "object" and "data" in kinds:
            schema.note(owners[kind, iri], iri, "declared as an object and a data property; it takes things")
    return owners


def _declarations(schema: Schema) -> dict[TermKey, list[Source]]:
    """Return the sources that declare each term; a term that is used but not declared is declared where it is used."""
    declarations: dict[TermKey, list[Source]] = {}
    for source in schema.sources:
        for subject, cell in source.subjects.items():
            if isinstance(subject, ox.NamedNode) and not subject.value.startswith(STANDARD):
                types = {node.value for node in cell.get(RDF + "type", []) if isinstance(node, ox.NamedNode)}
                for kind in term_kinds(types):
                    declarations.setdefault((kind, subject.value), []).append(source)
    for source in schema.targets:
        declare_used_terms(schema, source, declarations)
    return declarations


# ---- names and texts


def _add_texts(schema: Schema, term: ClassTerm | PropertyTerm | Individual) -> None:
    """Set label, definition and examples; a label that is missing or is the local name becomes words."""
    local = split(term.iri)[1]
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_\-]+", " ", local).lower().strip()
    label = schema.text(term.iri, RDFS + "label", SKOS + "prefLabel")
    term.label = words if not label or (label == local and not local.isupper()) else label
    term.definition = schema.text(term.iri, SKOS + "definition", RDFS + "comment", DCTERMS + "description")
    term.examples = tuple(schema.texts(term.iri, SKOS + "example"))
    deprecated_types = {OWL + "DeprecatedClass", OWL + "DeprecatedProperty"} & schema.types(ox.NamedNode(term.iri))
    term.deprecated = bool(deprecated_types or {"true", "1"} & set(schema.texts(term.iri, OWL + "deprecated")))


def _note_renamed(schema: Schema, source: Source, iri: str, name: str, preferred: str) -> None:
    if name != preferred:
        schema.note(source, iri, f"named {name} in Python, because {preferred} is taken")


def _prefix(source: Source, namespace: str) -> str:
    """Return the source's prefix of a namespace, or the stem of its file name."""
    return next((name for name, value in source.prefixes.items() if name and value == namespace), source.path.stem)


def _infer_property_kinds(schema: Schema, iris: list[str]) -> None:
    """Make a property of unspecified kind an object property if its range is a class or a super-property is one."""
    without_range = []
    for prop in (schema.properties[iri] for iri in sorted(iris)):
        ranges = [union(schema.statements, node) for node in schema.objects(prop.iri, RDFS + "range")]
        prop.is_object = any(names and names <= schema.classes.keys() | ANYTHING for names in ranges)
        without_range += [] if ranges else [prop]
    for prop in without_range:
        line = _with_super_properties(schema, prop)
        prop.is_object = any(each.is_object for each in line)
        if len(line) == 1:
            schema.note(prop.source, prop.iri, "a property without a range; it takes any scalar")


def _with_super_properties(schema: Schema, prop: PropertyTerm) -> list[PropertyTerm]:
    line = {prop.iri: prop}
    for iri in (queue := [prop.iri]):
        for above in schema.named_objects(iri, RDFS + "subPropertyOf"):
            if above in schema.properties and above not in line:
                line[above] = schema.properties[above]
                queue.append(above)
    return list(line.values())


def _correct_kinds(schema: Schema, source: Source) -> None:
    """Report object properties with a datatype as range and data properties with a class; the range decides."""
    for prop in schema.properties.values():
        for node in schema.objects(prop.iri, RDFS + "range") if prop.source is source else ():
            name = node.value if isinstance(node, ox.NamedNode) else ""
            is_data = name.startswith(XSD) or name in KIND_OF_DATATYPE or RDFS + "Datatype" in schema.types(node)
            if prop.is_object and is_data:
                fault, correction = "an object property, but its range is a datatype", "an owl:DatatypeProperty"
            elif not prop.is_object and (name in schema.classes or name in ANYTHING):
                fault, correction = "a data property, but its range is a class", "an owl:ObjectProperty"
            else:
                continue
            prop.is_object = not prop.is_object
            source.problems.add(
                source.path,
                source.line_of(name, RDFS + "range", prop.iri) or source.line_of(prop.iri),
                f"{split(prop.iri)[1]} is {fault} ({split(name)[1]})",
                advice=f"Declare it as {correction}.",
                assumption=correction,
            )


# ---- individuals


def collect_individuals(schema: Schema) -> None:
    """Add the named individuals of the compiled classes to the schema."""
    taken: dict[str, set[str]] = {}
    for cls in schema.classes.values():
        taken.setdefault(schema.modules[cls.source], set()).add(cls.name)
    for source in schema.sources:
        names = taken.setdefault(schema.modules[source], set())
        for subject, cell in source.subjects.items():
            types = {node.value for node in cell.get(RDF + "type", []) if isinstance(node, ox.NamedNode)}
            classes = sorted({schema.canonical[each] for each in types if each in schema.canonical}, key=schema.rank)
            if not isinstance(subject, ox.NamedNode) or OWL + "NamedIndividual" not in types or not classes:
                continue
            if subject.value not in schema.individuals and subject.value not in schema.classes:
                _add_individual(schema, source, subject.value, classes, names)


def _add_individual(schema: Schema, source: Source, iri: str, classes: list[str], names: set[str]) -> None:
    local = split(iri)[1]
    name = constant_name(local, names)
    names.add(name)
    individual = Individual(iri, name, source, class_iri=classes[0])
    schema.individuals[iri] = individual
    _add_texts(schema, individual)
    individual.label = schema.text(iri, RDFS + "label", SKOS + "prefLabel")  # none is derived from the IRI
    _note_renamed(schema, source, iri, name, constant_name(local))
    cls = schema.classes[classes[0]]
    if not cls.ancestors.issuperset(classes):
        schema.note(source, iri, f"has several classes; its Python class is {cls.name}")
    if any(spec.required for spec in cls.fields.values()):
        schema.note(source, iri, "its class has required fields; it is an IRI in Python")
