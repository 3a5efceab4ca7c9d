"""Infer the fields of each class from domains, ranges, restrictions and cardinalities.

A cardinality makes a field required. `owl:someValuesFrom` alone does not: it states that a value exists, not that it is
written down (MLS states it for nearly everything). It becomes a note.
"""

from __future__ import annotations

import pyoxigraph as ox

from provml.compiler.class_expressions import Restriction
from provml.compiler.data_ranges import data_range, intersection
from provml.compiler.schema import ClassTerm, FieldSpec, PropertyTerm, Schema
from provml.compiler.sources import split
from provml.rdf.namespaces import RDFS

_LITERAL = ox.NamedNode(RDFS + "Literal")


def infer_fields(schema: Schema) -> None:
    """Set the fields of every class, and which of them its Python class has to state itself."""
    properties = schema.properties.values()
    domains = {prop.iri: _domain_classes(schema, prop) for prop in properties}
    single = {prop.iri: _is_single(schema, prop, domains[prop.iri]) for prop in properties}
    for iri, cls in sorted(schema.canonical_classes(), key=lambda item: (len(item[1].ancestors), item[0])):
        for prop in properties:
            if iri in domains[prop.iri]:
                cls.fields[prop.name] = _field(schema, cls, prop, single[prop.iri])
        _infer_required(schema, cls)
        ancestors = sorted(cls.ancestors - {iri}, key=schema.rank)
        _assign_inherited(cls, [schema.classes[ancestor] for ancestor in ancestors])
        _note_impossible(schema, cls)
    _note_restrictions(schema)
    for prop in properties:
        if not domains[prop.iri] and prop.iri not in schema.assumed:
            schema.note(prop.source, prop.iri, "no compiled class is in its domain; pass it with extra={…}")


def _infer_required(schema: Schema, cls: ClassTerm) -> None:
    """Set which fields are required.

    A value of a sub-property counts for the property too, so a field with sub-properties in the class is required only
    if a superclass requires it.
    """
    for spec in cls.fields.values():
        has_sub_property = any(spec.prop.iri in other.prop.super_properties for other in cls.fields.values())
        inherited = (schema.classes[parent].fields.get(spec.prop.name) for parent in cls.parents)
        is_inherited = any(other and other.required for other in inherited)
        spec.required = spec.min_count > 0 and (not has_sub_property or is_inherited)


def _assign_inherited(cls: ClassTerm, ancestors: list[ClassTerm]) -> None:
    """Set the fields that the Python class states itself and those that it inherits, by ancestor."""
    inherited: dict[str, FieldSpec] = {}
    for ancestor in reversed(ancestors):
        inherited.update({name: ancestor.fields[name] for name in ancestor.own})
    cls.own = tuple(sorted(name for name, spec in cls.fields.items() if inherited.get(name) != spec))
    assigned = set(cls.own)
    for ancestor in ancestors:
        rest = tuple(name for name in ancestor.own if name not in assigned)
        cls.inherited += ((ancestor.iri, rest),) if rest else ()
        assigned.update(rest)


def _note_impossible(schema: Schema, cls: ClassTerm) -> None:
    """Note the fields whose minimum number of values exceeds the maximum, unless a superclass has them too."""
    for name, spec in cls.fields.items():
        inherited = (schema.classes[parent].fields.get(name) for parent in cls.parents)
        if spec.is_impossible and not any(other and other.is_impossible for other in inherited):
            counts = f"at least {spec.min_count} and at most {spec.upper} values are required"
            schema.note(cls.source, cls.iri, f"{split(spec.prop.iri)[1]}: {counts}; no {cls.name} can exist")


def _domain_classes(schema: Schema, prop: PropertyTerm) -> frozenset[str]:
    """Return the classes in the domain of a property; without a domain, those of the ontology that defines it."""
    return frozenset(
        iri
        for iri, cls in schema.canonical_classes()
        if (cls.source in schema.targets or prop.source not in schema.targets) and _is_in_domain(schema, cls, prop)
    )


def _is_in_domain(schema: Schema, cls: ClassTerm, prop: PropertyTerm) -> bool:
    if any(stated.property == prop.iri for stated in cls.restrictions):
        return True
    if prop.domains:
        return all(not cls.ancestors.isdisjoint(names) for names in prop.domains)
    if prop.iri in schema.assumed:
        return False
    return any(schema.classes[ancestor].source is prop.source for ancestor in cls.ancestors)


