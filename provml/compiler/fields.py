"""Which fields a class has: domains, ranges, restrictions and cardinalities worked out for each class.

A field is required where a cardinality asks for it. `owl:someValuesFrom` alone asks for nothing: it says that there is
a value, not that it is written down (MLS says so of nearly everything); that becomes a note.
"""

from __future__ import annotations

import pyoxigraph as ox

from provml.compiler.datarange import data_range, narrowed
from provml.compiler.expression import Restriction
from provml.compiler.schema import ClassTerm, FieldSpec, PropertyTerm, Schema
from provml.compiler.source import RDFS, split

_LITERAL = ox.NamedNode(RDFS + "Literal")


def fill(schema: Schema) -> None:
    """Give every class its fields, and say which of them its Python class has to state itself."""
    takers = {prop.iri: _takers(schema, prop) for prop in schema.properties.values()}
    single = {prop.iri: _is_single(schema, prop, takers[prop.iri]) for prop in schema.properties.values()}
    stand_ins: dict[str, type] = {}
    for iri, cls in sorted(schema.kept(), key=lambda item: (len(item[1].ancestors), item[0])):
        for prop in schema.properties.values():
            if iri in takers[prop.iri]:
                cls.fields[prop.name] = _spec(schema, cls, prop, single[prop.iri])
        for spec in cls.fields.values():
            # What is said with a sub-property counts for the property too: then it cannot be insisted on, unless a
            # class above does.
            below = any(spec.prop.iri in other.prop.supers for other in cls.fields.values())
            above = (schema.classes[parent].fields.get(spec.prop.name) for parent in cls.parents)
            spec.required = spec.least > 0 and (not below or any(one and one.required for one in above))
        stand_ins[iri] = type(cls.name, tuple(stand_ins[p] for p in cls.parents) or (object,), {"iri": iri})
        uppers = [schema.classes[vars(base)["iri"]] for base in stand_ins[iri].__mro__[1:-1]]
        inherited: dict[str, FieldSpec] = {}
        for upper in reversed(uppers):
            inherited.update({name: upper.fields[name] for name in upper.own})
        cls.own = tuple(sorted(name for name, spec in cls.fields.items() if inherited.get(name) != spec))
        seen = set(cls.own)
        for upper in uppers:
            rest = tuple(name for name in upper.own if name not in seen)
            cls.inherited += ((upper.iri, rest),) if rest else ()
            seen.update(rest)
        _note_impossible(schema, cls)
    _note_restrictions(schema)
    for prop in schema.properties.values():
        if not takers[prop.iri]:
            schema.note(prop.source, prop.iri, "no compiled class is in its domain; give it with also={…}")


def _note_impossible(schema: Schema, cls: ClassTerm) -> None:
    """Say where a class asks for more values than it allows, unless a class above has the same to answer for."""
    for name, spec in cls.fields.items():
        above = (schema.classes[parent].fields.get(name) for parent in cls.parents)
        if spec.impossible and not any(one and one.impossible for one in above):
            text = f"at least {spec.least} and at most {spec.upper} are asked for; nothing can be such a {cls.name}"
            schema.note(cls.source, cls.iri, f"{split(spec.prop.iri)[1]}: {text}")


def _takers(schema: Schema, prop: PropertyTerm) -> frozenset[str]:
    """The classes that have a property: those in its domain; without one, those of the ontology that defines it."""
    found = set()
    for iri, cls in schema.kept():
        if cls.source not in schema.targets and prop.source in schema.targets:
            continue
        if prop.domains:
            if all(not cls.ancestors.isdisjoint(members) for members in prop.domains):
                found.add(iri)
        elif any(schema.classes[above].source is prop.source for above in cls.ancestors):
            found.add(iri)
        if any(r.property == prop.iri for r in cls.restrictions):
            found.add(iri)
    return frozenset(found)


def _is_single(schema: Schema, prop: PropertyTerm, takers: frozenset[str]) -> bool:
    """Whether the field reads as one value: it must be so in every class that introduces it, or types would clash.

    For a property compiled elsewhere, the classes there have said it.
    """
    if prop.functional:
        return True
    elsewhere = frozenset(iri for iri in takers if schema.classes[iri].source not in schema.targets)
    takers = elsewhere or takers
    tops = [iri for iri in takers if not any(parent in takers for parent in schema.classes[iri].parents)]
    return bool(tops) and all(_counts(schema, schema.classes[iri], prop)[1] == 1 for iri in tops)


def _counts(schema: Schema, cls: ClassTerm, prop: PropertyTerm) -> tuple[int, int | None]:
    """At least and at most how many values a class takes; a most for a property above holds below it too."""
    least, most = 0, 1 if prop.functional else None
    for one in cls.restrictions:
        if one.property == prop.iri and one.sort in ("least", "exactly"):
            least = max(least, one.count)
        if one.property in (prop.iri, *prop.above) and one.sort in ("most", "exactly") and _covers(schema, prop, one):
            most = one.count if most is None else min(most, one.count)
    return least, most


def _covers(schema: Schema, prop: PropertyTerm, one: Restriction) -> bool:
    """Whether a cardinality counts every value of a property, and not only those of some narrower sort."""
    if one.qualifier is None:
        return True
    if prop.is_object:
        counted = schema.classes_of(one.qualifier)
        return counted is not None and (not counted or any(schema.within(held, counted) for held in prop.ranges))
    return data_range(schema.said, one.qualifier) in (prop.data, data_range(schema.said, _LITERAL))


def _spec(schema: Schema, cls: ClassTerm, prop: PropertyTerm, single: bool) -> FieldSpec:
    least, most = _counts(schema, cls, prop)
    ranges = list(prop.ranges)
    data = prop.data
    for one in cls.restrictions:
        if one.sort != "only" or one.filler is None or one.property not in (prop.iri, *prop.above):
            continue
        if prop.is_object:
            ranges += [names for names in [schema.classes_of(one.filler)] if names]
        else:
            read = data_range(schema.said, one.filler)
            data = (narrowed(data, read) if read is not None else None) or data
    return FieldSpec(prop, single, least, None if single else most, schema.narrowest(ranges), data, least > 0)


def _note_restrictions(schema: Schema) -> None:
    """Say which restrictions the fields do not hold."""
    for cls in schema.classes.values():
        for one in cls.stated:
            prop = schema.properties.get(one.property)
            text = _left(schema, prop, one) if prop is not None else "that property is no field; it is not checked"
            if text:
                schema.note(cls.source, cls.iri, f"{split(one.property)[1]}: {text}")


def _left(schema: Schema, prop: PropertyTerm, one: Restriction) -> str:
    """What of a restriction the fields leave to reasoners."""
    if one.sort == "some":
        return "there is some value, but none is asked for; a minimum cardinality would ask"
    if one.sort in ("value", "self"):
        return "a value follows from the class; it is not written by itself"
    if one.sort == "only" and one.filler is not None:
        if prop.is_object:
            return "what it allows is an expression; it is not checked" if schema.classes_of(one.filler) is None else ""
        read = data_range(schema.said, one.filler)
        if read is None or narrowed(prop.data, read) is None:
            return "what it allows is an expression; it is not checked"
        return f"this is not checked: {', '.join(read.unchecked)}" if read.unchecked else ""
    if one.sort in ("most", "exactly") and not _covers(schema, prop, one):
        return f"at most {one.count} of a narrower sort; it is not checked"
    if one.count == 0 and one.sort in ("most", "exactly") and prop.functional:
        return "none is allowed; it is not checked"
    return ""
