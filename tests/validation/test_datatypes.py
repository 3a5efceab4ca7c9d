"""Datatypes that Oxigraph does not store: both engines judge the data as it was written, in files and in a home."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyoxigraph as ox
import pytest
from compiler.helpers import EX as ZOO
from compiler.helpers import OntologyCompiler, restore_classes

from provml import rdf
from provml.model.thing import CLASSES
from provml.model.values import IRI
from provml.store import Store
from provml.validation import EngineName, Report, validate
from provml.validation.engine import ENGINES
from validation.test_shacl import DECLARED, EX, PREFIXES, write

XSD = "http://www.w3.org/2001/XMLSchema#"
TIME = "2024-02-29T12:00:00"

# datatype and text of a literal, sh:datatype of the shape, whether the literal conforms
DATATYPES = [
    ("integer", "4", "integer", True),
    ("integer", "4", "int", False),
    ("integer", "4", "nonNegativeInteger", False),
    ("int", "4", "int", True),
    ("int", "04", "int", True),
    ("int", "4", "integer", False),
    ("int", "4", "long", False),
    ("int", "four", "int", False),
    ("int", "2147483648", "int", False),
    ("long", "9223372036854775807", "long", True),
    ("long", "9223372036854775808", "long", False),
    ("short", "-32768", "short", True),
    ("short", "32768", "short", False),
    ("byte", "127", "byte", True),
    ("byte", "300", "byte", False),
    ("unsignedLong", "18446744073709551615", "unsignedLong", True),
    ("unsignedLong", "18446744073709551616", "unsignedLong", False),
    ("unsignedInt", "4294967295", "unsignedInt", True),
    ("unsignedInt", "-1", "unsignedInt", False),
    ("unsignedShort", "65535", "unsignedShort", True),
    ("unsignedShort", "4", "unsignedInt", False),
    ("unsignedByte", "255", "unsignedByte", True),
    ("unsignedByte", "256", "unsignedByte", False),
    ("nonNegativeInteger", "0", "nonNegativeInteger", True),
    ("nonNegativeInteger", "99999999999999999999", "nonNegativeInteger", True),
    ("nonNegativeInteger", "-1", "nonNegativeInteger", False),
    ("nonNegativeInteger", "0", "integer", False),
    ("positiveInteger", "1", "positiveInteger", True),
    ("positiveInteger", "0", "positiveInteger", False),
    ("nonPositiveInteger", "0", "nonPositiveInteger", True),
    ("nonPositiveInteger", "1", "nonPositiveInteger", False),
    ("negativeInteger", "-1", "negativeInteger", True),
    ("negativeInteger", "4", "negativeInteger", False),
    ("negativeInteger", "-1", "nonPositiveInteger", False),
    ("dateTimeStamp", f"{TIME}Z", "dateTimeStamp", True),
    ("dateTimeStamp", f"{TIME}.500-03:00", "dateTimeStamp", True),
    ("dateTimeStamp", TIME, "dateTimeStamp", False),
    ("dateTimeStamp", "2023-02-29T12:00:00Z", "dateTimeStamp", False),
    ("dateTimeStamp", f"{TIME}Z", "dateTime", False),
    ("dateTime", f"{TIME}Z", "dateTime", True),
    ("dateTime", f"{TIME}Z", "dateTimeStamp", False),
    ("decimal", "4.0", "decimal", True),
    ("decimal", "4.0", "integer", False),
    ("double", "4.0", "double", True),
    ("double", "4.0", "decimal", False),
]

# literal in the data, constraint of the shape, whether the literal conforms
VALUES = [
    ('"4.0"^^xsd:decimal', 'sh:in ( "4.0"^^xsd:decimal )', True),
    ("4.0", "sh:in ( 4.0 )", True),
    ("4.0", "sh:hasValue 4.0", True),
    ("4.0", "sh:in ( 4 )", False),
    ("4", "sh:hasValue 4.0", False),
    ('"1e3"^^xsd:double', 'sh:in ( "1e3"^^xsd:double )', True),
    ('"1e3"^^xsd:double', "sh:hasValue 1e3", True),
    ('"4.0"^^xsd:float', 'sh:in ( "4.0"^^xsd:float )', True),
    ('"1"^^xsd:boolean', 'sh:hasValue "1"^^xsd:boolean', True),
    ('"4"^^xsd:int', 'sh:in ( "4"^^xsd:int )', True),
    ('"4"^^xsd:int', 'sh:hasValue "4"^^xsd:int', True),
    ('"4"^^xsd:int', "sh:in ( 4 )", False),
    ('"4"^^xsd:int', "sh:hasValue 4", False),
    ('"4"^^xsd:int', 'sh:hasValue "4"^^xsd:long', False),
    ("4", 'sh:in ( "4"^^xsd:int )', False),
    ("4", 'sh:hasValue "4"^^xsd:nonNegativeInteger', False),
    (f'"{TIME}Z"^^xsd:dateTimeStamp', f'sh:in ( "{TIME}Z"^^xsd:dateTimeStamp )', True),
    (f'"{TIME}Z"^^xsd:dateTimeStamp', f'sh:hasValue "{TIME}Z"^^xsd:dateTime', False),
    (f'"{TIME}+00:00"^^xsd:dateTime', f'sh:hasValue "{TIME}+00:00"^^xsd:dateTime', True),
    ('"4"^^xsd:int', "sh:minInclusive 4 ; sh:maxExclusive 4.5", True),
    ('"4"^^xsd:int', 'sh:maxExclusive "4"^^xsd:unsignedByte', False),
    ('"18446744073709551615"^^xsd:unsignedLong', "sh:minExclusive 9223372036854775807", True),
    (f'"{TIME}Z"^^xsd:dateTimeStamp', 'sh:minInclusive "2024-01-01T00:00:00Z"^^xsd:dateTime', True),
    (f'"{TIME}Z"^^xsd:dateTimeStamp', 'sh:maxExclusive "2024-01-01T00:00:00Z"^^xsd:dateTime', False),
    ('"007"^^xsd:int', 'sh:pattern "^0" ; sh:minLength 3', True),
    ('"4"^^xsd:int', "sh:not [ sh:datatype xsd:integer ] ; sh:nodeKind sh:Literal", True),
    ('"4"^^xsd:int', "sh:or ( [ sh:datatype xsd:integer ] [ sh:datatype xsd:int ] )", True),
    ('"4"^^xsd:int , 4', "sh:maxCount 1", False),
    ('"4"^^xsd:int , "4"^^xsd:long', "sh:minCount 2", True),
    ('"4"^^xsd:int ; :q 4', "sh:equals :q", False),
    ('"4"^^xsd:int ; :q 4', "sh:disjoint :q", True),
    ('"4"^^xsd:int ; :q "4"^^xsd:int', "sh:equals :q", True),
    ('"4"^^xsd:int ; :q 5', "sh:lessThan :q", True),
    ('"4"^^xsd:int ; :q "3"^^xsd:byte', "sh:lessThanOrEquals :q", False),
]


def violating(report: Report) -> set[int]:
    """Return the numbers of the nodes of the table that violate their shape."""
    return {int(result.focus.removeprefix(f"{EX}n")) for result in report if result.focus.startswith(f"{EX}n")}


def write_table(folder: Path, rows: Iterable[tuple[str, str]]) -> tuple[Path, Path]:
    """Write one node with values, and one shape for it, per row."""
    numbered = list(enumerate(rows))
    data = "".join(f":n{number} :p {values} .\n" for number, (values, _) in numbered)
    shape = ":S{0} sh:targetNode :n{0} ; sh:property [ sh:path :p ; {1} ] .\n"
    return write(folder, data, "".join(shape.format(number, constraint) for number, (_, constraint) in numbered))


def reports(data: Path, shapes: Path, engine: EngineName, home: Path) -> dict[str, Report]:
    """Return the reports on the same data as a file, as N-Triples, as quads, and loaded into a home."""
    quads = list(ox.parse(path=data, format=ox.RdfFormat.TURTLE))
    ntriples = ox.serialize(quads, format=ox.RdfFormat.N_TRIPLES)
    assert ntriples is not None
    with Store(home, create=True) as store:
        store.load(data)
        loaded = store.validate(None, [shapes], engine=engine)
    return {
        "file": validate(data, only_shapes=shapes, engine=engine),
        "N-Triples": validate(ntriples, only_shapes=shapes, engine=engine),
        "quads": validate(iter(quads), only_shapes=shapes, engine=engine),
        "home": loaded,
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_a_datatype_is_the_one_that_was_written(engine: EngineName, tmp_path: Path):
    rows = [(f'"{text}"^^xsd:{datatype}', f"sh:datatype xsd:{wanted}") for datatype, text, wanted, _ in DATATYPES]
    expected = {number for number, (*_, conforms) in enumerate(DATATYPES) if not conforms}
    for form, report in reports(*write_table(tmp_path, rows), engine, tmp_path / "home").items():
        wrong = [DATATYPES[number] for number in violating(report) ^ expected]
        assert not wrong, form


@pytest.mark.parametrize("engine", ENGINES)
def test_values_are_compared_with_their_datatypes(engine: EngineName, tmp_path: Path):
    files = write_table(tmp_path, [(values, constraint) for values, constraint, _ in VALUES])
    expected = {number for number, (*_, conforms) in enumerate(VALUES) if not conforms}
    for form, report in reports(*files, engine, tmp_path / "home").items():
        wrong = [VALUES[number] for number in violating(report) ^ expected]
        assert not wrong, form


@pytest.mark.parametrize("engine", ENGINES)
def test_a_result_has_the_values_as_they_were_written(engine: EngineName, tmp_path: Path):
    rows = [('"04"^^xsd:int', "sh:in ( 4 )"), ('"4"^^xsd:int , "4"^^xsd:long', "sh:maxCount 1")]
    data, shapes = write_table(tmp_path, rows)
    one, two = sorted(validate(data, only_shapes=shapes, engine=engine), key=lambda result: result.focus)
    assert one.value == f'"04"^^<{XSD}int>'
    assert two.values == ('"4"^^xsd:int', '"4"^^xsd:long')


@pytest.mark.parametrize("engine", ENGINES)
def test_a_literal_target_keeps_its_datatype(engine: EngineName, tmp_path: Path):
    shapes = """:S a sh:NodeShape ; sh:targetNode "4"^^xsd:int , 5 ; sh:datatype xsd:int ; sh:maxInclusive 4 ;
      sh:sparql [ sh:select 'SELECT $this { FILTER ($this > 4) }' ] ."""
    data, shape_file = write(tmp_path, ":a :p 1 .", shapes)
    results = Counter(
        (result.focus, result.component) for result in validate(data, only_shapes=shape_file, engine=engine)
    )
    five = f'"5"^^<{XSD}integer>'
    assert results == {(five, "Datatype"): 1, (five, "MaxInclusive"): 1, (five, "SPARQL"): 1}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_count_may_have_any_integer_type(engine: EngineName, tmp_path: Path):
    files = write_table(tmp_path, [("1", 'sh:minCount "2"^^xsd:nonNegativeInteger ; sh:maxLength "1"^^xsd:int')])
    assert [result.component for result in validate(files[0], only_shapes=files[1], engine=engine)] == ["MinCount"]


# ---- queries of shapes


def validate_files(files: tuple[Path, Path], engine: EngineName) -> Report:
    return validate(files[0], only_shapes=files[1], engine=engine)


QUERIES = {
    "a comparison": ("SELECT $this ?value { $this :p ?value FILTER (?value > 4) }", {"b"}, False),
    "a sum": ("SELECT $this { { SELECT $this (SUM(?v) AS ?sum) { $this :p ?v } GROUP BY $this } FILTER (?sum > 4) }",
              {"b"}, False),
    "the datatype": ("SELECT $this { $this :p ?value FILTER (datatype(?value) != xsd:int) }", {"c"}, True),
}  # fmt: skip
NUMBERS = ':a :p "4"^^xsd:int . :b :p "5"^^xsd:int . :c :p 4 .'


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", QUERIES)
def test_a_query_calculates_with_such_values_and_tells_their_datatypes(name: str, engine: EngineName, tmp_path: Path):
    query, expected, is_delegated = QUERIES[name]
    prefix = f'[] a owl:Ontology ; sh:declare [ sh:prefix "xsd" ; sh:namespace "{XSD}" ] .\n'
    shape = f":S a sh:NodeShape ; sh:targetSubjectsOf :p ; sh:sparql [ sh:prefixes :x ; sh:select '''{query}''' ] ."
    report = validate_files(write(tmp_path, NUMBERS, DECLARED + prefix + shape), engine)
    assert {result.focus.removeprefix(EX) for result in report} == expected
    assert report.scope is not None
    assert bool(report.scope.delegated) == (is_delegated and engine == "sparql")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "outer",
    ["sh:not {}", "sh:property [ sh:path [ sh:inversePath :q ] ; sh:node {} ]", "sh:or ( {} [ sh:in ( :x ) ] )"],
)
def test_a_query_inside_another_shape_is_passed_to_pyshacl(outer: str, engine: EngineName, tmp_path: Path):
    inner = "[ sh:sparql [ sh:prefixes :x ; sh:select 'SELECT $this { $this :p ?value FILTER (?value > 4) }' ] ]"
    shape = f":S a sh:NodeShape ; sh:targetSubjectsOf :p ; {outer.format(inner)} ; sh:nodeKind sh:IRI ."
    report = validate_files(write(tmp_path, NUMBERS + " :b :q :a .", DECLARED + shape), engine)
    expected = {"sh:not": {"a", "c"}, "sh:property": {"a"}, "sh:or": {"b"}}[outer.split()[0]]
    assert {result.focus.removeprefix(EX) for result in report} == expected
    assert report.scope is not None
    assert len(report.scope.delegated) == (engine == "sparql")
    assert all("datatypes" in reason for reason in report.scope.delegated)


# ---- compiled classes

ONTOLOGY = """
ex:Box a owl:Class .
ex:Small a owl:Class ; rdfs:subClassOf ex:Box , [ owl:onProperty ex:size ; owl:allValuesFrom xsd:nonNegativeInteger ] .
ex:size a owl:DatatypeProperty ; rdfs:domain ex:Box ; rdfs:range xsd:integer .
ex:amount a owl:DatatypeProperty ; rdfs:domain ex:Box ; rdfs:range xsd:integer .
ex:count a owl:DatatypeProperty ; rdfs:subPropertyOf ex:amount ; rdfs:domain ex:Box ; rdfs:range xsd:positiveInteger .
ex:depth a owl:DatatypeProperty ; rdfs:domain ex:Box ; rdfs:range xsd:nonNegativeInteger .
ex:code a owl:DatatypeProperty ; rdfs:domain ex:Box ; rdfs:range xsd:short .
ex:price a owl:DatatypeProperty ; rdfs:domain ex:Box ; rdfs:range xsd:decimal .
ex:packed a owl:DatatypeProperty ; rdfs:domain ex:Box ; rdfs:range xsd:dateTimeStamp .
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_a_thing_conforms_to_the_shapes_that_were_compiled_with_its_class(engine: EngineName, tmp_path: Path):
    classes = dict(CLASSES)
    vocab = OntologyCompiler(tmp_path)(ONTOLOGY)
    restore_classes(classes)
    packed = datetime(2024, 1, 1, tzinfo=UTC)
    box = vocab.Small(IRI(f"{ZOO}b"), size=4, count=3, depth=2, code=-7, price=Decimal("4.0"), packed=packed)
    with Store(tmp_path / "home", create=True) as store:
        store.add(box)
        stored = store.validate(None, [tmp_path / "shapes.ttl"], engine=engine)
    for report in (validate(box, only_shapes=tmp_path / "shapes.ttl", engine=engine), stored):
        assert len(report) == 0, str(report)
    wrong = rdf.ntriples(box).replace(b'"2"^^<http://www.w3.org/2001/XMLSchema#nonNegativeInteger>', b'"2"')
    assert {result.path for result in validate(wrong, only_shapes=tmp_path / "shapes.ttl", engine=engine)} == {
        f"{ZOO}depth"
    }


