"""The SPARQL engine: the results of pySHACL for shapes of all kinds, and clear errors for invalid shapes."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyoxigraph as ox
import pytest
from examples_count import examples
from hypothesis import given, settings

from provml.errors import FileFormatError
from provml.validation import EngineName, Report, Result, pyshacl_engine
from provml.validation import engine as engines
from provml.validation.graph import load_graph
from provml.validation.shacl import compile_shapes, validate
from provml.validation.shacl.execute import find_results
from provml.validation.shacl.exists_rewrite import rewrite_exists
from provml.validation.shacl.result import ShaclResult
from provml.validation.shape_files import builtin_shapes
from validation.results import by_pyshacl, by_sparql, load
from validation.shape_strategies import cases
from validation.test_shapes import BROKEN, GOOD

PREFIXES = """@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix : <http://example.org/> .
"""
ROOT = Path(__file__).parents[2]
EX = "http://example.org/"
DECLARED = f'[] a owl:Ontology ; sh:declare [ sh:prefix "" ; sh:namespace "{EX}" ] .\n'


def write(folder: Path, data: str, shapes: str) -> tuple[Path, Path]:
    paths = folder / "data.ttl", folder / "shapes.ttl"
    for path, text in zip(paths, (data, shapes), strict=True):
        path.write_text(PREFIXES + text)
    return paths


def results(folder: Path, data: str, shapes: str) -> list[ShaclResult]:
    data_file, shape_file = write(folder, data, shapes)
    return list(find_results(load_graph(data_file), compile_shapes(shape_file)))


def compare(folder: Path, data: str, shapes: str) -> int:
    """Return the number of results; fail if the engines disagree."""
    data_file, shape_file = write(folder, data, shapes)
    compiled = compile_shapes(shape_file)
    assert not compiled.delegated
    ours = by_sparql(load_graph(data_file), compiled)
    assert ours == by_pyshacl(data_file, shape_file)
    return ours.total()


# ---- agreement with pySHACL


@settings(max_examples=examples(80))
@given(cases())
def test_random_shapes_give_the_results_of_pyshacl_on_random_graphs(case: tuple[str, str]):
    with tempfile.TemporaryDirectory() as folder:
        data_file, shape_file = write(Path(folder), *case)
        compiled = compile_shapes(shape_file)
        if compiled.delegated:
            assert "zero steps" in str(compiled.delegated)
            return
        assert by_sparql(load_graph(data_file), compiled) == by_pyshacl(data_file, shape_file)


def test_the_builtin_shapes_are_all_supported_and_give_the_results_of_pyshacl():
    shapes = compile_shapes(builtin_shapes())
    assert not shapes.delegated
    data = GOOD + "\n".join(BROKEN.values()).encode() + b"\n"
    ours, theirs = validate(load_graph(data), shapes), pyshacl_engine.validate(data)
    assert len(ours) > len(BROKEN)

    def without_blank_names(report: Report) -> Counter[Result]:
        # pySHACL drops the language of a message of a query
        plain = (replace(item, messages=()) for item in report)
        return Counter(replace(item, shape="_:") if item.shape.startswith("_:") else item for item in plain)

    assert without_blank_names(ours) == without_blank_names(theirs)
    assert str(ours).count("\n- ") == str(theirs).count("\n- ")


DATA = """
:a a :C ; :p 1 , 2 ; :q :b ; :name "a" .
:b a :C ; :p 3 ; :q :c , :d .
:c a :C ; :q :a ; :name "c"@en .
:d a :C ; :p 1 , 2 , 3 , 4 ; :q [ a :C ; :p 2 ] ; :odd:name 1 .
:e a :C ; :q :f . :f :r :g . :g :q :f .
:lone a :D .
"""

QUERIES = {
    "a filter on $this alone": "SELECT $this { FILTER ($this = :a) }",
    "a value": "SELECT $this ?value { $this :p ?value FILTER (?value > 2) }",
    "a path": "SELECT $this ?path ?value { $this :p ?value BIND (:other AS ?path) FILTER (?value > 2) }",
    "a variable for the message": "SELECT $this ?value ?more { $this :q ?value . ?value :p ?more }",
    "inner groups": "SELECT $this { { { FILTER ($this = :b) } FILTER bound($this) } }",
    "either of two": "SELECT $this { { $this :p 1 } UNION { FILTER ($this = :c) } }",
    "an option": "SELECT $this { OPTIONAL { $this :name ?n } FILTER (!bound(?n)) }",
    "an option with a filter": "SELECT $this ?n { OPTIONAL { ?n :q ?x FILTER (?x = $this) } FILTER bound(?n) }",
    "a query in it": "SELECT $this { { SELECT $this (COUNT(?v) AS ?n) { $this :p ?v } GROUP BY $this } FILTER (?n>1) }",
    "an order and a limit": "SELECT $this ?value { $this :p ?value } ORDER BY DESC(?value) LIMIT 1",
    "groups": "SELECT $this (SUM(?v) AS ?value) { $this :p ?v } GROUP BY $this HAVING (COUNT(?v) > 1)",
    "no two steps": "SELECT $this { FILTER NOT EXISTS { $this :q ?x . ?x :p ?y } }",
    "no two steps, written short": "SELECT $this { FILTER NOT EXISTS { $this :q ?x ; a :C . ?x a :C ; :p 2 , ?y . } }",
    "no two steps, the last first": "SELECT $this { FILTER NOT EXISTS { ?x :p ?y . $this :q ?x . FILTER (?y > 1.5) } }",
    "a path that is none": "SELECT $this { FILTER NOT EXISTS { $this :q/:q ?x . ?x a :C } }",
    "none within none": "SELECT $this { FILTER NOT EXISTS { $this :q ?x FILTER NOT EXISTS {?x :p ?y . $this :p ?y} } }",
    "none of either": "SELECT $this { FILTER NOT EXISTS { { $this :p 1 } UNION { $this :q ?x . ?x :p 1 } } }",
    "a node without a name": "SELECT $this { $this :p 2 FILTER isBlank($this) }",
    "this shape": "SELECT $this { BIND ($currentShape AS ?s) FILTER (?s = :Shape) $this :p 4 }",
    "a label in two patterns": "SELECT $this { FILTER EXISTS { $this :q _:b . _:b :p ?x } }",
    "a label in a query within": "SELECT $this { FILTER EXISTS { SELECT $this { $this :q _:b-1 . _:b-1 :p 2 } } }",
    "a label that is a name too": "SELECT $this { FILTER EXISTS { $this :q _:x . _:x :r ?blank0 . ?blank0 :q _:x } }",
    "a name with a colon": "SELECT $this { $this :odd:name ?x }",
    "no row": "SELECT $this { $this :never ?x }",
}


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize(
    "target", ["sh:targetClass :C", "sh:targetClass :C ; sh:targetSubjectsOf :p ; sh:targetNode :x"]
)
def test_a_query_for_all_focus_nodes_gives_the_results_of_a_query_per_node(name: str, target: str, tmp_path: Path):
    shape = f":Shape a sh:NodeShape ; {target} ; sh:sparql [ sh:prefixes :x ; sh:select '''{QUERIES[name]}''' ] ."
    count = compare(tmp_path, DATA, DECLARED + shape)
    assert (count == 0) == (name == "no row")


@pytest.mark.parametrize(
    "query",
    ["SELECT $this ?value { $this $PATH ?value FILTER (?value > 2) }", "SELECT $this { $this $PATH 1 ; :q ?x }"],
)
@pytest.mark.parametrize("path", [":p", "( :q :p )", "[ sh:alternativePath ( :p [ sh:inversePath :p ] ) ]"])
def test_a_query_of_a_property_shape_follows_its_path(query: str, path: str, tmp_path: Path):
    shape = f"sh:path {path} ; sh:sparql [ sh:prefixes :x ; sh:select '''{query}''' ]"
    assert compare(tmp_path, DATA, f"{DECLARED} :Shape sh:targetClass :C ; sh:property [ {shape} ] .")


def test_words_in_strings_names_and_comments_are_not_keywords(tmp_path: Path):
    query = 'SELECT $this { $this :minus ?values FILTER (?values != "MINUS { VALUES") } # SERVICE <x>'
    shape = (
        f"{DECLARED} :S a sh:NodeShape ; sh:targetNode :a ; sh:sparql [ sh:prefixes :x ; sh:select '''{query}''' ] ."
    )
    assert len(results(tmp_path, ":a :minus 1 .", shape)) == 1


def test_a_name_may_have_escaped_characters(tmp_path: Path):
    select = r"SELECT $this { $this :odd\\,name\\. ?x FILTER EXISTS { $this :odd\\,name\\. ?y } }"
    shape = f"{DECLARED} :S a sh:NodeShape ; sh:targetNode :a ; sh:sparql [ sh:prefixes :x ; sh:select '{select}' ] ."
    assert len(results(tmp_path, f":a <{EX}odd,name.> 1 .", shape)) == 1


def test_a_query_inside_another_shape_is_evaluated_for_its_values(tmp_path: Path):
    query = "SELECT $this { $this :p ?v FILTER (?v > 2) FILTER NOT EXISTS { $this :q ?x . ?x :name ?n } }"
    inner = f"[ sh:sparql [ sh:prefixes :x ; sh:select '''{query}''' ] ]"
    for outer in (
        f"sh:not {inner}",
        f"sh:property [ sh:path :q ; sh:node {inner} ]",
        f"sh:or ( {inner} [ sh:in ( :a ) ] )",
    ):
        assert compare(tmp_path, DATA, f"{DECLARED} :Shape a sh:NodeShape ; sh:targetClass :C ; {outer} .")


COMPONENT = """
:Component a sh:ConstraintComponent ; sh:parameter [ sh:path :least ] , [ sh:path :most ; sh:optional true ] ;
  sh:validator [ a sh:SPARQLAskValidator ; sh:message "{$value} is not between {$least} and {?most}" ;
    sh:ask "ASK { FILTER ($value >= $least && (!bound($most) || $value <= $most)) }" ] .
