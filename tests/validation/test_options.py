"""Options of a validation, alike in Python and on the command line: shapes, inference, languages and formats."""

from __future__ import annotations

import json
from pathlib import Path

import pyoxigraph as ox
import pytest
from click.testing import CliRunner, Result

import provml
from provml.cli import main
from provml.errors import WrongValue
from provml.validation import EngineName, validate
from provml.validation.engine import ENGINES

HEAD = """@prefix : <http://example.org/> . @prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix prov: <http://www.w3.org/ns/prov#> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
"""
EX = "http://example.org/"


def write(folder: Path, **texts: str) -> dict[str, Path]:
    paths = {name: folder / f"{name}.ttl" for name in texts}
    for name, text in texts.items():
        paths[name].write_text(HEAD + text)
    return paths


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["validate", *map(str, arguments)])


# ---- shapes


def test_shapes_add_and_only_shapes_replace_in_python_and_on_the_command_line(tmp_path: Path):
    named = ":S sh:targetClass :C ; sh:property [ sh:path :name ; sh:minCount 1 ; sh:message 'It has no name.' ] ."
    own = ":T sh:targetClass :C ; sh:property [ sh:path :size ; sh:minCount 1 ; sh:message 'It has no size.' ] ."
    # an activity that ends before it starts violates a shape of provml
    data = """:a a :C . :b a prov:Activity ; prov:startedAtTime '2020-01-02T00:00:00Z'^^xsd:dateTime ;
        prov:endedAtTime '2020-01-01T00:00:00Z'^^xsd:dateTime ."""
    files = write(tmp_path, data=data, named=named, own=own)
    home = tmp_path / "home"
    with provml.open(home, create=True) as store:
        store.load(files["data"])
        (home / "shapes").mkdir()
        (home / "shapes" / "own.ttl").write_text(HEAD + own)
        added = {result.message for result in store.validate(None, files["named"])}
        only = {result.message for result in store.validate(None, only_shapes=files["named"])}
    assert {"It has no name.", "It has no size."} < added
    assert only == {"It has no name."}
    assert {result.message for result in validate(files["data"], files["named"])} == added - {"It has no size."}
    assert {result.message for result in validate(files["data"], only_shapes=files["named"])} == only
    for target in ([files["data"]], ["--all"]):
        for option, expected in (("--shapes", added), ("--only-shapes", only)):
            output = run(*target, option, files["named"], "--format", "json", "--home", home).output
            assert {result["message"] for result in json.loads(output)["results"]} == expected


def test_what_pyshacl_validates_has_the_prefixes_of_the_file_and_shapes_without_statements(tmp_path: Path):
    shapes = """:inc a sh:SPARQLFunction ; sh:parameter [ sh:path :op1 ; sh:datatype xsd:integer ] ;
        sh:returnType xsd:integer ; sh:select "SELECT ($op1 + 1 AS ?r) {}" .
        :S a sh:NodeShape ; sh:targetClass :C ; sh:node :Nowhere ; sh:property [ sh:path :q ; sh:node :S ] ;
            sh:sparql [ sh:select "SELECT $this ?value { $this :p ?value FILTER (:inc(?value) > 5) }" ] ."""
    files = write(tmp_path, data=":a a :C ; :p 7 ; :q :b . :b :p 1 .", shapes=shapes)
    folder = tmp_path / "profile"
    folder.mkdir()
    files["shapes"].rename(folder / "shapes.ttl")
    (folder / "classes.ttl").write_text(f"{HEAD} :C rdfs:subClassOf :D .")  # a folder may hold more than shapes
    result = run(files["data"], "--only-shapes", folder)
    assert result.exit_code == 1
    assert "passed to pySHACL: http://example.org/S" in result.output
    assert "note: The shape <http://example.org/S> refers to <http://example.org/Nowhere>" in result.output


# ---- inference

SUBCLASS = """:Dog rdfs:subClassOf :Animal . :rex a :Dog ; :owner :ann .
    :feeds rdfs:subPropertyOf :owner . :tom a :Cat ; :feeds :x ."""
ANIMAL = ":S sh:targetClass :Animal ; sh:property [ sh:path :name ; sh:minCount 1 ] ."
OWNED = ":S sh:targetSubjectsOf :owner ; sh:property [ sh:path :name ; sh:minCount 1 ] ."
PERSON = ":S sh:targetSubjectsOf :by ; sh:property [ sh:path :by ; sh:class prov:Agent ] ."


