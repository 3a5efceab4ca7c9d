"""The shapes that come with provml: standard SHACL, true of good data, and each kind of promise broken by bad data."""

from __future__ import annotations

from pathlib import Path

import pyshacl
import pytest
import rdflib
import told

from provml import rdf, resources
from provml.errors import BrokenFile, WrongType
from provml.validation import Report, Result, validate
from provml.validation.reference import load_shapes, own_shapes
from provml.values import IRI
from provml.vocab import EvaluationMeasure, ModelEvaluation

GOOD = rdf.ntriples(rdf.reachable(told.training(epochs=2)))
GENERATED = resources.shapes() / "generated"
RUN = "http://example.org/demo/run/1"
PLAN = "http://example.org/demo/plan"
A = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
XSD = "http://www.w3.org/2001/XMLSchema#"
PROV, PROVLAKE, PROVML = "http://www.w3.org/ns/prov#", "https://w3id.org/provlake#", "https://w3id.org/provml#"


def test_shapes_are_valid_shacl_themselves():
    shapes = load_shapes(own_shapes())
    conforms, _, text = pyshacl.validate(rdflib.Graph(), shacl_graph=shapes, meta_shacl=True)
    assert conforms, text


def test_a_training_told_by_hand_conforms():
    report = validate(GOOD)
    assert report, str(report)
    assert {result.severity for result in report} <= {"Info"}, "nobody captured where it ran, and that is all"
    assert len(validate(GOOD, GENERATED)) == 0


BROKEN = {
    "two status values": f'<{RUN}> <{PROVLAKE}status> "FAILED" .',
    "a status that is none": f"<{RUN}/adaptation/9> {A} <{PROVLAKE}DataTransformationExecution> .\n"
    f'<{RUN}/adaptation/9> <{PROVLAKE}status> "DONE" .',
    "an execution without a plan": f"<{RUN}/x> {A} <{PROVLAKE}DataTransformationExecution> .",
    "a value without an attribute": f"<{RUN}/v> {A} <{PROVLAKE}AttributeValue> .",
    "an epoch without an index": f"<{RUN}/e> {A} <{PROVML}EpochExecution> .",
    "a negative index": f'<{RUN}/training/epoch/1> <{PROVML}sectionIndex> "-1"^^<{XSD}integer> .',
    "seconds as text": f"<{RUN}/adaptation/5> {A} <{PROVLAKE}DataTransformationExecution> .\n"
    f'<{RUN}/adaptation/5> <{PROVML}elapsedSeconds> "12" .',
    "a digest that is none": f'<{RUN}/d> {A} <{PROVLAKE}DataReference> .\n<{RUN}/d> <{PROVLAKE}sha256> "abc" .',
    "a plan that is an activity": f"<{PLAN}/training> {A} <{PROV}Activity> .",
    "an index on an agent": f'<{RUN}/a> {A} <{PROV}Agent> .\n<{RUN}/a> <{PROVML}sectionIndex> "1"^^<{XSD}integer> .',
    "a use of something that is no entity": f"<{RUN}/training> <{PROV}used> <{RUN}> .",
}


@pytest.mark.parametrize("case", BROKEN)
def test_bad_data_is_told(case: str):
    report = validate(GOOD + BROKEN[case].encode() + b"\n")
    assert not report
    assert not report.conforms
    assert "Violation" in str(report)


def test_a_promise_broken_often_is_one_line():
    epochs = "".join(f"<{RUN}/e/{n}> {A} <{PROVML}EpochExecution> .\n" for n in range(50))
    report = validate(epochs.encode())
    assert len(report) >= 50
    index = [group for group in report.groups() if "section index" in group[1]]
    assert len(index) == 1
    assert "and 47 more" in str(report)


SAID = {
    "two status values": ("Too many values.", f'at <{RUN}> with "FAILED", "FINISHED"'),
    "a status that is none": ("Not one of these.", 'with "DONE"'),
    "an execution without a plan": ("Too few values.", f"at <{RUN}/x>"),
    "a negative index": ("outside the limits.", 'with "-1"^^xsd:integer'),
    "seconds as text": ("Wrong datatype", 'with "12"'),
    "a digest that is none": ("Not of the form asked for.", 'with "abc"'),
    "a plan that is an activity": ("(disjoint).", f"at <{PLAN}/training>"),
    "an index on an agent": ("Wrong class", f"at <{RUN}/a>"),
    "a use of something that is no entity": ("Wrong class", f"at <{RUN}/training> with <{RUN}>"),
}


@pytest.mark.parametrize("case", SAID)
def test_a_report_says_what_was_wrong_after_the_promise_and_with_which_value(case: str):
    problem, place = SAID[case]
    lines = str(validate(GOOD + BROKEN[case].encode() + b"\n", GENERATED)).splitlines()
    assert lines[0] in ("The graph breaks 1 promise:", "The graph breaks 2 promises:")
    entries = list(zip(lines[1::2], lines[2::2], strict=True))
    assert len(entries) == (1 if "1 promise:" in lines[0] else 2)
    assert any(problem in promise.partition(". ")[2] and place in where for promise, where in entries), lines


