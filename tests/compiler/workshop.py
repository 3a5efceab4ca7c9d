"""A small workshop for the tests of the compiler: write an ontology, compile it, import what came out."""

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
from provml.rdf import ntriples
from provml.things import CLASSES, Thing

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
class Made:
    """What one compilation gave."""

    folder: Path
    module: ModuleType
    code: str
    shapes: str
    context: str
    page: str
    notes: list[str]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.module, name)

    def noted(self, *words: str) -> bool:
        """Whether one note has all of these words."""
        return any(all(word in note for word in words) for note in self.notes)


class Workshop:
    """Compiles Turtle in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0

    def write(self, turtle: str, name: str = "my.ttl") -> Path:
        path = self.folder / name
        path.write_text(PREFIXES + turtle, encoding="utf-8")
        return path

    def __call__(self, turtle: str, *more: Path, imports: tuple[Path, ...] = ()) -> Made:
        return self.compile(self.write(turtle), *more, imports=imports)

    def compile(self, *paths: Path, imports: tuple[Path, ...] = ()) -> Made:
        """Compile files, look at everything that was written with a parser of its kind, and import the module."""
        self.count += 1
        name = f"vocab_{self.count}"
        module, shapes = self.folder / f"{name}.py", self.folder / "shapes.ttl"
        context, docs = self.folder / "context.jsonld", self.folder / "docs"
        files, notes = user_files(paths, module, imports=imports, shapes=shapes, jsonld=context, docs=docs)
        write(files)
        list(ox.parse(shapes.read_bytes(), ox.RdfFormat.TURTLE))
        for picture in docs.glob("*.svg"):
            ElementTree.fromstring(picture.read_bytes())
        page = (docs / f"{paths[0].stem}.md").read_text(encoding="utf-8")
        code = module.read_text(encoding="utf-8")
        loaded = load(module)
        return Made(self.folder, loaded, code, shapes.read_text("utf-8"), context.read_text("utf-8"), page, notes)


def load(path: Path) -> ModuleType:
    """A module from its file; the classes of other tests' modules are forgotten after each test."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def forget(known: dict[str, type[Thing]]) -> None:
    """Bring the registry of classes back to what it was."""
    CLASSES.clear()
    CLASSES.update(known)


def said(thing: Thing) -> set[tuple[str, str]]:
    """What is written of a thing, as predicate and object; an object is an IRI or as N-Triples has it."""
    quads = ox.parse(ntriples(thing), ox.RdfFormat.N_TRIPLES)
    return {
        (quad.predicate.value, quad.object.value if isinstance(quad.object, ox.NamedNode) else str(quad.object))
        for quad in quads
        if isinstance(quad.subject, ox.NamedNode) and quad.subject.value == thing.iri
    }


def types(thing: Thing) -> set[str]:
    """The types that are written of a thing."""
    return {node for predicate, node in said(thing) if predicate == TYPE}


def check_types(folder: Path, *files: Path) -> str:
    """What `mypy --strict` says of some files in a folder."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--follow-imports=silent"]
    environment = {
        **os.environ,
        "MYPYPATH": str(Path(__file__).parents[2]),
    }  # the checkout, also where it is not installed
    command += [file.name for file in files]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False).stdout