def _is_single(schema: Schema, prop: PropertyTerm, domain: frozenset[str]) -> bool:
    """Return whether the field has at most one value in every topmost class of its domain.

    A subclass cannot turn a tuple of its superclass into a single value: their types would conflict. For a property
    compiled before, only the classes compiled with it count.
    """
    if prop.functional:
        return True
    compiled = frozenset(iri for iri in domain if schema.classes[iri].source not in schema.targets)
    domain = compiled or domain
    topmost = [iri for iri in domain if not any(parent in domain for parent in schema.classes[iri].parents)]
    return bool(topmost) and all(_counts(schema, schema.classes[iri], prop)[1] == 1 for iri in topmost)


def _counts(schema: Schema, cls: ClassTerm, prop: PropertyTerm) -> tuple[int, int | None]:
    """Return minimum and maximum number of values; a maximum of a super-property holds for the property too."""
    minimum, maximum = 0, 1 if prop.functional else None
    for stated in cls.restrictions:
        if stated.property == prop.iri and stated.kind in ("min", "exactly"):
            minimum = max(minimum, stated.count)
        is_maximum = stated.kind in ("max", "exactly") and stated.property in (prop.iri, *prop.ancestors)
        if is_maximum and _counts_all(schema, prop, stated):
            maximum = stated.count if maximum is None else min(maximum, stated.count)
    return minimum, maximum


def _counts_all(schema: Schema, prop: PropertyTerm, stated: Restriction) -> bool:
    """Return whether a cardinality counts all values of a property, not only those of a narrower class."""
    if stated.qualifier is None:
        return True
    if prop.is_object:
        counted = schema.classes_of(stated.qualifier)
        return counted is not None and (not counted or any(schema.is_within(names, counted) for names in prop.ranges))
    return data_range(schema.statements, stated.qualifier) in (prop.data, data_range(schema.statements, _LITERAL))


def _field(schema: Schema, cls: ClassTerm, prop: PropertyTerm, single: bool) -> FieldSpec:
    minimum, maximum = _counts(schema, cls, prop)
    ranges = list(prop.ranges)
    data = prop.data
    for stated in cls.restrictions:
        if stated.kind != "only" or stated.filler is None or stated.property not in (prop.iri, *prop.ancestors):
            continue
        if prop.is_object:
            ranges += [names for names in [schema.classes_of(stated.filler)] if names]
        else:
            values = data_range(schema.statements, stated.filler)
            data = (intersection(data, values) if values is not None else None) or data
    return FieldSpec(
        prop,
        single=single,
        min_count=minimum,
        max_count=None if single else maximum,
        ranges=schema.narrowest(ranges),
        data=data,
        required=minimum > 0,
    )


def _note_restrictions(schema: Schema) -> None:
    """Note the restrictions that fields do not check."""
    for cls in schema.classes.values():
        for stated in cls.stated:
            prop = schema.properties.get(stated.property)
            text = _unchecked_part(schema, prop, stated) if prop else "the property is not a field; it is unchecked"
            if text:
                schema.note(cls.source, cls.iri, f"{split(stated.property)[1]}: {text}")


def _unchecked_part(schema: Schema, prop: PropertyTerm, stated: Restriction) -> str:
    """Return what a field does not check of a restriction; empty if it checks everything."""
    match stated.kind:
        case "some":
            return "a value exists, but the field is not required; a minimum cardinality would require it"
        case "value" | "self":
            return "a value follows from the class; it is not written automatically"
        case "only" if stated.filler is not None:
            return _unchecked_filler(schema, prop, stated)
        case "max" | "exactly" if not _counts_all(schema, prop, stated):
            return f"at most {stated.count} values of a narrower class; it is unchecked"
        case "max" | "exactly" if stated.count == 0 and prop.functional:
            return "no value is allowed; it is unchecked"
    return ""


def _unchecked_filler(schema: Schema, prop: PropertyTerm, stated: Restriction) -> str:
    assert stated.filler is not None
    expression = "the allowed values are an expression; it is unchecked"
    if prop.is_object:
        return expression if schema.classes_of(stated.filler) is None else ""
    values = data_range(schema.statements, stated.filler)
    if values is None or intersection(prop.data, values) is None:
        return expression
    return f"this is unchecked: {', '.join(values.unchecked)}" if values.unchecked else ""
