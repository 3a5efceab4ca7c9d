"""The shapes that come with provml: standard SHACL, true of good data, and each kind of promise broken by bad data."""

from __future__ import annotations

import pyshacl
import pytest
import rdflib

from provml import demo, rdf
from provml.errors import BrokenFile
from provml.validation import validate
from provml.validation.reference import load_shapes, own_shapes

GOOD = rdf.ntriples(rdf.reachable(demo.training(epochs=2)))
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
    assert len(report) == 0


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
