"""Published ontologies compile as their authors publish them, alone and offline."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import provml.vocab
from provml.compiler import user_files, write
from provml.model.thing import CLASSES, find_class
from provml.validation import validate

from .helpers import EX, PROV, load, restore_classes, run_mypy, statements, types

FOAF = "http://xmlns.com/foaf/0.1/"

SUITES = Path(os.environ.get("PROVML_SUITES") or Path(__file__).parents[3] / "shared" / "suites")
FILES = sorted(path for path in (SUITES / "ontologies").glob("*") if path.suffix != ".md")
needs_suite = pytest.mark.skipif(not FILES, reason=f"{SUITES / 'ontologies'} does not exist (set PROVML_SUITES)")


@pytest.fixture(autouse=True)
def _classes() -> Iterator[None]:
    assert provml.vocab.prov.Entity.TYPES  # its module is loaded before, so that its classes stay
    classes = dict(CLASSES)
    yield
    restore_classes(classes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the published ontologies compile into: modules, shapes, contexts and pages."""
    folder = tmp_path_factory.mktemp("published")
    for path in FILES:
        module, shapes = folder / f"{path.stem}.py", folder / f"{path.stem}.ttl"
        context, docs = folder / f"{path.stem}.jsonld", folder / f"{path.stem}-docs"
        files, _ = user_files([path], module, shapes=shapes, jsonld=context, docs=docs)
        write(files)
    return folder


@needs_suite
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_published_ontology_compiles_and_its_shapes_accept_its_things(folder, path):
    shapes = folder / f"{path.stem}.ttl"
    vocab = load(folder / f"{path.stem}.py")
    classes = [cls for name in vocab.__all__ if isinstance(cls := getattr(vocab, name), type)]
    assert classes
    things = [cls(f"urn:{number}") for number, cls in enumerate(classes) if not cls.REQUIRED]
    assert len(things) > len(classes) / 2
    for thing in things[:: max(1, len(things) // 50)]:
        assert set(thing.TYPES) == types(thing)
    assert validate(things[:200], only_shapes=[shapes]).conforms


@needs_suite
def test_published_ontologies_are_imported_without_a_warning(folder):
    modules = ",".join(path.stem for path in FILES)
    command = [sys.executable, "-W", "error", "-c", f"import {modules}; [item.__all__ for item in ({modules},)]"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), str(folder)])}
    process = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr) == (0, "")


@needs_suite
@pytest.mark.slow
@pytest.mark.xdist_group("mypy")  # run one after another, because they share the cache of mypy
def test_published_ontologies_are_typed_strictly(folder):
    use = folder / "use.py"
    use.write_text("import doap\n\ndoap.Project('urn:a')\ndoap.Project(1)\n")
    output = run_mypy(folder, *(folder / f"{path.stem}.pyi" for path in FILES), use)
    assert [line.split(": error")[0] for line in output.splitlines()] == ["use.py:4"], output


def test_term_of_a_well_known_vocabulary_brings_its_superclass(compile_turtle):
    turtle = """ex:Author a owl:Class ; rdfs:subClassOf foaf:Person ,
        [ a owl:Restriction ; owl:onProperty foaf:name ; owl:minCardinality 1 ] ."""
    vocab = compile_turtle(turtle, strict=True)
    author = vocab.Author("urn:a", name="Ada")
    assert types(author) == {f"{EX}Author", f"{FOAF}Person", f"{FOAF}Agent"}
    assert (f"{FOAF}name", '"Ada"') in statements(author)


def test_undefined_property_is_of_the_kind_that_its_use_shows(compile_turtle):
    vocab = compile_turtle(
        """ex:A a owl:Class ; rdfs:subClassOf [ owl:onProperty ex:size ; owl:allValuesFrom xsd:integer ] ,
            [ owl:onProperty ex:part ; owl:allValuesFrom ex:A ] . ex:B a owl:Class ."""
    )
    assert {name: vocab.A.FIELDS[name].kind for name in ("size", "part")} == {"size": "integer", "part": "thing"}
    assert "size" not in vocab.B.FIELDS