"""


def test_a_custom_component_is_evaluated_for_each_value(tmp_path: Path):
    violations = results(
        tmp_path, DATA, f"{COMPONENT} :Shape sh:targetClass :C ; sh:property [ sh:path :p ; :least 2 ; :most 3 ] ."
    )
    assert sorted(violation.message for violation in violations) == [
        "1 is not between 2 and 3",
        "1 is not between 2 and 3",
        "4 is not between 2 and 3",
    ]
    assert {violation.component for violation in violations} == {f"{EX}Component"}
    nested = f"{COMPONENT} :Shape a sh:NodeShape ; sh:targetNode 1 , 2 , 3 ; sh:not [ :least 2 ] ."
    assert compare(tmp_path, DATA, nested) == 2


def test_large_counts_are_supported_inside_another_shape(tmp_path: Path):
    inner = "[ sh:path :p ; sh:minCount 4 ]", "[ sh:path [ sh:inversePath :q ] ; sh:maxCount 3 ]"
    shapes = "".join(f":S{n} a sh:NodeShape ; sh:targetClass :C ; sh:not {other} .\n" for n, other in enumerate(inner))
    qualified = "sh:path :p ; sh:qualifiedValueShape [ sh:minInclusive 2 ] ; sh:qualifiedMinCount 3"
    shapes += f":S2 a sh:NodeShape ; sh:targetClass :C ; sh:property [ {qualified} ] .\n"
    assert compare(tmp_path, DATA, shapes) > 4


def test_values_are_compared_with_those_of_another_property(tmp_path: Path):
    data = ":a :p 1 , 5 ; :r 3 , 4 . :b :p 1 ; :r 1 . :c :p 9 ."
    shape = ":S{} sh:targetSubjectsOf :p ; sh:property [ sh:path :p ; sh:{} :r ] .\n"
    names = ("lessThan", "lessThanOrEquals", "equals", "disjoint")
    assert compare(tmp_path, data, "".join(shape.format(*item) for item in enumerate(names))) == 2 + 1 + 2 + 4 + 1 + 1
    nested = ":S a sh:NodeShape ; sh:targetSubjectsOf :p ; sh:not [ sh:path :p ; sh:lessThan :r ] ."
    assert compare(tmp_path, data, nested) == 1


def test_shapes_with_a_shared_property_shape_report_it_separately(tmp_path: Path):
    shared = ":P a sh:PropertyShape ; sh:path :p ; sh:maxCount 1 .\n"
    shapes = ":S1 sh:targetClass :C ; sh:property :P . :S2 sh:targetSubjectsOf :p ; sh:property :P ."
    assert compare(tmp_path, DATA, shared + shapes) == 4


def test_a_shape_that_is_a_class_targets_its_instances(tmp_path: Path):
    data = ":K rdfs:subClassOf :C . :k a :K ."
    assert compare(tmp_path, data, ":C a sh:NodeShape , rdfs:Class ; sh:hasValue :other .") == 1
    assert compare(tmp_path, data, ":C a sh:NodeShape , owl:Class ; sh:hasValue :other .") == 1


def test_a_day_that_the_month_does_not_have_is_not_a_date(tmp_path: Path):
    days = "2023-02-30", "2023-02-29", "2024-02-29", "1900-02-29", "2023-04-31", "2023-12-31"
    data = "".join(f':a :p "{day}"^^xsd:date ; :q "{day}T12:00:00Z"^^xsd:dateTime .\n' for day in days)
    properties = "sh:property [ sh:path :p ; sh:datatype xsd:date ] , [ sh:path :q ; sh:datatype xsd:dateTime ]"
    assert compare(tmp_path, data, f":S a sh:NodeShape ; sh:targetNode :a ; {properties} .") == 8


def test_unique_lang_accepts_only_true(tmp_path: Path):
    shape = ":S sh:targetNode :a ; sh:property [ sh:path :p ; sh:uniqueLang {} ; :flag {} ] ."
    data, numeric = ':a :p "a"@en , "b"@en .', '"1"^^xsd:boolean'
    assert compare(tmp_path, data, shape.format("true", numeric)) == 1
    assert compare(tmp_path, data, shape.format(numeric, "true")) == 0


def test_deactivated_shapes_and_constraints_have_no_effect(tmp_path: Path):
    for part in (
        "sh:deactivated true ; sh:hasValue :x",
        "sh:property [ sh:path :p ; sh:minCount 9 ; sh:deactivated true ]",
        "sh:node [ sh:hasValue :x ; sh:deactivated true ]",
        "sh:sparql [ sh:deactivated true ; sh:select 'SELECT $this { FILTER (true) }' ]",
    ):
        assert not results(tmp_path, DATA, f":S a sh:NodeShape ; sh:targetClass :C ; {part} .")


# ---- messages and reports


def test_messages_are_those_of_the_constraint_the_shape_or_the_default_with_filled_placeholders(tmp_path: Path):
    query = "sh:select 'SELECT $this ?value ?more { $this <http://example.org/p> ?value BIND (?value + 1 AS ?more) }'"
    shapes = f"""
    :S1 sh:targetNode :b ; sh:message "of the shape" ;
      sh:sparql [ {query} ; sh:message "{{$this}} has {{?value}}, not {{$more}} or {{?other}}"@en ] , [ {query} ] ;
      sh:property [ sh:path :p ; sh:maxExclusive 3 ] , [ sh:path :none ; sh:minCount 1 ; sh:message "none"@en ] .
    :S2 sh:targetNode :b ; sh:sparql [ sh:select
      'SELECT $this ?message {{ BIND ("taken from the row" AS ?message) }}' ] .
    """.replace("{{", "{").replace("}}", "}")
    assert sorted(violation.message for violation in results(tmp_path, DATA, shapes)) == [
        'The value is not less than "3"^^xsd:integer.',
        f"{EX}b has 3, not 4 or {{?other}}",
        "none",
        "of the shape",
        "taken from the row",
    ]


def test_a_report_has_plain_paths_severities_and_the_values_above_a_maximum(tmp_path: Path):
    shapes = """:S sh:targetNode :d ; sh:severity sh:Info ; sh:property
      [ sh:path :p ; sh:maxCount 3 ; sh:severity :Own ] , [ sh:path ( :p :q ) ; sh:minCount 1 ] ."""
    report = validate(load(write(tmp_path, DATA, shapes)[0]), tmp_path / "shapes.ttl")
    many, few = sorted(report, key=lambda result: result.component)
    assert (many.path, many.severity, len(many.values)) == (f"{EX}p", f"{EX}Own", 4)
    assert (few.path, few.severity, few.values) == (f"(<{EX}p>/<{EX}q>)", "Violation", ())
    assert report.conforms is False


def test_results_above_the_maximum_are_only_counted(tmp_path: Path):
    data = "\n".join(f":n{number} a :C ; :p :n{number} , {number} ." for number in range(50))
    shapes = ":S sh:targetClass :C ; sh:property [ sh:path :p ; sh:nodeKind sh:Literal ; sh:maxCount 1 ] ."
    counts: dict[tuple[str, str], int] = {}
    report = validate(load(write(tmp_path, data, shapes)[0]), tmp_path / "shapes.ttl", max_results=3, counts=counts)
    assert Counter(result.component for result in report) == {"NodeKind": 3, "MaxCount": 3}
    assert sorted(counts.values()) == [50, 50]


def test_progress_reports_the_number_of_finished_shapes(tmp_path: Path):
    shapes = "".join(f":S{number} sh:targetClass :C ; sh:nodeKind sh:IRI .\n" for number in range(3))
    calls: list[tuple[int, int, str]] = []
    validate(load(write(tmp_path, DATA, shapes)[0]), tmp_path / "shapes.ttl", progress=lambda *call: calls.append(call))
    assert [(done, total) for done, total, _ in calls] == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert calls[0][2] == f"<{EX}S0>"


def test_shapes_are_compiled_once_and_only_the_default_graph_is_validated(tmp_path: Path):
    data, shapes = write(tmp_path, ":a a :C .", ":S sh:targetClass :C ; sh:property [ sh:path :p ; sh:minCount 1 ] .")
    compiled = compile_shapes(str(shapes))
    store = load(data)
    store.load(b"<urn:b> a <http://example.org/C> .", format=ox.RdfFormat.TURTLE, to_graph=ox.NamedNode("urn:g"))
    assert [result.focus for result in validate(store, compiled)] == [f"{EX}a"]
    store.update(f"INSERT DATA {{ <{EX}a> <{EX}p> 1 }}")
    assert validate(store, compiled)
    assert len(store) == 3


# ---- shapes for pySHACL

ALL = f"SELECT ?this {{ ?this a <{EX}C> }}"
BASED = f"BASE <{EX}> SELECT $this {{ $this <p> ?x }}"
GROUPED = f"SELECT $this (COUNT(?x) AS ?n) {{ $this <{EX}p> ?x }} GROUP BY $this HAVING (COUNT(?x) < 9)"


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        (f"sh:targetClass :C ; sh:not [ sh:sparql [ sh:select '{GROUPED}' ] ]", "aggregates or a limit"),
        (f"sh:targetClass :C ; sh:sparql [ sh:select '{BASED}' ]", "cannot be evaluated for all nodes at once"),
    ],
)
def test_unsupported_shapes_are_delegated_to_pyshacl_with_the_reason(shape: str, reason: str, tmp_path: Path):
    other = ":Other sh:targetClass :D ; sh:hasValue :x .\n [] sh:targetClass :D ; sh:nodeKind sh:Literal .\n"
    data, shapes = write(tmp_path, DATA, f"{other} :S a sh:NodeShape ; {shape} .")
    compiled = compile_shapes(shapes)
    assert [str(node) for node in compiled.delegated] == [f"<{EX}S>"]
    assert reason in str(compiled.delegated)
    report = validate(load(data), compiled)
    counts = Counter(result.shape if result.shape.startswith("http") else "unnamed" for result in report)
    assert counts == {f"{EX}S": counts[f"{EX}S"], f"{EX}Other": 1, "unnamed": 1}
    assert counts[f"{EX}S"] > 0


def count_results(data: Path, shapes: Path, engine: EngineName) -> Counter[tuple[str, str | None, str]]:
    report = engines.validate(data, only_shapes=shapes, engine=engine)
    return Counter(("_:" if r.focus.startswith("_:") else r.focus, r.path, r.component) for r in report)


def test_of_two_unnamed_shapes_one_is_delegated_and_both_are_reported_once(tmp_path: Path):
    shapes = "[] a sh:NodeShape ; sh:targetClass :D ; sh:property [ sh:path :p ; sh:minCount 1 ] .\n"
    shapes += f"[] a sh:NodeShape ; sh:targetClass :C ; sh:not [ sh:sparql [ sh:select '{GROUPED}' ] ] ."
    files = write(tmp_path, DATA, shapes)
    assert len(compile_shapes(files[1]).delegated) == 1
    assert count_results(*files, "sparql") == count_results(*files, "pyshacl")
    assert count_results(*files, "sparql")[(f"{EX}lone", f"{EX}p", "MinCount")] == 1


BOTH = {
    "a target by a query": f"sh:target [ a sh:SPARQLTarget ; sh:select '{ALL}' ] ; sh:hasValue :x",
    "a rule": """sh:targetClass :D ; sh:property [ sh:path :p ; sh:minCount 1 ] ; sh:rule [ a sh:TripleRule ;
        sh:subject sh:this ; sh:predicate :q ; sh:object 1 ] .
        :T a sh:NodeShape ; sh:targetClass :D ; sh:property [ sh:path :q ; sh:maxCount 0 ]""",
    "a component that asks": "sh:targetNode 1 , 2 ; :least 2",
    "a literal that has nothing": "sh:targetObjectsOf :p ; sh:property [ sh:path :q ; sh:minCount 1 ]",
    "text": "sh:target [ a sh:SPARQLTarget ; sh:select 'SELECT ?this { ?this <http://example.org/name> \"a\" }' ] ; "
    'sh:property [ sh:path :name ; sh:in ( "b" ) ] , [ sh:path :name ; sh:in ( "a" ) ; sh:datatype xsd:string ]',
}


@pytest.mark.parametrize("name", BOTH)
def test_both_engines_give_the_same_results(name: str, tmp_path: Path):
    files = write(tmp_path, DATA, f"{COMPONENT} :S a sh:NodeShape ; {BOTH[name]} .")
    assert count_results(*files, "sparql") == count_results(*files, "pyshacl")
    assert count_results(*files, "sparql")


def test_the_reference_engine_judges_the_default_graph_of_a_store_and_leaves_it_as_it_was(tmp_path: Path):
    data, shapes = write(tmp_path, ":a a :C .", f":S a sh:NodeShape ; {BOTH['a rule'].replace(':D', ':C')} .")
    store = load(data)
    store.load(b"<urn:b> a <http://example.org/C> .", format=ox.RdfFormat.TURTLE, to_graph=ox.NamedNode("urn:g"))
    for engine in ("sparql", "pyshacl"):
        assert {result.focus for result in engines.validate(store, only_shapes=shapes, engine=engine)} == {f"{EX}a"}
        assert len(store) == 2


FUNCTION = """:times a sh:SPARQLFunction ; sh:parameter [ sh:path :first ] , [ sh:path :second ] ;
  sh:select "SELECT ($first * $second AS ?result) {}" .
