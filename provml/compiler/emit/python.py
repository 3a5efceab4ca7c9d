"""Generate Python: one module of typed classes per ontology."""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping

from provml.compiler.data_ranges import DataRange
from provml.compiler.schema import ClassTerm, FieldSpec, Individual, Schema
from provml.compiler.sources import Source

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
    "any": "Scalar",
}
ACCEPTED = {
    "any": "ScalarLike",
    "boolean": "BoolLike",
    "decimal": "Decimal | int",
    "float": "FloatLike",
    "integer": "IntLike",
    "iri": "str",
    "text": "str | PurePath",
}
"""Type that a constructor accepts, if it is wider than the type of the field."""

VALUE_NAMES = ("BoolLike", "FloatLike", "IRI", "IntLike", "Literal", "Scalar", "ScalarLike", "Text")
"""Names of provml.model.values that annotations use."""

PACKAGE = "provml.vocab"
"""Package of the modules of the bundled ontologies."""


class ModuleWriter:
    """Writes the module of one ontology, or of several ontologies in one file."""

    def __init__(self, schema: Schema, sources: Iterable[Source]) -> None:
        self.schema = schema
        self.sources = list(sources)
        self.base_modules: set[str] = set()
        self.annotation_modules: set[str] = set()
        self.names: set[str] = set()
        """Names that the module has to import."""

    def text(self, comment: str, title: str) -> str:
        """Return the text of the module."""
        header = f"{comment}# ruff: noqa\n{doc(f'{title}: typed classes.', indent=0)}\n\n"
        classes = [cls for _, cls in self.schema.canonical_classes() if cls.source in self.sources]
        classes.sort(key=lambda cls: (len(cls.ancestors), cls.iri))
        individuals = [each for each in self.schema.individuals.values() if each.source in self.sources]
        individuals.sort(key=lambda each: each.iri)
        bodies = [self.write_class(cls) for cls in classes]
        bodies += ["\n".join(self.write_individual(each) for each in individuals)] if individuals else []
        aliases = {alias: cls.name for cls in classes for alias in cls.aliases}
        if aliases:
            self.names.add("warn")
            bodies.append(alias_table(aliases))
        exported = sorted({*(cls.name for cls in classes), *(each.name for each in individuals)})
        names = "".join(f'    "{name}",\n' for name in exported)
        return f"{header}{self.write_imports()}\n\n__all__ = [\n{names}]\n\n\n" + "\n\n".join(bodies) + "\n"

    # ---- parts

    def write_imports(self) -> str:
        typing = {"Any", "ClassVar"} & self.names
        later = sorted(self.annotation_modules - self.base_modules)
        if later or "warn" in self.names:
            typing.add("TYPE_CHECKING")
        standard = [
            self._import("collections.abc", "Iterable", "Mapping"),
            self._import("datetime", "date", "datetime", "time", "timedelta"),
            self._import("decimal", "Decimal"),
            self._import("pathlib", "PurePath"),
            _import("typing", [*sorted(typing), *(["Literal as OneOf"] if "OneOf" in self.names else [])]),
        ]
        own = [
            self._import("provml.model.field", "Field"),
            f"from provml.model.thing import {'Thing, resolve_renamed' if 'warn' in self.names else 'Thing'}",
            self._import("provml.model.values", *VALUE_NAMES),
            _import(PACKAGE, sorted(self.base_modules)),
        ]
        blocks = ["from __future__ import annotations", *("\n".join(filter(None, lines)) for lines in (standard, own))]
        if later:
            blocks.append(f"if TYPE_CHECKING:\n    {_import(PACKAGE, later)}")
        return "\n\n".join(filter(None, blocks)) + "\n"

    def _import(self, module: str, *names: str) -> str:
        """Return the import of those names that the module uses; empty if it uses none."""
        return _import(module, sorted(self.names.intersection(names)))

    def reference(self, iri: str, *, base: bool = False) -> str:
        """Return the name of a class in this module."""
        cls = self.schema.classes[self.schema.canonical[iri]]
        if cls.source in self.sources:
            return cls.name
        module = self.schema.modules[cls.source]
        (self.base_modules if base else self.annotation_modules).add(module)
        return f"{module}.{cls.name}"

    def write_class(self, cls: ClassTerm) -> str:
        self.names.add("ClassVar")
        bases = [self.reference(parent, base=True) for parent in cls.bases] or ["Thing"]
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
            has_subclass = any(cls.iri in other.parents for _, other in self.schema.canonical_classes())
            advice = " Use one of its subclasses instead." if has_subclass else ""
            parts.append(f"Deprecated: it exists for older queries.{advice}")
        if cls.own:
            parts.append("\n".join(["Fields:", *(self.field_line(name, cls.fields[name]) for name in cls.own)]))
        return doc("\n\n".join(parts), indent=4)

    def field_line(self, name: str, spec: FieldSpec) -> str:
        """Return the line of a field in the docstring of its class, which `help` and editors show."""
        required = " (required)" if spec.required else ""
        text = f"{name}{required}: {first_sentence(spec.prop.definition) or spec.prop.label}"
        lines = textwrap.wrap(text, 112, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
        return "\n".join(f"    {line}" for line in lines)

    def row(self, name: str, spec: FieldSpec) -> str:
        """Return the row of a field in the table of its class."""
        parts = [quote(name), quote(spec.prop.iri), quote(spec.kind)]
        if spec.single:
            parts.append("single=True")
        if spec.required:
            parts.append(f"min_count={spec.min_count}")
        if spec.max_count is not None:
            parts.append(f"max_count={spec.max_count}")
        if not spec.prop.is_object:
            parts += _data_arguments(spec.data)
        elif spec.ranges:
            parts.append(f"ranges={_tuple(_tuple(map(quote, sorted(names))) for names in spec.ranges)}")
        if spec.prop.super_properties:
            parts.append(f"super_properties={_tuple(map(quote, spec.prop.super_properties))}")
        if spec.prop.inverse is not None:
            parts.append(f"inverse={quote(spec.prop.inverse)}")
        return f"Field({', '.join(parts)})"

    def write_init(self, cls: ClassTerm) -> str:
        self.names |= {"Iterable", "Mapping"}
        names = [*cls.own, *(name for _, inherited in self.schema.inherited_fields(cls) for name in inherited)]
        ordered = [(name, cls.fields[name]) for name in sorted(names, key=lambda name: not cls.fields[name].required)]
        lines = ["    def __init__(", "        self,", "        iri: str,", "        *,"]
        lines += [f"        {name}: {self.parameter_type(spec)}," for name, spec in ordered]
        lines += [
            "        label: str | Iterable[str] | None = None,",
            "        comment: str | Iterable[str] | None = None,",
            "        extra: Mapping[str, object] | None = None,",
            "    ) -> None:",
            "        values: dict[str, object] = {}",
        ]
        for name in [name for name, _ in ordered] + ["label", "comment"]:
            lines += [f"        if {name} is not None:", f'            values["{name}"] = {name}']
        lines.append("        self._assign(iri, values, extra)")
        return "\n".join(lines)

    def write_individual(self, individual: Individual) -> str:
        """Return an individual as a thing, or as an IRI if its class has required fields."""
        fields = self.schema.classes[individual.class_iri].fields
        if any(spec.required for spec in fields.values()):
            self.names.add("IRI")
            value = f"IRI({quote(individual.iri)})"
        else:
            label = f", label={quote(individual.label)}" if individual.label else ""
            value = f"{self.reference(individual.class_iri, base=True)}({quote(individual.iri)}{label})"
        text = individual.definition or individual.label or individual.name
        return f"{individual.name} = {value}\n{doc(text, indent=0)}\n"

    # ---- types

    def value_type(self, spec: FieldSpec, *, accepted: bool) -> str:
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
        annotation = ACCEPTED.get(spec.kind, TYPES[spec.kind]) if accepted else TYPES[spec.kind]
        self.names |= set(annotation.replace("|", " ").split())
        return annotation

    def best_classes(self, spec: FieldSpec) -> list[str] | None:
        """Return the classes for the type annotation: the union, or the classes that are in all unions."""
        if not spec.ranges:
            return []
        if len(spec.ranges) == 1:
            return sorted(spec.ranges[0])
        common = {
            iri
            for iri, cls in self.schema.canonical_classes()
            if all(not cls.ancestors.isdisjoint(names) for names in spec.ranges)
        }
        tops = [iri for iri in common if common.isdisjoint(self.schema.classes[iri].ancestors - {iri})]
        return sorted(tops) or None

    def read_type(self, spec: FieldSpec) -> str:
        annotation = self.value_type(spec, accepted=False)
        if not spec.single:
            return f"tuple[{annotation}, ...]"
        return annotation if spec.required else f"{annotation} | None"

    def parameter_type(self, spec: FieldSpec) -> str:
        annotation = self.value_type(spec, accepted=True)
        if not spec.single:
            annotation = f"{annotation} | Iterable[{annotation}]"
        return annotation if spec.required else f"{annotation} | None = None"


def alias_table(aliases: Mapping[str, str]) -> str:
    """Return the code of deprecated class names: aliases for type checkers, a warning at run time."""
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
            "        return resolve_renamed(__name__, globals(), _RENAMED, name)",
        ]
    )


