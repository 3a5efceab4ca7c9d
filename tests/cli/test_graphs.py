"""`provml load`, `graphs` and `unload`: RDF of one's own beside the runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from .helpers import error_of, json_of, output_of

PEOPLE = "http://example.org/people"


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.ttl"
    path.write_text("@prefix ex: <http://example.org/> . ex:ann a <http://www.w3.org/ns/prov#Person> .")
    return path


def test_files_are_loaded_listed_and_unloaded(home: Path, people: Path):
    assert "Loaded 1 triple of" in output_of(home, "load", str(people))
    output_of(home, "load", str(people), "--graph", PEOPLE)
    output_of(home, "load", str(people), "--graph", PEOPLE)
    rows = json_of(home, "graphs")
    assert [(row["graph"], row["source"], row["triples"]) for row in rows] == [
        ("default", str(people), 1),
        (PEOPLE, str(people), 1),
    ]
    assert json_of(home, "query", "SELECT ?x { ?x a prov:Person }")
    assert output_of(home, "unload", PEOPLE) == "Removed 1 triple of 1 source\n"
    assert output_of(home, "unload", "--all") == "Removed 1 triple of 1 source\n"
    assert output_of(home, "graphs") == "Nothing was loaded. Load RDF with `provml load FILE`.\n"
    assert "Nothing was loaded here" in error_of(home, "unload", PEOPLE)


def test_loading_creates_the_home_and_wrong_files_do_not(tmp_path: Path, people: Path):
    new = tmp_path / "new"
    assert "does not exist" in error_of(new, "load", "nowhere.ttl")
    assert not new.exists()
    output_of(new, "load", str(people))
    assert [row["triples"] for row in json_of(new, "graphs")] == [1]


def test_a_wrong_name_or_format_says_what_to_do(home: Path, tmp_path: Path, people: Path):
    assert "not an absolute IRI" in error_of(home, "load", str(people), "--graph", "people")
    assert "Only loaded graphs can be changed" in error_of(
        home, "load", str(people), "--graph", "https://w3id.org/provml"
    )
    (tmp_path / "notes.txt").write_text("x")
    assert "Use one of .ttl" in error_of(home, "load", str(tmp_path / "notes.txt"))
    assert "--all" in error_of(home, "unload")


def test_updates_change_loaded_graphs_and_refuse_recorded_runs(home: Path, people: Path):
    output_of(home, "load", str(people))
    insert = f'INSERT {{ GRAPH <{PEOPLE}> {{ ?x rdfs:label "ann" }} }} WHERE {{ ?x a prov:Person }}'
    assert output_of(home, "update", insert) == "Added 1 triple, removed 0\n"
    assert "Not done" in error_of(home, "update", "DELETE WHERE { ?run provlake:status ?status }")
    assert "this is no update" in error_of(home, "update", "ASK { ?s ?p ?o }")


def test_inference_is_an_option_of_query(home: Path, people: Path):
    output_of(home, "load", str(people))
    query = "SELECT ?x { ?x a prov:Agent FILTER(STRSTARTS(STR(?x), 'http://example.org/')) }"
    assert json_of(home, "query", query) == []
    assert json_of(home, "query", query, "--inference") == [{"x": "http://example.org/ann"}]
