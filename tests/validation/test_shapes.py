"""The built-in shapes: standard SHACL, satisfied by good data, and violated by bad data of each kind."""

from __future__ import annotations

from pathlib import Path

import pyshacl
import pytest
import rdflib
import sample_graph

from provml import paths, rdf
from provml.errors import FileFormatError, WrongType
from provml.model.values import IRI
from provml.validation import Report, Result, validate
from provml.validation.shape_files import builtin_shapes
from provml.vocab import EvaluationMeasure, ModelEvaluation

GOOD = rdf.ntriples(rdf.reachable(sample_graph.training(epochs=2)))
GENERATED = paths.shapes() / "generated"
RUN = "http://example.org/demo/run/1"
PLAN = "http://example.org/demo/plan"
A = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
XSD = "http://www.w3.org/2001/XMLSchema#"
PROV, PROVLAKE, PROVML = "http://www.w3.org/ns/prov#", "https://w3id.org/provlake#", "https://w3id.org/provml#"


def parse_shapes() -> rdflib.Graph:
    graph = rdflib.Graph()
    for path in builtin_shapes():
        graph.parse(path)
    return graph


@pytest.mark.slow
def test_shapes_are_valid_shacl_themselves():
    shapes = parse_shapes()
    conforms, _, text = pyshacl.validate(rdflib.Graph(), shacl_graph=shapes, meta_shacl=True)
    assert conforms, text


def test_a_training_described_with_typed_classes_conforms():
    report = validate(GOOD)
    assert report, str(report)
    assert {result.severity for result in report} <= {"Info"}, "only the environment was not captured"
    assert len(validate(GOOD, only_shapes=GENERATED)) == 0


BROKEN = {
    "two status values": f'<{RUN}> <{PROVLAKE}status> "FAILED" .',
    "an invalid status": f"<{RUN}/adaptation/9> {A} <{PROVLAKE}DataTransformationExecution> .\n"
    f'<{RUN}/adaptation/9> <{PROVLAKE}status> "DONE" .',
    "an execution without a plan": f"<{RUN}/x> {A} <{PROVLAKE}DataTransformationExecution> .",
    "a value without an attribute": f"<{RUN}/v> {A} <{PROVLAKE}AttributeValue> .",
    "an epoch without an index": f"<{RUN}/e> {A} <{PROVML}EpochExecution> .",
    "a negative index": f'<{RUN}/training/epoch/1> <{PROVML}sectionIndex> "-1"^^<{XSD}integer> .',
    "seconds as text": f"<{RUN}/adaptation/5> {A} <{PROVLAKE}DataTransformationExecution> .\n"
    f'<{RUN}/adaptation/5> <{PROVML}elapsedSeconds> "12" .',
    "an invalid digest": f'<{RUN}/d> {A} <{PROVLAKE}DataReference> .\n<{RUN}/d> <{PROVLAKE}sha256> "abc" .',
    "a plan that is an activity": f"<{PLAN}/training> {A} <{PROV}Activity> .",
    "an index on an agent": f'<{RUN}/a> {A} <{PROV}Agent> .\n<{RUN}/a> <{PROVML}sectionIndex> "1"^^<{XSD}integer> .',
    "a use of an activity": f"<{RUN}/training> <{PROV}used> <{RUN}> .",
}


@pytest.mark.parametrize("case", BROKEN)
def test_bad_data_is_reported(case: str):
    report = validate(GOOD + BROKEN[case].encode() + b"\n")
    assert not report
    assert not report.conforms
    assert "Violation" in str(report)


def test_a_constraint_violated_often_is_one_line():
    epochs = "".join(f"<{RUN}/e/{n}> {A} <{PROVML}EpochExecution> .\n" for n in range(50))
    report = validate(epochs.encode())
    assert len(report) >= 50
    index = [group for group in report.groups() if "provml:sectionIndex" in group[1]]
    assert len(index) == 1
    assert "and 47 more" in str(report)


REPORTED = {
    "two status values": ("Too many values.", f'at <{RUN}> with "FAILED", "FINISHED"'),
    "an invalid status": ("Not one of the allowed values.", 'with "DONE"'),
    "an execution without a plan": ("Too few values.", f"at <{RUN}/x>"),
    "a negative index": ("outside the limits.", 'with "-1"^^xsd:integer'),
    "seconds as text": ("Wrong datatype", 'with "12"'),
    "an invalid digest": ("Does not match the required pattern.", 'with "abc"'),
    "a plan that is an activity": ("excluded (disjoint)", f"at <{PLAN}/training>"),
    "an index on an agent": ("Wrong class", f"at <{RUN}/a>"),
    "a use of an activity": ("Wrong class", f"at <{RUN}/training> with <{RUN}>"),
}


@pytest.mark.parametrize("case", REPORTED)
def test_a_report_states_the_problem_after_the_constraint_and_the_violating_value(case: str):
    problem, place = REPORTED[case]
    lines = str(validate(GOOD + BROKEN[case].encode() + b"\n", only_shapes=GENERATED)).splitlines()
    assert lines[0] in ("The graph violates 1 constraint:", "The graph violates 2 constraints:")
    entries = list(zip(lines[1::2], lines[2::2], strict=True))
    assert len(entries) == (1 if "1 constraint:" in lines[0] else 2)
    assert any(problem in line.partition(". ")[2] and place in nodes for line, nodes in entries), lines