@pytest.mark.parametrize(
    ("data", "shapes", "counts"),
    [
        (SUBCLASS, ANIMAL, {"none": 1, "types": 1, "rdfs": 1}),  # SHACL follows rdfs:subClassOf in the data
        (SUBCLASS, OWNED, {"none": 1, "types": 1, "rdfs": 2}),
        (":x :by :y . :y a prov:Person .", PERSON, {"none": 1, "types": 0, "rdfs": 0}),
        (":p rdfs:domain :Animal . :x :p 1 .", ANIMAL, {"none": 0, "types": 0, "rdfs": 1}),
    ],
)
def test_a_file_and_the_same_data_in_a_store_get_the_same_verdict(
    data: str, shapes: str, counts: dict[str, int], tmp_path: Path
):
    files = write(tmp_path, data=data, shapes=shapes)
    with provml.open(tmp_path / "home", create=True) as store:
        store.load(files["data"])
        for inference, count in counts.items():
            for engine in ENGINES:
                options = {"only_shapes": files["shapes"], "inference": inference, "engine": engine}
                assert len(validate(files["data"], **options)) == count, options  # type: ignore[arg-type]
                assert len(store.validate(None, **options)) == count, options  # type: ignore[arg-type]
    output = run(files["data"], "--only-shapes", files["shapes"], "--inference", "rdfs", "--format", "json").output
    assert len(json.loads(output)["results"]) == counts["rdfs"]


def test_owl_rl_finds_what_rdfs_does_not(tmp_path: Path):
    data = ":likes a owl:SymmetricProperty . :a :likes :b . :b :name 'b' ."
    shapes = ":S sh:targetSubjectsOf :likes ; sh:property [ sh:path :name ; sh:minCount 1 ] ; sh:nodeKind sh:IRI ."
    files = write(tmp_path, data=data, shapes=f"{shapes} :T sh:targetSubjectsOf :likes ; sh:closed true .")
    focus = {}
    for inference in ("rdfs", "owlrl"):
        report = validate(files["data"], only_shapes=files["shapes"], inference=inference)  # type: ignore[arg-type]
        focus[inference] = {result.focus for result in report if result.path == f"{EX}likes"}
    assert focus == {"rdfs": {f"{EX}a"}, "owlrl": {f"{EX}a", f"{EX}b"}}
    with pytest.raises(WrongValue, match="Use one of none, types, rdfs, owlrl"):
        validate(files["data"], inference="all")  # type: ignore[arg-type]


# ---- messages, severities, paths and formats

LANGUAGES = """:S sh:targetClass :C ; sh:severity :Serious ; sh:property [
    sh:path ( [ sh:inversePath :part ] :name ) ; sh:minCount 1 ; sh:severity sh:Warning ;
    sh:message "Il n'a pas de nom."@fr , "It has no name."@en , "Er hat keinen Namen."@de ] ;
    sh:nodeKind sh:Literal ."""


@pytest.mark.parametrize("engine", ENGINES)
def test_languages_severities_and_paths_survive(engine: EngineName, tmp_path: Path):
    files = write(tmp_path, data=":a\n  a :C .", shapes=LANGUAGES)
    report = validate(files["data"], only_shapes=files["shapes"], engine=engine, label=str(files["data"]))
    [warning] = [result for result in report if result.severity == "Warning"]
    assert warning.message == "It has no name."
    assert [language for _, language in warning.messages] == ["en", "de", "fr"]
    store = ox.Store()
    store.load(report.to_rdf(), format=ox.RdfFormat.TURTLE)
    rows = store.query(
        """PREFIX sh: <http://www.w3.org/ns/shacl#> PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#>
        SELECT ?language ?inverse ?next {
            ?r sh:resultSeverity sh:Warning ; sh:resultMessage ?text ; sh:resultPath ?path .
            ?path rdf:first/sh:inversePath ?inverse ; rdf:rest/rdf:first ?next BIND(LANG(?text) AS ?language) }"""
    )
    expected = {(language, f"{EX}part", f"{EX}name") for language in ("de", "en", "fr")}
    assert {tuple(term.value for term in row) for row in rows} == expected  # type: ignore[union-attr]
    assert f"<{EX}Serious>" in report.to_rdf()
    [fields] = [result for result in json.loads(report.to_json())["results"] if result["severity"] == "Warning"]
    assert {"text": "Er hat keinen Namen.", "language": "de"} in fields["messages"]
    sarif = json.loads(report.to_sarif())
    assert sarif["version"] == "2.1.0"
    [sarif_run] = sarif["runs"]
    levels = {item["properties"]["severity"]: item["level"] for item in sarif_run["results"]}
    assert levels == {"Warning": "warning", f"{EX}Serious": "warning"}
    for item in sarif_run["results"]:
        assert sarif_run["tool"]["driver"]["rules"][item["ruleIndex"]]["id"] == item["ruleId"]
        [location] = item["locations"]
        assert location["physicalLocation"]["artifactLocation"]["uri"].endswith("data.ttl")
        assert location["physicalLocation"]["region"]["startLine"] == HEAD.count("\n") + 1


def test_the_command_line_writes_sarif_for_a_file(tmp_path: Path):
    files = write(tmp_path, data=":a a :C .", shapes=":S sh:targetClass :C ; sh:nodeKind sh:Literal .")
    result = run(files["data"], "--only-shapes", files["shapes"], "-o", tmp_path / "report.sarif")
    assert result.exit_code == 1
    [sarif_run] = json.loads((tmp_path / "report.sarif").read_text())["runs"]
    assert [item["level"] for item in sarif_run["results"]] == ["error"]
