"""Generate Python: for each ontology a module with the table of its classes, and a stub that declares them."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Mapping
from functools import cached_property

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
        self.modules: set[str] = set()
        """Other modules of the vocabulary that the stub has to import."""
        self.names: set[str] = set()
        """Names that the stub has to import."""

    def _terms(self) -> tuple[list[ClassTerm], list[Individual]]:
        """Return the classes, superclasses first, and the individuals of the sources."""
        classes = [cls for _, cls in self.schema.canonical_classes() if cls.source in self.sources]
        individuals = [each for each in self.schema.individuals.values() if each.source in self.sources]
        return (
            sorted(classes, key=lambda cls: (len(cls.ancestors), cls.iri)),
            sorted(individuals, key=lambda each: each.iri),
        )

    def module(self, comment: str, title: str) -> str:
        """Return the text of the module: a table, from which the classes are created when they are first used."""
        classes, individuals = self._terms()
        tables: list[tuple[str, Mapping[str, object]]] = [
            ("classes", {cls.name: self.class_row(cls) for cls in classes}),
            ("individuals", {each.name: self.individual_row(each) for each in individuals}),
            ("renamed", {alias: cls.name for cls in classes for alias in cls.aliases}),
        ]
        parts = (f'"{key}": {{\n{_lines(rows)}}}' for key, rows in tables)
        return f"""{comment}# ruff: noqa
{doc(f"{title}: typed classes. The stub next to this file declares them.", indent=0)}

from provml.model.vocabulary import Vocabulary as _Vocabulary

_VOCABULARY = _Vocabulary(globals(), r'''{{
{",".join(parts)}
}}''')

__all__ = _VOCABULARY.names
__getattr__ = _VOCABULARY.resolve


def __dir__() -> list[str]:
    return __all__
