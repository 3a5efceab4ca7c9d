"""`provml query`: SPARQL as an argument, from a file or from standard input."""

from __future__ import annotations

from pathlib import Path

import pytest

from .helpers import STATUS_QUERY, error_of, invoke, json_of, make_folder, output_of


def test_a_query_comes_from_an_argument_a_file_or_standard_input(recorded_home: Path, tmp_path: Path):
    file = tmp_path / "status.rq"
    file.write_text(STATUS_QUERY)
    plain = tmp_path / "query.txt"
    plain.write_text(STATUS_QUERY)
    table = output_of(recorded_home, "query", STATUS_QUERY)
    assert table.splitlines()[2:] == ["run/broken-1   FAILED", "run/flowers-1  FINISHED"]
    assert output_of(recorded_home, "query", str(file)) == table
    assert output_of(recorded_home, "query", str(plain)) == table
    assert output_of(recorded_home, "query", "-", text=STATUS_QUERY) == table
    rows = json_of(recorded_home, "query", STATUS_QUERY)
    assert rows[0] == {"run": "https://w3id.org/provml/run/broken-1", "status": "FAILED"}
    assert output_of(recorded_home, "query", STATUS_QUERY, "--format", "csv").startswith("run,status\n")


def test_ask_and_construct_queries_are_answered(recorded_home: Path):
    assert output_of(recorded_home, "query", "ASK { ?x a provml:Model }") == "true\n"
    assert output_of(recorded_home, "query", "ASK { ?x a provml:Nothing }") == "false\n"
    assert output_of(recorded_home, "query", "SELECT ?x { ?x a provml:Nothing }") == "No rows.\n"
    triples = json_of(recorded_home, "query", "CONSTRUCT { ?x a prov:Plan } WHERE { ?x a provml:Training }")
    assert triples[0]["predicate"].endswith("#type")


def test_an_invalid_query_is_rejected_with_the_reason(recorded_home: Path, tmp_path: Path):
    assert "Invalid query" in error_of(recorded_home, "query", "SELECT nonsense {")
    assert "Invalid query" in error_of(recorded_home, "query", "INSERT DATA { <a:b> <a:c> <a:d> }")
    assert "nowhere.rq: no such file" in error_of(recorded_home, "query", "nowhere.rq")
    assert "queries/nowhere: no such file" in error_of(recorded_home, "query", "queries/nowhere")
    (tmp_path / "nothing.rq").write_text("# a note\n")
    for empty in ("", "  ", "# a note", "PREFIX ex: <http://example.org/#>\n# no more", str(tmp_path / "nothing.rq")):
        assert "The query is empty. Pass one, such as 'SELECT" in error_of(recorded_home, "query", empty)
    binary = tmp_path / "x.rq"
    binary.write_bytes(b"\xff\xfe\x00")
    assert "the text is not UTF-8" in error_of(recorded_home, "query", str(binary))
    assert "it is a directory" in error_of(recorded_home, "query", str(make_folder(tmp_path / "y.rq")))


def test_a_mistake_in_a_query_is_marked_on_standard_error(recorded_home: Path):
    assert error_of(recorded_home, "query", "SELEC ?x { ?x a ?y }") == (
        "provml: Invalid query at line 1, column 1: SELEC is not a keyword. Did you mean SELECT?\n"
        "  SELEC ?x { ?x a ?y }\n"
        "  ^^^^^\n"
    )


def test_an_unknown_term_is_noted_on_standard_error(recorded_home: Path, tmp_path: Path):
    note = "provml: provml:Modl is not a term of the ontology; did you mean provml:Model?\n"
    select = "SELECT ?x { ?x a provml:Modl }"
    for arguments, output in (
        ((select,), "No rows.\n"),
        ((select, "--format", "json"), "[]\n"),
        (("ASK { ?x a provml:Modl }",), "false\n"),
        ((select, "-o", str(tmp_path / "rows.txt")), ""),
        ((select, "-o", str(tmp_path / "rows.csv")), ""),
    ):
        result = invoke(recorded_home, "query", *arguments)
        assert (result.exit_code, result.stdout) == (0, output)
        assert result.stderr.endswith(note)
    assert invoke(recorded_home, "query", "SELECT ?x { ?x a provml:Model }").stderr == ""


@pytest.mark.parametrize("extension", ["csv", "tsv", "json", "srx", "srj"])
def test_a_file_is_streamed_with_the_same_rows_as_the_terminal(recorded_home: Path, tmp_path: Path, extension: str):
    path = tmp_path / f"rows.{extension}"
    formats = {"srx": "sparql-xml", "srj": "sparql-json"}
    sparql = "SELECT ?s ?o { ?s a ?o } ORDER BY ?s ?o"
    printed = output_of(recorded_home, "query", sparql, "--format", formats.get(extension, extension))
    output_of(recorded_home, "query", sparql, "-o", str(path))
    assert path.read_bytes().decode() == printed


def test_a_format_for_triples_is_refused_for_rows_and_leaves_no_file(recorded_home: Path, tmp_path: Path):
    path = tmp_path / "rows.ttl"
    assert "format for triples" in error_of(recorded_home, "query", "SELECT * { ?s ?p ?o }", "-o", str(path))
    assert not path.exists()
