"""Infer the fields of each class from domains, ranges, restrictions and cardinalities.

A cardinality makes a field required. `owl:someValuesFrom` alone does not: it states that a value exists, not that it is
written down (MLS states it for nearly everything). It becomes a note.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyoxigraph as ox

from provml.compiler.class_expressions import Restriction
from provml.compiler.data_ranges import data_range, intersection
from provml.compiler.schema import ClassTerm, FieldSpec, PropertyTerm, Schema
from provml.compiler.sources import Source, split
from provml.rdf.namespaces import RDFS

_LITERAL = ox.NamedNode(RDFS + "Literal")


def infer_fields(schema: Schema) -> None:
    """Set the fields of every class, and which of them its Python class has to state itself.

    A class shares the fields of its superclasses. Only those that it adds or restricts are worked out for it, so the
    time grows with the statements of the ontology, not with classes times properties.
    """
    classes = [cls for _, cls in sorted(schema.canonical_classes(), key=lambda item: (len(item[1].ancestors), item[0]))]
    introduced = _introduced_properties(schema, classes)
    introducers: dict[str, list[ClassTerm]] = {}
    for cls in classes:
        for iri in introduced[cls.iri]:
            introducers.setdefault(iri, []).append(cls)
    single = {iri: _is_single(schema, prop, introducers.get(iri, [])) for iri, prop in schema.properties.items()}
    sub_properties = _sub_properties(schema)
    for cls in classes:
        _inherit_fields(schema, cls)
        changed = [schema.properties[iri] for iri in introduced[cls.iri]]
        changed += _restricted_fields(schema, cls, sub_properties)
        _state_fields(schema, cls, changed, single)
        _note_impossible(schema, cls)
    _note_restrictions(schema)
    for prop in schema.properties.values():
        if prop.iri not in introducers and prop.iri not in schema.assumed:
            schema.note(prop.source, prop.iri, "no compiled class is in its domain; pass it with extra={…}")


def _inherit_fields(schema: Schema, cls: ClassTerm) -> None:
    """Set the fields of a class to those of its superclasses; of several, Python uses the first by `Schema.rank`."""
    parents = [schema.classes[parent] for parent in cls.parents]
    for parent in reversed(parents):
        cls.fields.update(parent.fields)
    if len(parents) < 2:
        return
    conflicts = {name for parent in parents for name, spec in parent.fields.items() if cls.fields[name] is not spec}
    for name in conflicts:
        owners = (schema.classes[iri] for iri in sorted(cls.ancestors - {cls.iri}, key=schema.rank))
        cls.fields[name] = next(owner.fields[name] for owner in owners if name in owner.own)
    cls.conflicts = frozenset(conflicts)


def _restricted_fields(
    schema: Schema, cls: ClassTerm, sub_properties: Mapping[str, list[PropertyTerm]]
) -> Iterator[PropertyTerm]:
    """Return the properties that a class inherits and restricts, or inherits in different forms."""
    stated = [each for iri in (cls.iri, *cls.equivalents) for each in schema.classes[iri].stated]
    for iri in dict.fromkeys(restriction.property for restriction in stated):
        yield from (prop for prop in sub_properties.get(iri, ()) if prop.name in cls.fields)
    for name in sorted(cls.conflicts):
        yield cls.fields[name].prop


def _state_fields(schema: Schema, cls: ClassTerm, changed: Iterable[PropertyTerm], single: Mapping[str, bool]) -> None:
    """Work out some fields of a class; its Python class states those that differ from what it inherits."""
    inherited = dict(cls.fields)
    properties = {prop.name: prop for prop in changed}
    for name, prop in properties.items():
        cls.fields[name] = _field(schema, cls, prop, single[prop.iri])
    for name in properties:
        spec = cls.fields[name]
        spec.required = spec.min_count > 0 and (
            not any(spec.prop.iri in other.prop.super_properties for other in cls.fields.values())
            # A value of a sub-property counts for the property too, unless a superclass requires the property itself.
            or any(name in parent.fields and parent.fields[name].required for parent in _parents(schema, cls))
        )
        if inherited.get(name) == spec:
            cls.fields[name] = inherited[name]
    cls.own = tuple(sorted(name for name in properties if cls.fields[name] is not inherited.get(name)))


def _parents(schema: Schema, cls: ClassTerm) -> list[ClassTerm]:
    return [schema.classes[parent] for parent in cls.parents]


def _note_impossible(schema: Schema, cls: ClassTerm) -> None:
    """Note the fields whose minimum number of values exceeds the maximum, unless a superclass has them too."""
    for name in cls.own:
        spec = cls.fields[name]
        inherited = (schema.classes[parent].fields.get(name) for parent in cls.parents)
        if spec.is_impossible and not any(other and other.is_impossible for other in inherited):
            counts = f"at least {spec.min_count} and at most {spec.upper} values are required"
            schema.note(cls.source, cls.iri, f"{split(spec.prop.iri)[1]}: {counts}; no {cls.name} can exist")


# ---- the domain of each property


def _introduced_properties(schema: Schema, classes: list[ClassTerm]) -> dict[str, list[str]]:
    """Return for each class the properties whose domain it is in, and none of its superclasses."""
    index = _DomainIndex(schema)
    in_domain: dict[str, frozenset[str]] = {}
    introduced: dict[str, list[str]] = {}
    for cls in classes:
        inherited = frozenset().union(*(in_domain[parent] for parent in cls.parents))
        added = sorted({prop.iri for prop in index.candidates(cls)} - inherited)
        introduced[cls.iri] = added
        in_domain[cls.iri] = inherited.union(added) if added else inherited
    return introduced


class _DomainIndex:
    """Finds the properties that may be introduced by a class, by the kind of their domain."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.by_class: dict[str, list[PropertyTerm]] = {}
        self.by_source: dict[Source, list[PropertyTerm]] = {}
        self.intersections: list[PropertyTerm] = []
        for prop in schema.properties.values():
            if len(prop.domains) > 1:
                self.intersections.append(prop)
            elif prop.domains:
                for iri in prop.domains[0]:
                    self.by_class.setdefault(iri, []).append(prop)
            elif prop.iri not in schema.assumed:
                # Without a domain, the classes of the ontology that defines the property have it.
                self.by_source.setdefault(prop.source, []).append(prop)

    def candidates(self, cls: ClassTerm) -> Iterator[PropertyTerm]:
        """Return properties whose domain a class is in, among them all that it introduces."""
        schema = self.schema
        stated = [each.property for iri in (cls.iri, *cls.equivalents) for each in schema.classes[iri].stated]
        properties = [schema.properties[iri] for iri in stated if iri in schema.properties]
        properties += self.by_class.get(cls.iri, ())
        properties += [prop for prop in self.intersections if _satisfies(cls, prop)]
        if not any(schema.classes[parent].source is cls.source for parent in cls.parents):
            properties += self.by_source.get(cls.source, ())
        is_target = cls.source in schema.targets
        return (prop for prop in properties if is_target or prop.source not in schema.targets)


def _satisfies(cls: ClassTerm, prop: PropertyTerm) -> bool:
    return all(not cls.ancestors.isdisjoint(names) for names in prop.domains)


def _sub_properties(schema: Schema) -> dict[str, list[PropertyTerm]]:
    """Return each property with its sub-properties: a restriction of the property holds for all of them."""
    result: dict[str, list[PropertyTerm]] = {}
    for prop in schema.properties.values():
        for iri in (prop.iri, *prop.ancestors):
            result.setdefault(iri, []).append(prop)
    return result


def _is_single(schema: Schema, prop: PropertyTerm, introducers: list[ClassTerm]) -> bool:
    """Return whether the field has at most one value in every class that introduces it.

    A subclass cannot turn a tuple of its superclass into a single value: their types would conflict. For a property
    compiled before, only the classes compiled with it count.
    """
    if prop.functional:
        return True
    compiled = [cls for cls in introducers if cls.source not in schema.targets]
    classes = compiled or introducers
    return bool(classes) and all(_counts(schema, cls, prop)[1] == 1 for cls in classes)


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