:isEven a sh:SPARQLFunction ; sh:parameter [ sh:path :number ] ; sh:prefixes :x ;
  sh:ask "ASK { FILTER (:times(2, FLOOR($number / 2)) = $number) }" .
"""
CALLS = {
    "in a filter": "sh:sparql [ sh:prefixes :x ; sh:select 'SELECT $this { $this :p ?x FILTER (:times(?x, 2) > 7) }' ]",
    "of a function that calls another": "sh:sparql [ sh:prefixes :x ; "
    "sh:select 'SELECT $this { $this :p ?x FILTER (:isEven(?x) && ?x > 3) }' ]",
    "inside another shape": "sh:not [ sh:not [ sh:sparql [ sh:prefixes :x ; "
    "sh:select 'SELECT $this { $this :p ?x FILTER (:times(?x, 2) > 7) }' ] ] ]",
}


@pytest.mark.parametrize("name", CALLS)
def test_a_query_that_calls_a_function_of_the_shapes_is_delegated(name: str, tmp_path: Path):
    shapes = f"{DECLARED} {FUNCTION} :S a sh:NodeShape ; sh:targetClass :C ; {CALLS[name]} ."
    files = write(tmp_path, DATA, f"{shapes} :Other sh:targetClass :D ; sh:hasValue :x .")
    (reason,) = compile_shapes(files[1]).delegated.values()
    assert "its query calls the function <http://example.org/" in reason
    results = count_results(*files, "sparql")
    assert results == count_results(*files, "pyshacl")
    assert {focus for focus, *_ in results} == {f"{EX}d", f"{EX}lone"}


@pytest.mark.parametrize("missing", ["rdflib", "pyshacl"])
@pytest.mark.parametrize("engine", ["sparql", "pyshacl"])
def test_without_pyshacl_one_sentence_says_what_needs_it(missing: str, engine: str, tmp_path: Path):
    shapes = f"{DECLARED} {FUNCTION} :S a sh:NodeShape ; sh:targetClass :C ; {CALLS['in a filter']} ."
    data, shape_file = write(tmp_path, DATA, shapes)
    hidden = f"import sys; sys.modules[{missing!r}] = None; from provml.cli import main; main()"
    command = [sys.executable, "-c", hidden, "validate", str(data), "--shapes", str(shape_file), "--engine", engine]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("provml: This needs pyshacl, which is not installed.")
    assert "pip install 'provml[shacl]'" in line
    assert ("Only it can validate <http://example.org/S> (its query calls the function" in line) == (engine == "sparql")
    command = [sys.executable, "-c", hidden, "validate", str(data)]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0


def test_an_error_of_pyshacl_names_the_file(tmp_path: Path):
    query = "SELECT $this { GRAPH $shapesGraph { ?s ?p ?o } }"
    data, shapes = write(tmp_path, DATA, f":S a sh:NodeShape ; sh:targetClass :C ; sh:sparql [ sh:select '{query}' ] .")
    for engine in ("sparql", "pyshacl"):
        with pytest.raises(FileFormatError, match="pySHACL") as caught:
            engines.validate(data, only_shapes=shapes, engine=engine)
        assert caught.value.file == str(shapes)


RECURSIVE = """:S a sh:NodeShape ; sh:targetClass :C ;
    sh:property [ sh:path :next ; sh:node :S ] , [ sh:path :name ; sh:minCount 1 ] .
