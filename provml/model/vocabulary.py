"""Generated modules: their classes are created when they are first used.

`provml compile` writes two files for an ontology. The stub (`.pyi`) declares the classes for editors and type checkers.
The module (`.py`) has the same facts as a table, so that its import does not take longer the more classes there are.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from functools import partial
from threading import RLock
from typing import Any

from provml.model.field import Field
from provml.model.thing import VOCABULARY, Thing, register_pending, resolve_renamed
from provml.model.values import IRI

_LOCK = RLock()
"""Two threads must not create the same class twice."""


class Vocabulary:
    """The terms of a generated module.

    The table has `classes`, `individuals` (both by name) and `renamed` (current names by former names). `package` is
    the package of other modules that the table refers to as `module.Name`.
    """

    def __init__(self, namespace: dict[str, Any], table: str, package: str = VOCABULARY) -> None:
        rows = json.loads(table)
        self.namespace = namespace
        self.package = package
        self.classes: dict[str, dict[str, Any]] = rows["classes"]
        self.individuals: dict[str, dict[str, Any]] = rows["individuals"]
        self.renamed: dict[str, str] = rows["renamed"]
        for name, row in self.classes.items():
            register_pending(row["iri"], namespace["__name__"], partial(self.resolve, name))

    @property
    def names(self) -> list[str]:
        """Names of all classes and individuals."""
        return sorted({*self.classes, *self.individuals})

    def resolve(self, name: str) -> Any:
        """Return a class or an individual, created if need be; called by the `__getattr__` of the module."""
        if name not in self.classes and name not in self.individuals:
            return resolve_renamed(self.namespace["__name__"], self.resolve, self.renamed, name)
        with _LOCK:
            if name not in self.namespace:
                create = self._create_class if name in self.classes else self._create_individual
                self.namespace[name] = create(name)
            return self.namespace[name]

    def _create_class(self, name: str) -> type[Thing]:
        row = self.classes[name]
        bases = tuple(self._refer(base) for base in row["bases"]) or (Thing,)
        attributes = {
            "__doc__": row["doc"],
            "__module__": self.namespace["__name__"],
            "__slots__": (),
            "CLASS_IRI": row["iri"],
            "OWN_TYPES": (row["iri"], *row.get("equivalents", ())),
            "OWN_FIELDS": tuple(_field(*field) for field in row.get("fields", ())),
        }
        return type(name, bases, attributes)

    def _create_individual(self, name: str) -> Thing | IRI:
        row = self.individuals[name]
        if "class" not in row:
            return IRI(row["iri"])
        thing: Thing = self._refer(row["class"])(row["iri"], label=row.get("label"))
        return thing

    def _refer(self, reference: str) -> Any:
        """Return a class of this module, or of another one that the reference names."""
        module, _, name = reference.rpartition(".")
        return getattr(importlib.import_module(f"{self.package}.{module}"), name) if module else self.resolve(name)


def _field(name: str, iri: str, kind: str, options: Mapping[str, Any] | None = None) -> Field:
    """Return a field from its row; JSON has lists where a field has tuples."""
    return Field(name, iri, kind, **{option: _to_tuple(value) for option, value in (options or {}).items()})


def _to_tuple(value: Any) -> Any:
    return tuple(map(_to_tuple, value)) if isinstance(value, list) else value
