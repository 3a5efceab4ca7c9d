"""The compiled engine: pySHACL's results, on shapes of all kinds, and clear words about shapes that are none."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyoxigraph as ox
import pytest
from hypothesis import given, settings
from results import by_compiled, by_reference, load
from shape_strategies import cases
from test_shapes import BROKEN, GOOD

from provml.errors import BrokenFile
from provml.validation import engine as engine_door
from provml.validation import reference
from provml.validation.compiled import compile_shapes, validate
from provml.validation.compiled.exists import unroll
from provml.validation.compiled.finding import Finding
from provml.validation.compiled.run import find

PREFIXES = """@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix : <http://example.org/> .
"""
EX = "http://example.org/"
DECLARED = f'[] a owl:Ontology ; sh:declare [ sh:prefix "" ; sh:namespace "{EX}" ] .\n'


def written(folder: Path, data: str, shapes: str) -> tuple[Path, Path]:
    paths = folder / "data.ttl", folder / "shapes.ttl"
    for path, text in zip(paths, (data, shapes), strict=True):
        path.write_text(PREFIXES + text)
    return paths


def found(folder: Path, data: str, shapes: str) -> list[Finding]:
    data_file, shape_file = written(folder, data, shapes)
    return list(find(load(data_file), compile_shapes(shape_file)))


def agrees(folder: Path, data: str, shapes: str) -> int:
    """How many results both engines find, each the same."""
    data_file, shape_file = written(folder, data, shapes)
    compiled = compile_shapes(shape_file)
    assert not compiled.handed_over
    ours = by_compiled(load(data_file), compiled)
    assert ours == by_reference(data_file, shape_file)
    return ours.total()


# ---- the same as the reference engine


@settings(max_examples=80)
@given(cases())
def test_random_shapes_find_in_random_graphs_what_pyshacl_finds(case: tuple[str, str]):
    with tempfile.TemporaryDirectory() as folder:
        data_file, shape_file = written(Path(folder), *case)
        compiled = compile_shapes(shape_file)
        if compiled.handed_over:
            assert "no steps" in str(compiled.handed_over)
            return
        assert by_compiled(load(data_file), compiled) == by_reference(data_file, shape_file)


def test_our_own_shapes_all_run_here_and_their_results_are_those_of_the_reference_engine():
    shapes = compile_shapes(reference.own_shapes())
    assert not shapes.handed_over
    data = GOOD + "\n".join(BROKEN.values()).encode() + b"\n"
    store = ox.Store()
    store.load(data, format=ox.RdfFormat.N_TRIPLES)
    ours, theirs = validate(store, shapes), reference.validate(data)
    assert len(ours) > len(BROKEN)
    nameless = "_:"  # whose names are passing
    assert Counter(replace(one, shape=nameless) if one.shape.startswith(nameless) else one for one in ours) == Counter(
        replace(one, shape=nameless) if one.shape.startswith(nameless) else one for one in theirs
    )
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
    "not a row": "SELECT $this { $this :never ?x }",
}


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize(
    "target", ["sh:targetClass :C", "sh:targetClass :C ; sh:targetSubjectsOf :p ; sh:targetNode :x"]
)
def test_a_query_gives_for_all_focus_nodes_at_once_what_it_gives_for_each(name: str, target: str, tmp_path: Path):
    shape = f":Shape a sh:NodeShape ; {target} ; sh:sparql [ sh:prefixes :x ; sh:select '''{QUERIES[name]}''' ] ."
    count = agrees(tmp_path, DATA, DECLARED + shape)
    assert (count == 0) == (name == "not a row")


@pytest.mark.parametrize(
    "query",
    ["SELECT $this ?value { $this $PATH ?value FILTER (?value > 2) }", "SELECT $this { $this $PATH 1 ; :q ?x }"],
)
@pytest.mark.parametrize("path", [":p", "( :q :p )", "[ sh:alternativePath ( :p [ sh:inversePath :p ] ) ]"])
def test_a_query_of_a_property_shape_walks_its_path(query: str, path: str, tmp_path: Path):
    own = f"sh:path {path} ; sh:sparql [ sh:prefixes :x ; sh:select '''{query}''' ]"
    assert agrees(tmp_path, DATA, f"{DECLARED} :Shape sh:targetClass :C ; sh:property [ {own} ] .")


def test_words_in_texts_names_and_comments_are_not_taken_for_keywords(tmp_path: Path):
    query = 'SELECT $this { $this :minus ?values FILTER (?values != "MINUS { VALUES") } # SERVICE <x>'
    shape = (
        f"{DECLARED} :S a sh:NodeShape ; sh:targetNode :a ; sh:sparql [ sh:prefixes :x ; sh:select '''{query}''' ] ."
    )
    assert len(found(tmp_path, ":a :minus 1 .", shape)) == 1


def test_a_name_may_have_characters_that_are_escaped(tmp_path: Path):
    select = r"SELECT $this { $this :odd\\,name\\. ?x FILTER EXISTS { $this :odd\\,name\\. ?y } }"
    shape = f"{DECLARED} :S a sh:NodeShape ; sh:targetNode :a ; sh:sparql [ sh:prefixes :x ; sh:select '{select}' ] ."
    assert len(found(tmp_path, f":a <{EX}odd,name.> 1 .", shape)) == 1


def test_a_query_inside_another_shape_is_asked_of_its_values(tmp_path: Path):
    query = "SELECT $this { $this :p ?v FILTER (?v > 2) FILTER NOT EXISTS { $this :q ?x . ?x :name ?n } }"
    inner = f"[ sh:sparql [ sh:prefixes :x ; sh:select '''{query}''' ] ]"
    for outer in (
        f"sh:not {inner}",
        f"sh:property [ sh:path :q ; sh:node {inner} ]",
        f"sh:or ( {inner} [ sh:in ( :a ) ] )",
    ):
        assert agrees(tmp_path, DATA, f"{DECLARED} :Shape a sh:NodeShape ; sh:targetClass :C ; {outer} .")


COMPONENT = """
:Component a sh:ConstraintComponent ; sh:parameter [ sh:path :least ] , [ sh:path :most ; sh:optional true ] ;
  sh:validator [ a sh:SPARQLAskValidator ; sh:message "{$value} is not between {$least} and {?most}" ;
    sh:ask "ASK { FILTER ($value >= $least && (!bound($most) || $value <= $most)) }" ] .