:Other sh:targetClass :C ; sh:nodeKind sh:IRI ."""


def test_a_shape_that_refers_to_itself_is_delegated(tmp_path: Path):
    data = ":a a :C ; :name 'a' ; :next :b . :b :name 'b' ; :next :c . :d a :C ; :name 'd' ; :next :e . :e :name 'e' ."
    files = write(tmp_path, data, RECURSIVE)
    compiled = compile_shapes(files[1])
    assert {str(node) for node in compiled.delegated} == {f"<{EX}S>"}
    assert "refers to itself" in str(compiled.delegated)
    report = engines.validate(files[0], only_shapes=files[1])
    assert {result.focus for result in report} == {f"{EX}a"}
    assert report.scope is not None
    assert "refers to itself" in report.scope.details()[0]
    assert count_results(*files, "sparql") == count_results(*files, "pyshacl")


INCOMPLETE = {
    "a shape without statements": ("sh:node :T", "the shape <.*/S> refers to <.*/T>, which has no statements"),
    "a property without statements": ("sh:property :T", "has the sh:property <.*/T>, which has no statements: ignored"),
    "a count that is missing": (
        "sh:property [ sh:path :p ; sh:qualifiedValueShape [ sh:in () ] ]",
        "has sh:qualifiedValueShape and no count: ignored",
    ),
    "a term that SHACL does not have": ("sh:shape :T", "uses sh:shape, which SHACL does not define for a shape"),
    "a prefix that only @prefix declares": (
        "sh:sparql [ sh:select 'SELECT $this { $this :p ?x FILTER (?x > 99) }' ]",
        "has a query with the prefix :, which only @prefix declares: <http://example.org/> is taken",
    ),
}


@pytest.mark.parametrize("name", INCOMPLETE)
def test_incomplete_shapes_are_accepted_with_a_note(name: str, tmp_path: Path):
    shape, note = INCOMPLETE[name]
    data, shapes = write(tmp_path, DATA, f":S a sh:NodeShape ; sh:targetClass :C ; sh:nodeKind sh:Literal ; {shape} .")
    report = engines.validate(data, only_shapes=shapes)
    assert {result.component for result in report} == {"NodeKind"}
    assert report.scope is not None
    [text] = report.scope.notes
    assert re.search(note, text, re.IGNORECASE)


def test_an_iri_that_is_not_valid_is_taken_as_it_is(tmp_path: Path):
    data, shapes = write(
        tmp_path, DATA, "<http://example.org/#a#b> a sh:NodeShape ; sh:targetClass :C ; sh:nodeKind sh:Literal ."
    )
    shapes = shapes.rename(shapes.with_suffix(".shacl"))
    report = engines.validate(data, only_shapes=shapes)
    assert {result.shape for result in report} == {"http://example.org/#a#b"}
    assert report.scope is not None
    assert "IRIs do not allow" in report.scope.notes[0]


RULES = {
    "a triple rule": """:S a sh:NodeShape ; sh:targetClass :C ; sh:rule [ a sh:TripleRule ; sh:subject sh:this ;
        sh:predicate :found ; sh:object :yes ] .""",
    "a rule with a condition and a path": """:S a sh:NodeShape ; sh:targetSubjectsOf :p ; sh:rule [ a sh:TripleRule ;
        sh:subject sh:this ; sh:predicate :found ; sh:object [ sh:path :p ] ; sh:condition :D ] .
        :D a sh:NodeShape ; sh:class :C .""",
    "a construct query": """:S a sh:NodeShape ; sh:targetClass :C ; sh:rule [ a sh:SPARQLRule ; sh:construct
        'CONSTRUCT { $this <http://example.org/found> ?x } WHERE { $this <http://example.org/p> ?x }' ] .""",
    "two rules in their order": """:S a sh:NodeShape ; sh:targetClass :C ; sh:rule
        [ a sh:TripleRule ; sh:order 2 ; sh:subject sh:this ; sh:predicate :found ; sh:object [ sh:path :step ] ] ,
        [ a sh:TripleRule ; sh:order 1 ; sh:subject sh:this ; sh:predicate :step ; sh:object 7 ] .""",
    "a target": f":S a sh:NodeShape ; sh:target [ a sh:SPARQLTarget ; sh:select '{ALL}' ] ; sh:nodeKind sh:Literal .",
}


@pytest.mark.parametrize("name", RULES)
def test_rules_and_targets_by_queries_give_the_results_of_pyshacl_without_it(name: str, tmp_path: Path):
    check = "[] a sh:NodeShape ; sh:targetSubjectsOf :found ; sh:property [ sh:path :found ; sh:maxCount 0 ] ."
    files = write(tmp_path, DATA, f"{RULES[name]}\n{check}")
    assert not compile_shapes(files[1]).delegated
    results = count_results(*files, "sparql")
    assert results
    assert results == count_results(*files, "pyshacl")


# ---- invalid shapes

FOR = ":S sh:targetClass :C ; "
INVALID_SHAPES = {
    "a property shape without a path": (":S a sh:PropertyShape ; sh:minCount 1 .", "<.*/S> is a property shape"),
    "a sh:property without a path": (f"{FOR} sh:property [ sh:minCount 1 ] .", "no sh:path"),
    "a node shape with a path": (":S a sh:NodeShape ; sh:path :p .", "is a node shape and has a sh:path"),
    "two paths": (f"{FOR} sh:path :p , :q .", "has 2 values of sh:path"),
    "an invalid path": (f"{FOR} sh:path [ :p :q ] .", "not a property path"),
    "a path of one step": (f"{FOR} sh:path ( :p ) .", "fewer than two"),
    "a cyclic path": (f"{FOR} sh:path _:p . _:p sh:inversePath _:p .", "contains itself"),
    "an invalid list": (f"{FOR} sh:in :x .", "sh:in that is not a list"),
    "an empty choice": (f"{FOR} sh:or () .", "empty sh:or"),
    "an invalid count": (f"{FOR} sh:property [ sh:path :p ; sh:minCount 'a' ] .", "the property shape for"),
    "a count that is not well-formed": (
        f"{FOR} sh:property [ sh:path :p ; sh:minCount 'x'^^xsd:integer ] .",
        'has "x".*integer> for sh:minCount. Use a non-negative integer',
    ),
    "a negative count": (f"{FOR} sh:property [ sh:path :p ; sh:maxCount -1 ] .", "sh:maxCount"),
    "a count without a path": (f"{FOR} sh:minCount 1 .", "has sh:minCount and no sh:path"),
    "two datatypes": (f"{FOR} sh:datatype xsd:string , xsd:integer .", "2 values of sh:datatype"),
    "an invalid node kind": (f"{FOR} sh:nodeKind sh:Thing .", "Use one of sh:IRI, sh:BlankNode"),
    "a class that is a literal": (f"{FOR} sh:class 'C' .", "sh:class"),
    "a limit that is a node": (f"{FOR} sh:minInclusive :x .", "Use a literal"),
    "an invalid boolean": (f"{FOR} sh:closed 'yes' .", "Use true or false"),
    "a missing query": (f"{FOR} sh:sparql [ sh:message 'x' ] .", "without a sh:select"),
    "an invalid query": (f"{FOR} sh:sparql [ sh:select 'SELECT $this {{ ?x }}' ] .", "has an invalid query"),
    "an unknown prefix": (
        f"{FOR} sh:sparql [ sh:select 'SELECT $this {{ $this x:y 1 }}' ] .",
        "the prefix x: is not declared. Declare it by sh:prefixes",
    ),
    "an unknown function": (
        f"{FOR} sh:sparql [ sh:select 'SELECT $this {{{{ $this ?p ?x FILTER (<urn:f>(?x)) }}}}' ] .",
        "calls <urn:f>, which is not a function. Define it as a sh:SPARQLFunction",
    ),
    "a function without a query": (f"{FOR} sh:in () . :f a sh:SPARQLFunction .", "the function <.*/f> does not have"),
    "a function with an invalid query": (
        f"{FOR} sh:in () . :f a sh:SPARQLFunction ; sh:select 'SELECT ?x' .",
        "the function <.*/f> has an invalid query",
    ),
    "MINUS": (f"{FOR} sh:sparql [ sh:select 'SELECT $this {{ MINUS {{ $this ?p 1 }} }}' ] .", "has MINUS"),
    "VALUES": (f"{FOR} sh:sparql [ sh:select 'SELECT $this {{ VALUES ?x {{ 1 }} }}' ] .", "has VALUES"),
    "SERVICE": (f"{FOR} sh:sparql [ sh:select 'SELECT $this {{ SERVICE <x:y> {{ }} }}' ] .", "has SERVICE"),
    "assigning $this": (
        f"{FOR} sh:sparql [ sh:select 'SELECT $this {{ BIND (1 AS $this) }}' ] .",
        "assigns a value to",
    ),
    "an inner query without $this": (
        f"{FOR} sh:sparql [ sh:select 'SELECT $this {{ {{ SELECT ?x {{ ?x ?y ?z }} }} }}' ] .",
        "does not return .this",
    ),
}


@pytest.mark.parametrize("name", INVALID_SHAPES)
def test_an_invalid_shape_is_rejected_with_its_name_and_file(name: str, tmp_path: Path):
    text, message = INVALID_SHAPES[name]
    path = write(tmp_path, "", text)[1]
    with pytest.raises(FileFormatError, match=message) as caught:
        compile_shapes(path)
    assert caught.value.file == str(path)


def test_an_error_names_the_line_of_the_shape_or_of_its_path(tmp_path: Path):
    head = ":Good sh:targetClass :C .\n\n:S a sh:NodeShape ;\n  sh:targetClass :C ;\n"
    text = f"{head}  sh:property [\n    sh:path :p ; sh:minCount -1 ] ."
    path = write(tmp_path, "", text)[1]
    with pytest.raises(FileFormatError, match=r"the property shape for <.*/p> of <.*/S> has") as caught:
        compile_shapes(path)
    start = path.read_text().split(":Good")[0].count("\n")
    assert caught.value.line == start + 6
    path.write_text(path.read_text().replace("-1", "1").replace("sh:targetClass :C ;", "sh:nodeKind :x ;"))
    with pytest.raises(FileFormatError, match=r"the shape <.*/S> has") as caught:
        compile_shapes(path)
    assert caught.value.line == start + 3


def test_an_invalid_shape_file_is_named_with_the_line(tmp_path: Path):
    (tmp_path / "bad.ttl").write_text("\n\n:x ,,")
    with pytest.raises(FileFormatError, match=r"bad\.ttl:3: ") as caught:
        compile_shapes(tmp_path / "bad.ttl")
    assert caught.value.line == 3
    for name, advice in (("none.ttl", "Check the path"), ("shapes.csv", "Write shapes in Turtle")):
        with pytest.raises(FileFormatError, match=advice):
            compile_shapes(tmp_path / name)


# ---- EXISTS


@pytest.mark.parametrize(
    ("inside", "rewritten"),
    [
        ("$this :p ?x . ?x :q ?y", "$this :p ?x . LATERAL { ?x :q ?y }"),
        ("?x :q ?y . $this :p ?x .", "$this :p ?x . LATERAL { ?x :q ?y }"),
        ("$this :p ?x ; :q 1.5 , 'a'@en", "$this :p ?x . LATERAL { $this :q 1.5 } LATERAL { $this :q 'a'@en }"),
        ("$this :p ?x FILTER (?x > 1) ?x a :C", "$this :p ?x . FILTER (?x > 1) LATERAL { ?x a :C }"),
        ("$this :p/:q ?x", "$this ((:p/:q)|<urn:provml:nowhere>) ?x ."),
        ("$this :p [ :q ?x ]", "$this :p [ :q ?x ] ."),
        ("SELECT $this { $this :p ?x }", "SELECT $this { $this :p ?x }"),
    ],
)
def test_the_patterns_of_exists_are_joined_one_by_one_from_bound_variables(inside: str, rewritten: str):
    assert rewrite_exists(inside, {"this"}) == rewritten