def test_a_node_stands_once_in_a_group_though_it_breaks_the_promise_in_several_ways():
    report = validate(GOOD + BROKEN["a negative index"].encode() + b"\n", GENERATED)
    assert {result.component for result in report} == {"MaxCount", "MinInclusive"}
    assert {result.focus for result in report} == {f"{RUN}/training/epoch/1"}
    places = [line for line in str(report).splitlines() if line.startswith("  at ")]
    assert places == [f'  at <{RUN}/training/epoch/1> with "-1"^^xsd:integer, "1"^^xsd:integer']
    assert "Violation at 1 node:" in str(report)


def test_long_values_are_cut_and_blank_nodes_are_told():
    data = f'_:a {A} <{PROV}Activity> .\n_:a <{PROV}used> "{"word " * 50}"@en .\n'
    text = str(validate(data.encode()))
    assert "  at _:" in text
    assert '…"@en' in text
    assert max(map(len, text.splitlines())) < 200


def test_a_component_without_words_of_its_own_is_told_by_its_name():
    result = Result("urn:a", None, (), "M.", "urn:s", "Warning", "MyOwn")
    assert result.problem == "fails my own"
    assert "M. Fails my own." in str(Report((result,)))
    assert Report((result,)).conforms


# ---- what can be validated

MEASURE = EvaluationMeasure("http://example.org/loss", label="loss")


def test_things_are_validated_with_what_they_refer_to():
    good = ModelEvaluation("http://example.org/v", was_derived_from_attribute=MEASURE, value=0.17)
    assert validate(good)
    assert validate([good, MEASURE])
    assert validate(thing for thing in [good])
    assert validate([])
    alone = good.replace(was_derived_from_attribute=IRI("http://example.org/loss"))
    report = validate(alone)
    assert not report
    assert "no class is given" in str(report)


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
def test_a_file_is_validated_by_its_path_whatever_graph_it_is_in(name: str, text: str, tmp_path: Path):
    path = tmp_path / name
    path.write_text(text)
    for given in (path, str(path)):
        report = validate(given)
        assert "An activity has any number of 'used'" in str(report)
    path.write_bytes(b"")
    assert validate(path)


def test_a_shape_file_can_be_given_alone(tmp_path: Path):
    assert validate(GOOD, own_shapes()[0])


@pytest.mark.parametrize(
    ("given", "line", "word"),
    [
        (b"garbage", 1, "N-Triples:1: "),
        (GOOD + b"<urn:a> <urn:b> ,\n", GOOD.count(b"\n") + 1, "Mend the N-Triples"),
        (b"\xff", 1, "UTF-8"),
    ],
    ids=["no N-Triples at all", "its last line", "no text"],
)
def test_broken_data_is_told_with_its_line(given: bytes, line: int, word: str):
    with pytest.raises(BrokenFile, match=word) as caught:
        validate(given)
    assert caught.value.line == line


def test_a_broken_or_missing_data_file_is_named(tmp_path: Path):
    (tmp_path / "bad.ttl").write_text("\n\n,,")
    with pytest.raises(BrokenFile, match=r"bad\.ttl:3: ") as caught:
        validate(tmp_path / "bad.ttl")
    assert caught.value.line == 3
    for name, word in (
        ("none.ttl", "Check the path"),
        ("data.csv", "names no RDF format"),
        ("x", "N-Triples as bytes"),
    ):
        with pytest.raises(BrokenFile, match=word):
            validate(str(tmp_path / name))
    (tmp_path / "folder.ttl").mkdir()
    with pytest.raises(BrokenFile, match="Check the path"):
        validate(tmp_path / "folder.ttl")


@pytest.mark.parametrize("given", [3, None, [1], True], ids=repr)
def test_what_is_no_data_is_refused(given: object):
    with pytest.raises(WrongType):
        validate(given)  # type: ignore[arg-type]


def test_every_generated_message_reads_as_a_sentence():
    shapes = load_shapes(own_shapes())
    messages = {str(text) for text in shapes.objects(None, rdflib.URIRef("http://www.w3.org/ns/shacl#message"))}
    assert len(messages) > 100
    for text in messages:
        assert text[0].isupper(), text
        assert text.endswith("."), text


def test_a_broken_shape_file_is_named_with_its_line(tmp_path):
    path = tmp_path / "bad.ttl"
    path.write_text("@prefix sh: <http://www.w3.org/ns/shacl#> .\n\nsh:x sh:y ,,\n")
    with pytest.raises(BrokenFile) as caught:
        validate(GOOD, [path])
    assert caught.value.line == 3
    with pytest.raises(BrokenFile, match="Check the path"):
        validate(GOOD, [tmp_path / "none.ttl"])
    for name in ("bad.ttl", "bad.rdf"):
        (tmp_path / name).write_bytes(b"\xff\xfe")
        with pytest.raises(BrokenFile, match=name):
            validate(GOOD, [tmp_path / name])
