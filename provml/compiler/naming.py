"""Python names for terms: what a class, a field or an individual is called in the module made of it."""

from __future__ import annotations

import builtins
import keyword
import re

from provml.things import Thing

IN_MODULES = frozenset(
    [
        "ClassVar",
        "Decimal",
        "Enum",
        "Field",
        "IRI",
        "Iterable",
        "Literal",
        "Mapping",
        "OneOf",
        "PurePath",
        "Scalar",
        "TYPE_CHECKING",
        "Text",
        "Thing",
        "Any",
        "annotations",
        "date",
        "datetime",
        "time",
        "timedelta",
        "prov",
        "mls",
        "provlake",
        "provml",
        "dl",
        "deprecated_name",
    ]
)
"""Names that a generated module uses for itself."""

RESERVED = IN_MODULES | frozenset(dir(builtins)) | frozenset(keyword.kwlist) | frozenset(keyword.softkwlist)
TAKEN_BY_THING = frozenset({"self", "also", "values", *(name for name in dir(Thing) if not name.startswith("__"))})


def identifier(text: str) -> str:
    """Text as a Python identifier: what is none becomes `_`, a leading digit gets one before it."""
    name = re.sub(r"\W", "_", text) or "_"
    return f"_{name}" if name[0].isdigit() else name


def class_name(local: str) -> str:
    """A class keeps its local name; one that Python or the module needs gets a trailing `_`."""
    name = identifier(local)
    return f"{name}_" if name in RESERVED else name


def field_name(local: str) -> str:
    """A property's local name in snake case: wasGeneratedBy becomes was_generated_by, class becomes class_."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", identifier(local)).lower()
    return f"{name}_" if name in RESERVED or name in TAKEN_BY_THING else name


def constant_name(local: str) -> str:
    """An individual's local name in capitals: RawRole becomes RAW_ROLE."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", identifier(local)).upper()