"""


def test_a_component_of_the_shapes_graph_is_asked_of_each_value(tmp_path: Path):
    told = found(
        tmp_path, DATA, f"{COMPONENT} :Shape sh:targetClass :C ; sh:property [ sh:path :p ; :least 2 ; :most 3 ] ."
    )
    assert sorted(finding.message for finding in told) == [
        "1 is not between 2 and 3",
        "1 is not between 2 and 3",
        "4 is not between 2 and 3",
    ]
    assert {finding.component for finding in told} == {f"{EX}Component"}
    nested = f"{COMPONENT} :Shape a sh:NodeShape ; sh:targetNode 1 , 2 , 3 ; sh:not [ :least 2 ] ."
    assert agrees(tmp_path, DATA, nested) == 2


def test_many_values_are_counted_inside_another_shape_too(tmp_path: Path):
    inner = "[ sh:path :p ; sh:minCount 4 ]", "[ sh:path [ sh:inversePath :q ] ; sh:maxCount 3 ]"
    shapes = "".join(f":S{n} a sh:NodeShape ; sh:targetClass :C ; sh:not {one} .\n" for n, one in enumerate(inner))
    qualified = "sh:path :p ; sh:qualifiedValueShape [ sh:minInclusive 2 ] ; sh:qualifiedMinCount 3"
    shapes += f":S2 a sh:NodeShape ; sh:targetClass :C ; sh:property [ {qualified} ] .\n"
    assert agrees(tmp_path, DATA, shapes) > 4


def test_values_are_compared_with_those_of_another_property(tmp_path: Path):
    data = ":a :p 1 , 5 ; :r 3 , 4 . :b :p 1 ; :r 1 . :c :p 9 ."
    shape = ":S{} sh:targetSubjectsOf :p ; sh:property [ sh:path :p ; sh:{} :r ] .\n"
    names = ("lessThan", "lessThanOrEquals", "equals", "disjoint")
    assert agrees(tmp_path, data, "".join(shape.format(*one) for one in enumerate(names))) == 2 + 1 + 2 + 4 + 1 + 1
    nested = ":S a sh:NodeShape ; sh:targetSubjectsOf :p ; sh:not [ sh:path :p ; sh:lessThan :r ] ."
    assert agrees(tmp_path, data, nested) == 1


def test_shapes_that_share_nodes_report_each_for_itself(tmp_path: Path):
    shared = ":P a sh:PropertyShape ; sh:path :p ; sh:maxCount 1 .\n"
    shapes = ":S1 sh:targetClass :C ; sh:property :P . :S2 sh:targetSubjectsOf :p ; sh:property :P ."
    assert agrees(tmp_path, DATA, shared + shapes) == 4


def test_a_class_that_is_a_shape_is_its_own_target(tmp_path: Path):
    data = ":K rdfs:subClassOf :C . :k a :K ."
    assert agrees(tmp_path, data, ":C a sh:NodeShape , rdfs:Class ; sh:hasValue :other .") == 1
    assert agrees(tmp_path, data, ":C a sh:NodeShape , owl:Class ; sh:hasValue :other .") == 1


def test_a_day_that_a_month_does_not_have_is_no_date(tmp_path: Path):
    days = "2023-02-30", "2023-02-29", "2024-02-29", "1900-02-29", "2023-04-31", "2023-12-31"
    data = "".join(f':a :p "{day}"^^xsd:date ; :q "{day}T12:00:00Z"^^xsd:dateTime .\n' for day in days)
    asked = "sh:property [ sh:path :p ; sh:datatype xsd:date ] , [ sh:path :q ; sh:datatype xsd:dateTime ]"
    assert agrees(tmp_path, data, f":S a sh:NodeShape ; sh:targetNode :a ; {asked} .") == 8


def test_unique_languages_are_asked_for_whatever_else_is_said_of_the_shape(tmp_path: Path):
    shape = ":S sh:targetNode :a ; sh:property [ sh:path :p ; sh:uniqueLang {} ; :flag {} ] ."
    data, one = ':a :p "a"@en , "b"@en .', '"1"^^xsd:boolean'
    assert agrees(tmp_path, data, shape.format("true", one)) == 1
    assert agrees(tmp_path, data, shape.format(one, "true")) == 0


def test_what_is_deactivated_asks_nothing(tmp_path: Path):
    for part in (
        "sh:deactivated true ; sh:hasValue :x",
        "sh:property [ sh:path :p ; sh:minCount 9 ; sh:deactivated true ]",
        "sh:node [ sh:hasValue :x ; sh:deactivated true ]",
        "sh:sparql [ sh:deactivated true ; sh:select 'SELECT $this { FILTER (true) }' ]",
    ):
        assert not found(tmp_path, DATA, f":S a sh:NodeShape ; sh:targetClass :C ; {part} .")


# ---- what is said


def test_messages_are_the_constraints_the_shapes_or_ours_with_their_placeholders_filled(tmp_path: Path):
    query = "sh:select 'SELECT $this ?value ?more { $this <http://example.org/p> ?value BIND (?value + 1 AS ?more) }'"
    shapes = f"""
    :S1 sh:targetNode :b ; sh:message "of the shape" ;
      sh:sparql [ {query} ; sh:message "{{$this}} has {{?value}}, not {{$more}} or {{?other}}"@en ] , [ {query} ] ;
      sh:property [ sh:path :p ; sh:maxExclusive 3 ] , [ sh:path :none ; sh:minCount 1 ; sh:message "none"@en ] .
    :S2 sh:targetNode :b ; sh:sparql [ sh:select
      'SELECT $this ?message {{ BIND ("told by the row" AS ?message) }}' ] .
    """.replace("{{", "{").replace("}}", "}")
    assert sorted(finding.message for finding in found(tmp_path, DATA, shapes)) == [
        'The value is not below "3"^^xsd:integer.',
        f"{EX}b has 3, not 4 or {{?other}}",
        "none",
        "of the shape",
        "told by the row",
    ]


def test_a_report_has_plain_paths_severities_and_the_values_that_are_too_many(tmp_path: Path):
    shapes = """:S sh:targetNode :d ; sh:severity sh:Info ; sh:property
      [ sh:path :p ; sh:maxCount 3 ; sh:severity :Own ] , [ sh:path ( :p :q ) ; sh:minCount 1 ] ."""
    report = validate(load(written(tmp_path, DATA, shapes)[0]), tmp_path / "shapes.ttl")
    many, few = sorted(report, key=lambda result: result.component)
    assert (many.path, many.severity, len(many.values)) == (f"{EX}p", f"{EX}Own", 4)
    assert (few.path, few.severity, few.values) == (f"(<{EX}p>/<{EX}q>)", "Violation", ())
    assert report.conforms is False


def test_very_many_results_are_counted_and_some_of_them_kept(tmp_path: Path):
    data = "\n".join(f":n{number} a :C ; :p :n{number} , {number} ." for number in range(50))
    shapes = ":S sh:targetClass :C ; sh:property [ sh:path :p ; sh:nodeKind sh:Literal ; sh:maxCount 1 ] ."
    counts: dict[tuple[str, str], int] = {}
    report = validate(load(written(tmp_path, data, shapes)[0]), tmp_path / "shapes.ttl", most=3, counts=counts)
    assert Counter(result.component for result in report) == {"NodeKind": 3, "MaxCount": 3}
    assert sorted(counts.values()) == [50, 50]


def test_progress_tells_how_many_shapes_are_done(tmp_path: Path):
    shapes = "".join(f":S{number} sh:targetClass :C ; sh:nodeKind sh:IRI .\n" for number in range(3))
    told: list[tuple[int, int, str]] = []
    validate(load(written(tmp_path, DATA, shapes)[0]), tmp_path / "shapes.ttl", progress=lambda *one: told.append(one))
    assert [(done, of) for done, of, _ in told] == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert told[0][2] == f"<{EX}S0>"


def test_shapes_are_compiled_once_and_only_the_default_graph_is_validated(tmp_path: Path):
    data, shapes = written(tmp_path, ":a a :C .", ":S sh:targetClass :C ; sh:property [ sh:path :p ; sh:minCount 1 ] .")
    compiled = compile_shapes(str(shapes))
    store = load(data)
    store.load(b"<urn:b> a <http://example.org/C> .", format=ox.RdfFormat.TURTLE, to_graph=ox.NamedNode("urn:g"))
    assert [result.focus for result in validate(store, compiled)] == [f"{EX}a"]
    store.update(f"INSERT DATA {{ <{EX}a> <{EX}p> 1 }}")
    assert validate(store, compiled)
    assert len(store) == 3


# ---- what is handed over

ALL = f"SELECT ?this {{ ?this a <{EX}C> }}"
BASED = f"BASE <{EX}> SELECT $this {{ $this <p> ?x }}"
GROUPED = f"SELECT $this (COUNT(?x) AS ?n) {{ $this <{EX}p> ?x }} GROUP BY $this HAVING (COUNT(?x) < 9)"


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        (f"sh:target [ a sh:SPARQLTarget ; sh:select '{ALL}' ] ; sh:hasValue :x", "sh:target"),
        (f"sh:targetClass :C ; sh:not [ sh:sparql [ sh:select '{GROUPED}' ] ]", "counts or groups"),
        (f"sh:targetClass :C ; sh:sparql [ sh:select '{BASED}' ]", "cannot be asked of all nodes at once"),
    ],
)
def test_what_is_not_covered_is_left_to_pyshacl_and_said(shape: str, reason: str, tmp_path: Path):
    other = ":Other sh:targetClass :D ; sh:hasValue :x .\n [] sh:targetClass :D ; sh:nodeKind sh:Literal .\n"
    data, shapes = written(tmp_path, DATA, f"{other} :S a sh:NodeShape ; {shape} .")
    compiled = compile_shapes(shapes)
    assert [str(node) for node in compiled.handed_over] == [f"<{EX}S>"]
    assert reason in str(compiled.handed_over)
    report = validate(load(data), compiled)
    told = Counter(result.shape if result.shape.startswith("http") else "nameless" for result in report)
    assert told == {f"{EX}S": told[f"{EX}S"], f"{EX}Other": 1, "nameless": 1}
    assert told[f"{EX}S"] > 0


def told(data: Path, shapes: Path, engine: str) -> Counter[tuple[str, str | None, str]]:
    report = engine_door.validate(data, shapes, engine=engine)
    nodes = (("_:" if one.focus.startswith("_:") else one.focus, one.path, one.component) for one in report)
    return Counter(nodes)


def test_of_two_shapes_without_a_name_one_is_handed_over_and_each_is_told_once(tmp_path: Path):
    shapes = "[] a sh:NodeShape ; sh:targetClass :D ; sh:property [ sh:path :p ; sh:minCount 1 ] .\n"
    shapes += f"[] a sh:NodeShape ; sh:targetClass :C ; sh:not [ sh:sparql [ sh:select '{GROUPED}' ] ] ."
    files = written(tmp_path, DATA, shapes)
    assert len(compile_shapes(files[1]).handed_over) == 1
    assert told(*files, "compiled") == told(*files, "reference")
    assert told(*files, "compiled")[(f"{EX}lone", f"{EX}p", "MinCount")] == 1


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
def test_both_engines_check_the_same(name: str, tmp_path: Path):
    files = written(tmp_path, DATA, f"{COMPONENT} :S a sh:NodeShape ; {BOTH[name]} .")
    assert told(*files, "compiled") == told(*files, "reference")
    assert told(*files, "compiled")


def test_the_reference_engine_judges_the_default_graph_of_a_store_and_leaves_it_as_it_was(tmp_path: Path):
    data, shapes = written(tmp_path, ":a a :C .", f":S a sh:NodeShape ; {BOTH['a rule'].replace(':D', ':C')} .")
    store = load(data)
    store.load(b"<urn:b> a <http://example.org/C> .", format=ox.RdfFormat.TURTLE, to_graph=ox.NamedNode("urn:g"))
    for engine in ("compiled", "reference"):
        assert {result.focus for result in engine_door.validate(store, shapes, engine=engine)} == {f"{EX}a"}
        assert len(store) == 2


def test_what_pyshacl_cannot_do_is_told_with_the_file(tmp_path: Path):
    query = "SELECT $this { GRAPH $shapesGraph { ?s ?p ?o } }"
    data, shapes = written(
        tmp_path, DATA, f":S a sh:NodeShape ; sh:targetClass :C ; sh:sparql [ sh:select '{query}' ] ."
    )
    for engine in ("compiled", "reference"):
        with pytest.raises(BrokenFile, match="pySHACL") as caught:
            engine_door.validate(data, shapes, engine=engine)
        assert caught.value.file == str(shapes)


# ---- shapes that are none

FOR = ":S sh:targetClass :C ; "
NO_SHAPES = {
    "a shape that refers to itself": (f"{FOR} sh:property [ sh:path :p ; sh:node :S ] .", "<.*/S> refers to itself"),
    "two that refer to each other": (f"{FOR} sh:node :T . :T sh:not :S .", "refers to itself"),
    "a property shape without a path": (":S a sh:PropertyShape ; sh:minCount 1 .", "<.*/S> is a property shape"),
    "a sh:property without a path": (f"{FOR} sh:property [ sh:minCount 1 ] .", "no sh:path"),
    "a node shape with a path": (":S a sh:NodeShape ; sh:path :p .", "is a node shape and has a sh:path"),
    "two paths": (f"{FOR} sh:path :p , :q .", "has 2 values of sh:path"),
    "a path that is none": (f"{FOR} sh:path [ :p :q ] .", "no property path"),
    "a path of one step": (f"{FOR} sh:path ( :p ) .", "fewer than two"),
    "a path that goes round": (f"{FOR} sh:path _:p . _:p sh:inversePath _:p .", "leads back to itself"),
    "a shape that is not there": (f"{FOR} sh:node :T .", "<.*/T>, which is not defined"),
    "a list that is none": (f"{FOR} sh:in :x .", "sh:in what is no list"),
    "an empty choice": (f"{FOR} sh:or () .", "empty sh:or"),
    "a count that is none": (f"{FOR} sh:property [ sh:path :p ; sh:minCount 'a' ] .", "the property shape for"),
    "a count below nothing": (f"{FOR} sh:property [ sh:path :p ; sh:maxCount -1 ] .", "sh:maxCount"),
    "a count without a path": (f"{FOR} sh:minCount 1 .", "has sh:minCount and no sh:path"),
    "two datatypes": (f"{FOR} sh:datatype xsd:string , xsd:integer .", "2 values of sh:datatype"),
    "a kind that is none": (f"{FOR} sh:nodeKind sh:Thing .", "Give one of IRI, BlankNode"),
    "a class that is a text": (f"{FOR} sh:class 'C' .", "sh:class"),
    "a limit that is a node": (f"{FOR} sh:minInclusive :x .", "Give a literal"),
    "a truth that is none": (f"{FOR} sh:closed 'yes' .", "Give true or false"),
    "a qualified shape without a count": (f"{FOR} sh:path :p ; sh:qualifiedValueShape [ sh:in () ] .", "no count"),
    "a query that is not there": (f"{FOR} sh:sparql [ sh:message 'x' ] .", "without a sh:select"),
    "a query that does not parse": (f"{FOR} sh:sparql [ sh:select 'SELECT $this {{ ?x }}' ] .", "cannot be run"),
    "an unknown prefix": (f"{FOR} sh:sparql [ sh:select 'SELECT $this {{ $this x:y 1 }}' ] .", "cannot be run"),
    "MINUS": (f"{FOR} sh:sparql [ sh:select 'SELECT $this {{ MINUS {{ $this ?p 1 }} }}' ] .", "has MINUS"),
    "VALUES": (f"{FOR} sh:sparql [ sh:select 'SELECT $this {{ VALUES ?x {{ 1 }} }}' ] .", "has VALUES"),
    "SERVICE": (f"{FOR} sh:sparql [ sh:select 'SELECT $this {{ SERVICE <x:y> {{ }} }}' ] .", "has SERVICE"),
    "$this again": (f"{FOR} sh:sparql [ sh:select 'SELECT $this {{ BIND (1 AS $this) }}' ] .", "value of its own"),
    "an inner query without $this": (
        f"{FOR} sh:sparql [ sh:select 'SELECT $this {{ {{ SELECT ?x {{ ?x ?y ?z }} }} }}' ] .",
        "does not give .this",
    ),
    "a component without a validator": (
        f":K a sh:ConstraintComponent ; sh:parameter [ sh:path :k ] . {FOR} :k 1 .",
        "no validator",
    ),
}


@pytest.mark.parametrize("name", NO_SHAPES)
def test_what_is_no_shape_is_refused_with_its_name_and_file(name: str, tmp_path: Path):
    text, said = NO_SHAPES[name]
    path = written(tmp_path, "", text)[1]
    with pytest.raises(BrokenFile, match=said) as caught:
        compile_shapes(path)
    assert caught.value.file == str(path)


def test_a_shape_file_that_cannot_be_read_is_named_with_the_line(tmp_path: Path):
    (tmp_path / "bad.ttl").write_text("\n\n:x ,,")
    with pytest.raises(BrokenFile, match=r"bad\.ttl:3: ") as caught:
        compile_shapes(tmp_path / "bad.ttl")
    assert caught.value.line == 3
    for name, advice in (("none.ttl", "Check the path"), ("shapes.csv", "Give shapes in Turtle")):
        with pytest.raises(BrokenFile, match=advice):
            compile_shapes(tmp_path / name)


# ---- how EXISTS is written


@pytest.mark.parametrize(
    ("inside", "written_as"),
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
def test_the_patterns_of_exists_are_joined_one_after_the_other_from_what_is_known(inside: str, written_as: str):
    assert unroll(inside, {"this"}) == written_as