"""

    def class_row(self, cls: ClassTerm) -> dict[str, object]:
        """Return the row of a class in the table of the module."""
        row: dict[str, object] = {
            "iri": cls.iri,
            "bases": [self.reference(parent) for parent in cls.bases],
            "doc": self.documentation(cls),
        }
        equivalents = [iri for iri in cls.equivalents if not self.schema.classes[iri].deprecated]
        if equivalents:
            row["equivalents"] = equivalents
        if cls.own:
            row["fields"] = [_field_row(name, cls.fields[name]) for name in cls.own]
        return row

    def individual_row(self, individual: Individual) -> dict[str, object]:
        """Return the row of an individual: an IRI if its class has required fields, else a thing."""
        row: dict[str, object] = {"iri": individual.iri}
        if not self._is_iri(individual):
            row["class"] = self.reference(individual.class_iri)
            if individual.label:
                row["label"] = individual.label
        return row

    def _is_iri(self, individual: Individual) -> bool:
        fields = self.schema.classes[individual.class_iri].fields
        return any(spec.required for spec in fields.values())

    def stub(self, comment: str, title: str) -> str:
        """Return the text of the stub, which declares the classes for editors and type checkers."""
        classes, individuals = self._terms()
        bodies = [self.write_class(cls) for cls in classes]
        bodies += ["\n".join(self.write_individual(each) for each in individuals)] if individuals else []
        aliases = {alias: cls.name for cls in classes for alias in cls.aliases}
        bodies += ["\n".join(f"{alias} = {name}" for alias, name in sorted(aliases.items())) + "\n"] if aliases else []
        exported = sorted({*(cls.name for cls in classes), *(each.name for each in individuals)})
        names = "".join(f'    "{name}",\n' for name in exported)
        header = f"{comment}# ruff: noqa\n{doc(f'{title}: typed classes.', indent=0)}\n\n{self.write_imports()}"
        return f"{header}\n\n__all__ = [\n{names}]\n\n\n" + "\n\n".join(bodies)

    # ---- parts

    def write_imports(self) -> str:
        typing = sorted({"Any"} & self.names)
        standard = [
            self._import("collections.abc", "Iterable"),
            self._import("datetime", "date", "datetime", "time", "timedelta"),
            self._import("decimal", "Decimal"),
            self._import("pathlib", "PurePath"),
            _import("typing", [*typing, *(["Literal as OneOf"] if "OneOf" in self.names else [])]),
        ]
        own = [
            _import(
                "provml.model.thing", ["Thing", *sorted(self.names & {"Value as _Value", "required as _required"})]
            ),
            self._import("provml.model.values", *VALUE_NAMES),
            _import(PACKAGE, sorted(self.modules)),
        ]
        return "\n\n".join(filter(None, ("\n".join(filter(None, lines)) for lines in (standard, own)))) + "\n"

    def _import(self, module: str, *names: str) -> str:
        """Return the import of those names that the module uses; empty if it uses none."""
        return _import(module, sorted(self.names.intersection(names)))

    def reference(self, iri: str) -> str:
        """Return the name of a class in this module."""
        cls = self.schema.classes[self.schema.canonical[iri]]
        if cls.source in self.sources:
            return cls.name
        module = self.schema.modules[cls.source]
        self.modules.add(module)
        return f"{module}.{cls.name}"

    def write_class(self, cls: ClassTerm) -> str:
        bases = [self.reference(parent) for parent in cls.bases] or ["Thing"]
        lines = [f"class {cls.name}({', '.join(bases)}):", doc(self.documentation(cls), indent=4)]
        for name in cls.own:
            spec = cls.fields[name]
            self.names |= {"Value as _Value", *(["required as _required"] if spec.required else [])}
            default = "_required()" if spec.required else "..."
            lines.append(f"\n    {name}: _Value[{self.read_type(spec)}, {self.parameter_type(spec)}] = {default}")
            lines.append(doc(spec.prop.definition or spec.prop.label, indent=4))
        return "\n".join(lines) + "\n"

    def documentation(self, cls: ClassTerm) -> str:
        """Return the docstring of a class: definition, examples and its own fields."""
        parts = [cls.definition or f"{cls.label[:1].upper()}{cls.label[1:]}."]
        parts += [f"Example: {example}" for example in cls.examples]
        if cls.deprecated:
            advice = " Use one of its subclasses instead." if cls.iri in self._superclasses else ""
            parts.append(f"Deprecated: it exists for older queries.{advice}")
        if cls.own:
            parts.append("\n".join(["Fields:", *(self.field_line(name, cls.fields[name]) for name in cls.own)]))
        count = len(cls.fields) - len(cls.own)
        if count:
            sources = [self.schema.classes[parent].name for parent in cls.parents]
            parts.append(f"Inherits {count} field{'s' if count > 1 else ''} from {', '.join(sources)}.")
        return "\n\n".join(parts).strip()

    @cached_property
    def _superclasses(self) -> set[str]:
        return {parent for _, cls in self.schema.canonical_classes() for parent in cls.parents}

    def field_line(self, name: str, spec: FieldSpec) -> str:
        """Return the line of a field in the docstring of its class, which `help` and editors show."""
        required = " (required)" if spec.required else ""
        text = f"{name}{required}: {first_sentence(spec.prop.definition) or spec.prop.label}"
        lines = textwrap.wrap(text, 112, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
        return "\n".join(f"    {line}" for line in lines)

    def write_individual(self, individual: Individual) -> str:
        if self._is_iri(individual):
            self.names.add("IRI")
        kind = "IRI" if self._is_iri(individual) else self.reference(individual.class_iri)
        text = individual.definition or individual.label or individual.name
        return f"{individual.name}: {kind}\n{doc(text, indent=0)}\n"

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
            self.names.add("Iterable")
            annotation = f"{annotation} | Iterable[{annotation}]"
        return annotation if spec.required else f"{annotation} | None"


def _field_row(name: str, spec: FieldSpec) -> list[object]:
    """Return the row of a field in the table of its class: name, property, kind and options of `Field`."""
    options: dict[str, object] = {}
    if spec.single:
        options["single"] = True
    if spec.required:
        options["min_count"] = spec.min_count
    if spec.max_count is not None:
        options["max_count"] = spec.max_count
    if not spec.prop.is_object:
        options |= _data_options(spec.data)
    elif spec.ranges:
        options["ranges"] = [sorted(names) for names in spec.ranges]
    if spec.prop.super_properties:
        options["super_properties"] = spec.prop.super_properties
    if spec.prop.inverse is not None:
        options["inverse"] = spec.prop.inverse
    row: list[object] = [name, spec.prop.iri, spec.kind]
    return [*row, options] if options else row


def _data_options(data: DataRange) -> dict[str, object]:
    """Return the options of a field for a data range."""
    options = {"datatype": data.datatype, "limits": data.limits, "pattern": data.pattern, "choices": data.choices}
    return {name: value for name, value in options.items() if value}


def _lines(rows: Mapping[str, object]) -> str:
    """Return the members of a JSON object, one a line, for the inside of a raw string in triple quotes."""
    return ",\n".join(f"{_json(name)}: {_json(row)}" for name, row in rows.items()) + ("\n" if rows else "")


def _json(value: object) -> str:
    return json.dumps(value).replace("'", "\\u0027")


def quote(text: str) -> str:
    """Return a text as a Python literal; JSON and Python share the escapes."""
    return json.dumps(text, ensure_ascii=False)


def _import(module: str, names: list[str]) -> str:
    return f"from {module} import {', '.join(names)}" if names else ""


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
