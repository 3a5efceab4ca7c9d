"""Helpers for the tests of the compiler: write an ontology, compile it and import the result."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pyoxigraph as ox

from provml.compiler import user_files, write
from provml.model.thing import CLASSES, Thing
from provml.rdf import ntriples

PREFIXES = """
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix dcterms: <http://purl.org/dc/terms/> .
@prefix foaf: <http://xmlns.com/foaf/0.1/> .
@prefix prov: <http://www.w3.org/ns/prov#> .
@prefix provml: <https://w3id.org/provml#> .
@prefix ex: <http://example.org/zoo#> .
@prefix ey: <http://example.org/other/> .
"""
EX = "http://example.org/zoo#"
PROV = "http://www.w3.org/ns/prov#"
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"


@dataclass
class Compiled:
    """The output of one compilation."""

    folder: Path
    module: ModuleType
    code: str
    stub: str
    shapes: str
    context: str
    page: str
    notes: list[str]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.module, name)

    def has_note(self, *texts: str) -> bool:
        """Return whether one note contains all of the texts."""
        return any(all(text in note for text in texts) for note in self.notes)


class OntologyCompiler:
    """Compiles Turtle in a directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0

    def write(self, turtle: str, name: str = "my.ttl") -> Path:
        path = self.folder / name
        path.write_text(PREFIXES + turtle, encoding="utf-8")
        return path

    def __call__(self, turtle: str, *more: Path, imports: tuple[Path, ...] = (), strict: bool = False) -> Compiled:
        return self.compile(self.write(turtle), *more, imports=imports, strict=strict)

    def compile(self, *paths: Path, imports: tuple[Path, ...] = (), strict: bool = False) -> Compiled:
        """Compile files, parse every output, and import the module."""
        self.count += 1
        name = f"vocab_{self.count}"
        module, shapes = self.folder / f"{name}.py", self.folder / "shapes.ttl"
        context, docs = self.folder / "context.jsonld", self.folder / "docs"
        outputs = {"shapes": shapes, "jsonld": context, "docs": docs}
        files, notes = user_files(paths, module, imports=imports, strict=strict, **outputs)
        write(files)
        list(ox.parse(shapes.read_bytes(), ox.RdfFormat.TURTLE))
        for picture in docs.glob("*.svg"):
            ElementTree.fromstring(picture.read_bytes())
        page = (docs / f"{paths[0].stem}.md").read_text(encoding="utf-8")
        code = module.read_text(encoding="utf-8")
        loaded = load(module)
        stub = module.with_suffix(".pyi").read_text(encoding="utf-8")
        texts = (code, stub, shapes.read_text("utf-8"), context.read_text("utf-8"), page)
        return Compiled(self.folder, loaded, *texts, notes)


def load(path: Path) -> ModuleType:
    """Import a module from its file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def restore_classes(classes: dict[str, type[Thing]]) -> None:
    """Reset the registry of classes, which forgets the classes of a test's modules."""
    CLASSES.clear()
    CLASSES.update(classes)


def statements(thing: Thing) -> set[tuple[str, str]]:
    """Return predicate and object of every triple of a thing; an object is an IRI or an N-Triples literal."""
    quads = ox.parse(ntriples(thing), ox.RdfFormat.N_TRIPLES)
    return {
        (quad.predicate.value, quad.object.value if isinstance(quad.object, ox.NamedNode) else str(quad.object))
        for quad in quads
        if isinstance(quad.subject, ox.NamedNode) and quad.subject.value == thing.iri
    }


def types(thing: Thing) -> set[str]:
    """Return the types of a thing."""
    return {node for predicate, node in statements(thing) if predicate == TYPE}


def run_mypy(folder: Path, *files: Path) -> str:
    """Return the output of `mypy --strict` for files of a directory.

    The options are those of the check of the whole package, so that both use one cache.
    """
    checkout = Path(__file__).parents[2]
    command = [sys.executable, "-m", "mypy", "--no-error-summary", f"--config-file={checkout / 'pyproject.toml'}"]
    command += [file.name for file in files]
    environment = {**os.environ, "MYPYPATH": str(checkout)}  # provml need not be installed
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False).stdout
