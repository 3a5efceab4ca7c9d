"""A schema as Python: one module of typed classes for each ontology."""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Iterable, Mapping

from provml.compiler.schema import ClassTerm, FieldSpec, Individual, Schema
from provml.compiler.source import Source

TYPES = {
    "float": "float",
    "integer": "int",
    "boolean": "bool",
    "decimal": "Decimal",
    "text": "str",
    "words": "str",
    "tagged": "Text",
    "datetime": "datetime",
    "date": "date",
    "time": "time",
    "duration": "timedelta",
    "iri": "IRI",
    "other": "Literal",
    "any": "Kept",
}
GIVEN = {
    "any": "Scalar",
    "boolean": "BoolLike",
    "decimal": "Decimal | int",
    "float": "FloatLike",
    "integer": "IntLike",
    "iri": "str",
    "text": "str | PurePath",
}
"""What a constructor takes where that is more than what the field reads as."""


PACKAGE = "provml.vocab"
"""Where the modules of our own ontologies are."""


class ModuleWriter:
    """Writes the module of one ontology (or of several that go into one file)."""

    def __init__(self, schema: Schema, sources: Iterable[Source]) -> None:
        self.schema = schema
        self.sources = list(sources)
        self.bases: set[str] = set()
        self.typing: set[str] = set()
        self.names: set[str] = set()

    def text(self, comment: str, title: str) -> str:
        """The whole module."""
        header = f"{comment}# ruff: noqa\n{doc(f'{title}: what can be said, as typed classes.', indent=0)}\n\n"
        classes = [cls for _, cls in self.schema.kept() if cls.source in self.sources]
        classes.sort(key=lambda cls: (len(cls.ancestors), cls.iri))
        individuals = [one for one in self.schema.individuals.values() if one.source in self.sources]
        individuals.sort(key=lambda one: one.iri)
        bodies = [self.write_class(cls) for cls in classes]
        bodies += ["\n".join(self.write_individual(one) for one in individuals)] if individuals else []
        aliases = {alias: cls.name for cls in classes for alias in cls.aliases}
        if aliases:
            self.names.add("warn")
            bodies.append(alias_table(aliases))
        exported = sorted({*(cls.name for cls in classes), *(one.name for one in individuals)})
        listed = "".join(f'    "{name}",\n' for name in exported)
        return f"{header}{self.write_imports()}\n\n__all__ = [\n{listed}]\n\n\n" + "\n\n".join(bodies) + "\n"

    # ---- parts

    def write_imports(self) -> str:
        lines = ["from __future__ import annotations\n"]
        abc = sorted({"Iterable", "Mapping"} & self.names)
        if abc:
            lines.append(f"from collections.abc import {', '.join(abc)}")
        moments = sorted({"date", "datetime", "time", "timedelta"} & self.names)
        if moments:
            lines.append(f"from datetime import {', '.join(moments)}")
        if "Decimal" in self.names:
            lines.append("from decimal import Decimal")
        if "PurePath" in self.names:
            lines.append("from pathlib import PurePath")
        typing = sorted(
            ({"Any", "ClassVar"} & self.names)
            | ({"TYPE_CHECKING"} if self.typing - self.bases or "warn" in self.names else set())
        )
        if "OneOf" in self.names:
            typing.append("Literal as OneOf")
        if typing:
            lines.append(f"from typing import {', '.join(typing)}")
        if len(lines) > 1:
            lines.append("")
        if "Field" in self.names:
            lines.append("from provml.field import Field")
        lines.append(f"from provml.things import {'Thing, renamed' if 'warn' in self.names else 'Thing'}")
        values = sorted({"BoolLike", "FloatLike", "IRI", "IntLike", "Kept", "Literal", "Scalar", "Text"} & self.names)
        if values:
            lines.append(f"from provml.values import {', '.join(values)}")
        if self.bases:
            lines.append(f"from {PACKAGE} import {', '.join(sorted(self.bases))}")
        later = sorted(self.typing - self.bases)
        if later:
            lines.append(f"\nif TYPE_CHECKING:\n    from {PACKAGE} import {', '.join(later)}")
        return "\n".join(lines) + "\n"

    def reference(self, iri: str, *, base: bool = False) -> str:
        """A class as this module calls it."""
        cls = self.schema.classes[self.schema.canonical[iri]]
        if cls.source in self.sources:
            return cls.name
        module = self.schema.modules[cls.source]
        (self.bases if base else self.typing).add(module)
        return f"{module}.{cls.name}"

    def write_class(self, cls: ClassTerm) -> str:
        self.names.add("ClassVar")
        bases = [self.reference(parent, base=True) for parent in cls.parents] or ["Thing"]
        lines = [f"class {cls.name}({', '.join(bases)}):", self.docstring(cls), "", "    __slots__ = ()", ""]
        lines.append(f'    CLASS_IRI: ClassVar[str | None] = "{cls.iri}"')
        lines.append("    TYPES: ClassVar[tuple[str, ...]] = (")
        lines += [f'        "{name}",' for name in cls.types]
        lines.append("    )")
        if cls.own:
            self.names.add("Field")
            lines.append("    OWN_FIELDS: ClassVar[tuple[Field, ...]] = (")
            lines += [f"        {self.row(name, cls.fields[name])}," for name in cls.own]
            lines.append("    )")
            for name in cls.own:
                spec = cls.fields[name]
                lines.append(f"\n    {name}: {self.read_type(spec)}")
                lines.append(doc(spec.prop.definition or spec.prop.label, indent=4))
        return "\n".join([*lines, "", self.write_init(cls)]) + "\n"

    def docstring(self, cls: ClassTerm) -> str:
        parts = [cls.definition or f"{cls.label[:1].upper()}{cls.label[1:]}."]
        parts += [f"Example: {example}" for example in cls.examples]
        if cls.deprecated:
            below = any(cls.iri in other.parents for _, other in self.schema.kept())
            advice = "; make one of its subclasses instead" if below else ""
            parts.append(f"Deprecated: kept so that older queries find it{advice}.")
        if cls.own:
            parts.append("\n".join(["Fields:", *(self.field_line(name, cls.fields[name]) for name in cls.own)]))
        return doc("\n\n".join(parts), indent=4)

    def field_line(self, name: str, spec: FieldSpec) -> str:
        """A field as the docstring of its class lists it, so that `help` and editors show it."""
        must = " (required)" if spec.required else ""
        text = f"{name}{must}: {first_sentence(spec.prop.definition) or spec.prop.label}"
        lines = textwrap.wrap(text, 112, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
        return "\n".join(f"    {line}" for line in lines)

    def row(self, name: str, spec: FieldSpec) -> str:
        parts = [quote(name), quote(spec.prop.iri), quote(spec.kind)]
        if spec.one:
            parts.append("one=True")
        if spec.required:
            parts.append(f"least={spec.least}")
        if spec.most is not None:
            parts.append(f"most={spec.most}")
        data = spec.data
        if spec.prop.is_object:
            if spec.ranges:
                parts.append(f"ranges={_tuple(_tuple(map(quote, sorted(names))) for names in spec.ranges)}")
        else:
            if data.datatype is not None:
                parts.append(f"datatype={quote(data.datatype)}")
            if data.limits:
                parts.append(f"limits={_tuple(f'({quote(facet)}, {_number(bound)})' for facet, bound in data.limits)}")
            if data.pattern is not None:
                parts.append(f"pattern={quote(data.pattern)}")
            if data.choices:
                parts.append(f"choices={_tuple(map(quote, data.choices))}")
        if spec.prop.supers:
            parts.append(f"supers={_tuple(map(quote, spec.prop.supers))}")
        if spec.prop.inverse is not None:
            parts.append(f"inverse={quote(spec.prop.inverse)}")
        return f"Field({', '.join(parts)})"

    def write_init(self, cls: ClassTerm) -> str:
        self.names |= {"Iterable", "Mapping"}
        stated = [*cls.own, *(name for _, names in cls.inherited for name in names)]
        ordered = [(name, cls.fields[name]) for name in sorted(stated, key=lambda name: not cls.fields[name].required)]
        lines = ["    def __init__(", "        self,", "        iri: str,", "        *,"]
        lines += [f"        {name}: {self.given_type(spec)}," for name, spec in ordered]
        lines += [
            "        label: str | Iterable[str] | None = None,",
            "        comment: str | Iterable[str] | None = None,",
            "        also: Mapping[str, object] | None = None,",
            "    ) -> None:",
            "        values: dict[str, object] = {}",
        ]
        for name in [name for name, _ in ordered] + ["label", "comment"]:
            lines += [f"        if {name} is not None:", f'            values["{name}"] = {name}']
        lines.append("        self._keep(iri, values, also)")
        return "\n".join(lines)

    def write_individual(self, one: Individual) -> str:
        """An individual as a thing; as a bare IRI where its class asks for more than the ontology tells here."""
        fields = self.schema.classes[one.class_iri].fields
        if any(spec.required for spec in fields.values()):
            self.names.add("IRI")
            made = f"IRI({quote(one.iri)})"
        else:
            label = f", label={quote(one.label)}" if one.label else ""
            made = f"{self.reference(one.class_iri, base=True)}({quote(one.iri)}{label})"
        return f"{one.name} = {made}\n{doc(one.definition or one.label or one.name, indent=0)}\n"

    # ---- types

    def value_type(self, spec: FieldSpec, *, given: bool) -> str:
        if spec.prop.is_object:
            self.names.add("IRI")
            names = self.best_classes(spec)
            if names is None:
                self.names.add("Any")
                return "Any"
            return " | ".join([*(self.reference(name) for name in names), "IRI"]) if names else "Thing | IRI"
        if spec.data.choices:
            self.names.add("OneOf")
            return f"OneOf[{', '.join(quote(choice) for choice in spec.data.choices)}]"
        written = GIVEN.get(spec.kind, TYPES[spec.kind]) if given else TYPES[spec.kind]
        self.names |= set(written.replace("|", " ").split())
        return written

    def best_classes(self, spec: FieldSpec) -> list[str] | None:
        """The classes that a type checker should ask for: the union, or what lies in all unions at once."""
        if not spec.ranges:
            return []
        if len(spec.ranges) == 1:
            return sorted(spec.ranges[0])
        inside = [iri for iri, cls in self.schema.kept() if all(not cls.ancestors.isdisjoint(m) for m in spec.ranges)]
        tops = [x for x in inside if not any(p in inside for p in self.schema.classes[x].ancestors if p != x)]
        return sorted(tops) or None

    def read_type(self, spec: FieldSpec) -> str:
        held = self.value_type(spec, given=False)
        if not spec.one:
            return f"tuple[{held}, ...]"
        return held if spec.required else f"{held} | None"

    def given_type(self, spec: FieldSpec) -> str:
        held = self.value_type(spec, given=True)
        if not spec.one:
            held = f"{held} | Iterable[{held}]"
        return held if spec.required else f"{held} | None = None"


def alias_table(aliases: Mapping[str, str]) -> str:
    """Retired names of classes: type checkers take them for the class, and at run time they warn."""
    return "\n".join(
        [
            "if TYPE_CHECKING:",
            *(f"    {alias} = {name}" for alias, name in sorted(aliases.items())),
            "else:",
            "    _RENAMED = {",
            *(f'        "{alias}": "{name}",' for alias, name in sorted(aliases.items())),
            "    }",
            "",
            "    def __getattr__(name: str) -> object:",
            "        return renamed(__name__, globals(), _RENAMED, name)",
        ]
    )


def quote(text: str) -> str:
    """Text as a Python literal; what JSON escapes, Python reads the same."""
    return json.dumps(text, ensure_ascii=False)


def _tuple(items: Iterable[str]) -> str:
    held = list(items)
    return f"({', '.join(held)}{',' if len(held) == 1 else ''})"


def _number(number: float) -> str:
    return repr(number) if math.isfinite(number) else f'float("{number}")'


def first_sentence(text: str) -> str:
    """The first sentence of a text, on one line."""
    line = " ".join(text.split())
    return re.split(r"(?<=[.!?]) (?=[A-Z])", line, maxsplit=1)[0]


def doc(text: str, *, indent: int) -> str:
    """Text as a docstring, wrapped; blank lines kept."""
    margin = " " * indent
    safe = text.strip().replace("\\", "\\\\").replace('"""', "'''")
    if safe.endswith('"'):
        safe = f'{safe[:-1]}\\"'
    paragraphs = []
    for index, block in enumerate(safe.split("\n\n")):
        width = 120 - indent - (3 if index == 0 else 0)
        wrapped = (
            block.split("\n")
            if "\n" in block
            else textwrap.wrap(block, width, break_long_words=False, break_on_hyphens=False)
        )
        paragraphs.append("\n".join(f"{margin}{line.rstrip()}" if line.strip() else "" for line in wrapped))
    body = "\n\n".join(paragraphs).lstrip()
    if "\n" in body:
        return f'{margin}"""{body}\n{margin}"""'
    return f'{margin}"""{body}"""'