# ---- homes


@pytest.mark.parametrize("engine", ENGINES)
def test_files_of_a_home_may_state_one_value_with_two_datatypes(engine: EngineName, tmp_path: Path):
    shapes = ":S sh:targetNode :a ; sh:property [ sh:path :p ; sh:datatype xsd:int ] ."
    _, shape_file = write(tmp_path, "", shapes)
    with Store(tmp_path / "home", create=True) as store:
        for name, text in (("int", ':a :p "4"^^xsd:int .'), ("other", ":b :p 4 .")):
            (tmp_path / f"{name}.ttl").write_text(PREFIXES + text)
            store.load(tmp_path / f"{name}.ttl")
        assert not violations_of(store, shape_file, engine)
        (tmp_path / "integer.ttl").write_text(f"{PREFIXES} :a :p 4 .")
        store.load(tmp_path / "integer.ttl")
        assert violations_of(store, shape_file, engine) == [f'"4"^^<{XSD}integer>']
        assert store.query(f"SELECT ?o {{ <{EX}a> <{EX}p> ?o }}").rows == [(4,)]  # type: ignore[union-attr]


def violations_of(store: Store, shapes: Path, engine: EngineName) -> list[str]:
    report = store.validate(None, [shapes], engine=engine)
    return [result.value for result in report if result.focus == f"{EX}a"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_pyoxigraph_store_has_the_datatypes_that_oxigraph_stores(engine: EngineName, tmp_path: Path):
    data, shapes = write_table(tmp_path, [('"4"^^xsd:int', "sh:datatype xsd:int"), ("4", "sh:datatype xsd:integer")])
    store = ox.Store()
    store.load(path=str(data), format=ox.RdfFormat.TURTLE)
    assert violating(validate(store, only_shapes=shapes, engine=engine)) == {0}


def test_a_literal_that_is_not_well_formed_is_reported_without_a_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    data, shapes = write_table(tmp_path, [('"four"^^xsd:int', "sh:datatype xsd:int")])
    with caplog.at_level(logging.WARNING):
        assert len(validate(data, only_shapes=shapes, engine="pyshacl")) == 1
    assert not caplog.records
    huge = "9" * 5000  # longer than the integers that Python parses
    data, shapes = write_table(tmp_path, [(f'"{huge}"^^xsd:int', "sh:datatype xsd:int")])
    for engine in ENGINES:
        assert len(validate(data, only_shapes=shapes, engine=engine)) == 1
