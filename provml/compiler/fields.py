"""Which fields a class has: domains, ranges, restrictions and cardinalities worked out for each class."""

from __future__ import annotations

from provml.compiler.expression import DataRange, data_range, union
from provml.compiler.schema import ClassTerm, FieldSpec, PropertyTerm, Schema


def fill(schema: Schema) -> None:
    """Give every class its fields, and say which of them its Python class has to state itself."""
    takers = {prop.iri: _takers(schema, prop) for prop in schema.properties.values()}
    single = {prop.iri: _is_single(schema, prop, takers[prop.iri]) for prop in schema.properties.values()}
    stand_ins: dict[str, type] = {}
    for iri, cls in sorted(schema.kept(), key=lambda item: (len(item[1].ancestors), item[0])):
        for prop in schema.properties.values():
            if iri in takers[prop.iri]:
                cls.fields[prop.name] = _spec(schema, cls, prop, single[prop.iri])
        stand_ins[iri] = type(cls.name, tuple(stand_ins[p] for p in cls.parents) or (object,), {"iri": iri})
        inherited: dict[str, FieldSpec] = {}
        for base in reversed(stand_ins[iri].__mro__[1:-1]):
            above = schema.classes[base.iri]  # type: ignore[attr-defined]  # every stand-in has it
            inherited.update({name: above.fields[name] for name in above.own})
        cls.own = tuple(sorted(name for name, spec in cls.fields.items() if inherited.get(name) != spec))
    _note_homeless(schema, takers)


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
    """Whether the field reads as one value: it must be so in every class that introduces it, or types would clash."""
    if prop.functional:
        return True
    tops = [iri for iri in takers if not any(parent in takers for parent in schema.classes[iri].parents)]
    return bool(tops) and all(_counts(schema, schema.classes[iri], prop)[1] == 1 for iri in tops)


def _counts(schema: Schema, cls: ClassTerm, prop: PropertyTerm) -> tuple[int, int | None]:
    """At least and at most how many values a class takes."""
    least, most = 0, 1 if prop.functional else None
    for one in cls.restrictions:
        if one.property != prop.iri or one.sort not in ("least", "most", "exactly"):
            continue
        covers = one.qualifier is None or (
            prop.is_object and any(schema.within(members, frozenset({one.qualifier})) for members in prop.ranges)
        )
        if one.sort in ("least", "exactly"):
            least = max(least, one.count)
        if one.sort in ("most", "exactly") and covers:
            most = one.count if most is None else min(most, one.count)
    return least, most


def _spec(schema: Schema, cls: ClassTerm, prop: PropertyTerm, single: bool) -> FieldSpec:
    least, most = _counts(schema, cls, prop)
    ranges = list(prop.ranges)
    data = prop.data
    for one in cls.restrictions:
        if one.sort != "only" or one.filler is None or one.property not in (prop.iri, *prop.above):
            continue
        if prop.is_object:
            names = union(schema.said, one.filler)
            if names is not None:
                ranges.append(frozenset(schema.canonical.get(name, name) for name in names))
            elif cls.source in schema.targets:
                schema.note(cls.source, cls.iri, f"what it allows for {prop.name} is an expression; it is not checked")
        else:
            data = _narrowed(data, data_range(schema.said, one.filler))
    return FieldSpec(prop, single, least, None if single else most, schema.narrowest(ranges), data)


def _narrowed(wide: DataRange, narrow: DataRange | None) -> DataRange:
    """The narrower of two data ranges; one of another kind cannot narrow and is left to SHACL."""
    return narrow if narrow is not None and wide.kind in ("any", narrow.kind) else wide


def _note_homeless(schema: Schema, takers: dict[str, frozenset[str]]) -> None:
    for prop in schema.properties.values():
        if prop.source in schema.targets and not takers[prop.iri]:
            schema.note(prop.source, prop.iri, "no compiled class is in its domain; give it with also={…}")