def quote(text: str) -> str:
    """Return a text as a Python literal; JSON and Python share the escapes."""
    return json.dumps(text, ensure_ascii=False)


def _import(module: str, names: list[str]) -> str:
    return f"from {module} import {', '.join(names)}" if names else ""


def _data_arguments(data: DataRange) -> Iterator[str]:
    """Return the keyword arguments of a field for a data range."""
    if data.datatype is not None:
        yield f"datatype={quote(data.datatype)}"
    if data.limits:
        yield f"limits={_tuple(f'({quote(facet)}, {_number(bound)})' for facet, bound in data.limits)}"
    if data.pattern is not None:
        yield f"pattern={quote(data.pattern)}"
    if data.choices:
        yield f"choices={_tuple(map(quote, data.choices))}"


def _tuple(items: Iterable[str]) -> str:
    parts = list(items)
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def _number(number: float) -> str:
    return repr(number) if math.isfinite(number) else f'float("{number}")'


def first_sentence(text: str) -> str:
    """Return the first sentence of a text on one line."""
    line = " ".join(text.split())
    return re.split(r"(?<=[.!?]) (?=[A-Z])", line, maxsplit=1)[0]


def doc(text: str, *, indent: int) -> str:
    """Return a text as a wrapped docstring; blank lines stay."""
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