def test_a_node_that_violates_a_constraint_in_several_ways_is_listed_once():
    report = validate(GOOD + BROKEN["a negative index"].encode() + b"\n", only_shapes=GENERATED)
    assert {result.component for result in report} == {"MaxCount", "MinInclusive"}
    assert {result.focus for result in report} == {f"{RUN}/training/epoch/1"}
    places = [line for line in str(report).splitlines() if line.startswith("  at ")]
    assert places == [f'  at <{RUN}/training/epoch/1> with "-1"^^xsd:integer, "1"^^xsd:integer']
    assert "Violation at 1 node:" in str(report)


def test_long_values_are_shortened_and_blank_nodes_are_shown():
    data = f'_:a {A} <{PROV}Activity> .\n_:a <{PROV}used> "{"word " * 50}"@en .\n'
    text = str(validate(data.encode()))
    assert "  at _:" in text
    assert '…"@en' in text
    assert max(map(len, text.splitlines())) < 200


def test_an_unknown_component_is_described_by_its_name():
    result = Result("urn:a", None, (), "M.", "urn:s", "Warning", "MyOwn")
    assert result.problem == "fails my own"
    assert "M. Fails my own." in str(Report((result,)))
    assert Report((result,)).conforms


# ---- inputs

MEASURE = EvaluationMeasure("http://example.org/loss", label="loss")


def test_things_are_validated_with_the_things_that_they_refer_to():
    good = ModelEvaluation("http://example.org/v", was_derived_from_attribute=MEASURE, value=0.17)
    assert validate(good)
    assert validate([good, MEASURE])
    assert validate(thing for thing in [good])
    assert validate([])
    alone = good.replace(was_derived_from_attribute=IRI("http://example.org/loss"))
    report = validate(alone)
    assert not report
    assert "the class is not stated" in str(report)


TURTLE = f"@prefix prov: <{PROV}> .\n<http://example.org/a> a prov:Activity ; prov:used <http://example.org/b> .\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("data.ttl", TURTLE),
        (
            "data.trig",
            f"{TURTLE.partition('<http://example.org/a>')[0]} <urn:g> {{ <urn:a> a prov:Activity ; prov:used 3 }}",
        ),
        ("data.nt", f"<urn:a> {A} <{PROV}Activity> .\n<urn:a> <{PROV}used> <urn:b> .\n"),
        ("data.nq", f"<urn:a> {A} <{PROV}Activity> <urn:g> .\n<urn:a> <{PROV}used> <urn:b> <urn:h> .\n"),
    ],
)
def test_all_graphs_of_a_file_are_validated(name: str, text: str, tmp_path: Path):
    path = tmp_path / name
    path.write_text(text)
    for data in (path, str(path)):
        report = validate(data)
        assert "Each prov:used of an activity must be an entity" in str(report)
    path.write_bytes(b"")
    assert validate(path)


def test_shapes_can_be_a_single_file():
    assert validate(GOOD, only_shapes=builtin_shapes()[0])


@pytest.mark.parametrize(
    ("data", "line", "message"),
    [
        (b"garbage", 1, "N-Triples:1: "),
        (GOOD + b"<urn:a> <urn:b> ,\n", GOOD.count(b"\n") + 1, "Correct the N-Triples"),
        (b"\xff", 1, "UTF-8"),
    ],
    ids=["no N-Triples at all", "its last line", "not UTF-8"],
)
def test_invalid_data_is_reported_with_its_line(data: bytes, line: int, message: str):
    with pytest.raises(FileFormatError, match=message) as caught:
        validate(data)
    assert caught.value.line == line


def test_an_invalid_or_missing_data_file_is_named(tmp_path: Path):
    (tmp_path / "bad.ttl").write_text("\n\n,,")
    with pytest.raises(FileFormatError, match=r"bad\.ttl:3: ") as caught:
        validate(tmp_path / "bad.ttl")
    assert caught.value.line == 3
    for name, message in (
        ("none.ttl", "Check the path"),
        ("data.csv", "unknown extension"),
        ("x", "no file extension"),
    ):
        with pytest.raises(FileFormatError, match=message):
            validate(str(tmp_path / name))
    (tmp_path / "folder.ttl").mkdir()
    with pytest.raises(FileFormatError, match="Check the path"):
        validate(tmp_path / "folder.ttl")


@pytest.mark.parametrize("data", [3, None, [1], True], ids=repr)
def test_other_types_of_data_are_rejected(data: object):
    with pytest.raises(WrongType):
        validate(data)  # type: ignore[arg-type]


def test_every_generated_message_is_a_sentence():
    shapes = parse_shapes()
    messages = {str(text) for text in shapes.objects(None, rdflib.URIRef("http://www.w3.org/ns/shacl#message"))}
    assert len(messages) > 100
    for text in messages:
        assert text[0].isupper(), text
        assert text.endswith("."), text


def test_an_invalid_shape_file_is_named_with_its_line(tmp_path: Path):
    path = tmp_path / "bad.ttl"
    path.write_text("@prefix sh: <http://www.w3.org/ns/shacl#> .\n\nsh:x sh:y ,,\n")
    with pytest.raises(FileFormatError) as caught:
        validate(GOOD, only_shapes=[path])
    assert caught.value.line == 3
    with pytest.raises(FileFormatError, match="Check the path"):
        validate(GOOD, only_shapes=[tmp_path / "none.ttl"])
    for name in ("bad.ttl", "bad.rdf"):
        (tmp_path / name).write_bytes(b"\xff\xfe")
        with pytest.raises(FileFormatError, match=name):
            validate(GOOD, only_shapes=[tmp_path / name])