@pytest.mark.parametrize("place", ["folder", "catalog"])
def test_imports_are_found_in_a_folder_or_by_a_catalog(compile_turtle, place):
    folder = compile_turtle.folder / "imports"
    folder.mkdir()
    compile_turtle.write("<urn:base> a owl:Ontology . ex:Base a owl:Class .", "imports/base.ttl")
    compile_turtle.write("<urn:unused> a owl:Ontology . ex:Unused a owl:Class .", "imports/unused.ttl")
    (folder / "broken.ttl").write_text("not Turtle")
    catalog = folder / "catalog-v001.xml"
    catalog.write_text(
        '<catalog xmlns="urn:oasis:names:tc:entity:xmlns:xml:catalog"><uri name="urn:alias" uri="base.ttl"/></catalog>'
    )
    imported = {"folder": ("urn:base", folder), "catalog": ("urn:alias", catalog)}[place]
    vocab = compile_turtle(
        f"<urn:my> a owl:Ontology ; owl:imports <{imported[0]}> . ex:A a owl:Class ; rdfs:subClassOf ex:Base .",
        imports=(imported[1],),
        strict=True,
    )
    assert vocab.module.__all__ == ["A", "Base"]


SYNTAXES = {
    "zoo.ofn": """Prefix(:=<http://example.org/zoo#>)
Prefix(xsd:=<http://www.w3.org/2001/XMLSchema#>)
Ontology(<urn:zoo> Declaration(Class(:Cat)) Declaration(Class(:Animal)) Declaration(DataProperty(:age))
SubClassOf(:Cat :Animal) DataPropertyDomain(:age :Animal) DataPropertyRange(:age xsd:integer))""",
    "zoo.omn": """Prefix: : <http://example.org/zoo#>
Prefix: xsd: <http://www.w3.org/2001/XMLSchema#>
Ontology: <urn:zoo>
Class: :Animal
Class: :Cat
    SubClassOf: :Animal
DataProperty: :age
    Domain: :Animal
    Range: xsd:integer
""",
    "zoo.owl": """<?xml version="1.0"?>
<Ontology xmlns="http://www.w3.org/2002/07/owl#" ontologyIRI="urn:zoo">
<Prefix name="" IRI="http://example.org/zoo#"/>
<Declaration><Class IRI="http://example.org/zoo#Cat"/></Declaration>
<Declaration><Class IRI="http://example.org/zoo#Animal"/></Declaration>
<Declaration><DataProperty IRI="http://example.org/zoo#age"/></Declaration>
<SubClassOf><Class IRI="http://example.org/zoo#Cat"/><Class IRI="http://example.org/zoo#Animal"/></SubClassOf>
<DataPropertyDomain><DataProperty IRI="http://example.org/zoo#age"/><Class IRI="http://example.org/zoo#Animal"/></DataPropertyDomain>
<DataPropertyRange><DataProperty IRI="http://example.org/zoo#age"/><Datatype IRI="http://www.w3.org/2001/XMLSchema#integer"/></DataPropertyRange>
</Ontology>""",
}


@pytest.mark.parametrize("name", SYNTAXES)
def test_syntaxes_of_owl_that_are_not_rdf(compile_turtle, name):
    path = compile_turtle.folder / name
    path.write_text(SYNTAXES[name], encoding="utf-8")
    cat = compile_turtle.compile(path, strict=True).Cat("urn:tom", age=3)
    assert types(cat) == {f"{EX}Cat", f"{EX}Animal"}
    assert (f"{EX}age", '"3"^^<http://www.w3.org/2001/XMLSchema#integer>') in statements(cat)


def test_prov_as_published_compiles_apart_from_the_bundled_one(compile_turtle):
    turtle = """<http://www.w3.org/ns/prov-o#> a owl:Ontology . prov:Entity a owl:Class .
        prov:Plan a owl:Class ; rdfs:subClassOf prov:Entity ."""
    vocab = compile_turtle(turtle)
    assert types(vocab.Plan("urn:p")) == {f"{PROV}Plan", f"{PROV}Entity"}
    assert find_class(f"{PROV}Entity") is provml.vocab.prov.Entity
