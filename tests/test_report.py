"""A report: true when it holds, one entry a promise, and the same in every format."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyoxigraph as ox
import pyshacl
import pytest
import rdflib
import rdflib.compare

from provml.errors import BrokenPromise
from provml.validation import Checked, Report, Result, validate
from provml.validation.format import as_path

SH = rdflib.Namespace("http://www.w3.org/ns/shacl#")
DATA = """
@prefix ex: <http://example.org/> .
ex:a ex:knows ex:b ; ex:name "<script>alert(1)</script>", "x|y `z`" . ex:b ex:name 3 .
"""
SHAPES = """
@prefix ex: <http://example.org/> .
@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
ex:S a sh:NodeShape ; sh:targetNode ex:a , ex:b ;
    sh:property ex:named , ex:known , ex:far , ex:maybe .
ex:named sh:path ex:name ; sh:maxCount 1 ; sh:datatype xsd:string ; sh:message "One name, as text."@en .
ex:known sh:path [ sh:inversePath ex:knows ] ; sh:minCount 1 ;
    sh:severity sh:Warning ; sh:message "Somebody knows it."@en .
ex:far sh:path ( ex:knows [ sh:zeroOrMorePath ex:knows ] ex:name ) ; sh:datatype xsd:string ; sh:message "Far."@en .
ex:maybe sh:path [ sh:alternativePath ( ex:knows [ sh:oneOrMorePath ex:age ] ) ] ; sh:minCount 1 ;
    sh:severity sh:Info ; sh:message "Knows or has an age."@en .
"""


@pytest.fixture(scope="module", params=["compiled", "reference"])
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Report:
    folder = tmp_path_factory.mktemp("report")
    (folder / "data.ttl").write_text(DATA)
    (folder / "shapes.ttl").write_text(SHAPES)
    return validate(folder / "data.ttl", folder / "shapes.ttl", engine=request.param, what="data")


def results(count: int, severity: str = "Violation", message: str = "It has a name.") -> tuple[Result, ...]:
    made = (f"http://example.org/{number}" for number in range(count))
    return tuple(Result(focus, "http://example.org/name", (), message, "urn:s", severity, "MinCount") for focus in made)


def test_it_is_true_when_nothing_is_violated_and_iterable(report: Report):
    assert not report
    assert not report.conforms
    assert len(list(report)) == len(report) == 5
    assert Report(())
    assert Report(results(3, "Warning"))
    assert not Report(results(1))


def test_a_promise_broken_a_thousand_times_is_one_group_with_its_count_and_some_examples():
    report = Report(results(1000))
    ((severity, message),) = report.groups()
    assert (severity, message) == ("Violation", "It has a name.")
    assert "- Violation at 1,000 nodes: It has a name. Too few values." in str(report)
    assert "and 997 more" in str(report)
    assert str(report).count("\n") == 2


def test_results_that_were_counted_and_not_kept_count():
    report = Report(results(10), counts={("urn:s", "MinCount"): 60_000})
    assert "- Violation in 60,000 results: " in str(report)
    assert str(report).endswith(" and more")
    (said,) = json.loads(report.to_json())["promises"]
    assert (said["nodes"], said["results"], said["has_more"]) == (None, 60_000, False), "how many nodes, nobody knows"


def test_results_that_were_not_kept_are_not_counted_for_each_of_a_shapes_messages():
    """2,000 results in ten messages are not told as 11,000: of those that are not kept, the message is not known."""
    kept = tuple(result for number in range(10) for result in results(100, message=f"Message {number}."))
    kept = tuple(replace(result, path=f"urn:{number}") for number, result in enumerate(kept))
    report = Report(kept, counts={("urn:s", "MinCount"): 2000})
    groups = report.groups().values()
    assert {(group.count, group.has_more) for group in groups} == {(100, True)}
    assert "- Violation in 100 results or more: Message 3." in str(report)
    assert {said["has_more"] for said in json.loads(report.to_json())["promises"]} == {True}
    assert "in 100 results or more" in report.to_markdown()
    assert "in 100 results or more" in report.to_html()


def test_groups_of_many_shapes_are_made_in_one_pass(monkeypatch: pytest.MonkeyPatch):
    """What is kept of each shape is counted once, not once for each group."""
    walked = 0

    class Counted(tuple):
        def __iter__(self):
            nonlocal walked
            walked += 1
            return super().__iter__()

    told = [replace(one, shape=f"urn:{n}", message=f"M{n}.", path=f"urn:p{n}") for n in range(50) for one in results(2)]
    report = Report(Counted(told), counts={("urn:7", "MinCount"): 9})
    for _ in range(3):
        str(report)
        report.to_json()
    assert len(report.groups()) == 50
    assert walked < 20
    assert "- Violation in 9 results: M7." in str(report)


def test_the_gravest_comes_first_and_then_what_is_broken_most():
    told = (
        *results(9, "Info", "I."),
        *results(3, "Warning", "W."),
        *results(1, "urn:odd", "O."),
        *results(1, "Violation", "A."),
        *results(2, "Violation", "B."),
    )
    one = [Result(r.focus, f"{r.path}{n}", r.values, r.message, r.shape, r.severity) for n, r in enumerate(told)]
    assert [message for _, message in Report(tuple(one)).groups()] == ["B.", "A.", "W.", "I.", "O."]


def test_what_several_shapes_say_of_one_property_is_told_once_by_the_promise_written_by_hand():
    def said(shape: str, message: str) -> Result:
        return Result("urn:e", "urn:plan", (), message, shape, "Violation", "MinCount")

    general, narrow = said("urn:Execution", "An execution has a plan."), said("urn:Epoch", "An epoch has a plan.")
    other = Result("urn:f", "urn:plan", (), "An execution has a plan.", "urn:Execution", "Violation", "MinCount")
    by_hand = said("https://w3id.org/provml/shape/one-plan", "Carry out a plan.")
    assert {message for _, message in Report((general, narrow, other)).groups()} == {
        "An epoch has a plan.",
        "An execution has a plan.",
    }
    assert [message for _, message in Report((general, narrow, by_hand)).groups()] == ["Carry out a plan."]
    assert len(Report((general, narrow, by_hand))) == 3, "none is lost"


def test_messages_with_values_filled_in_are_one_group():
    told = [Result(f"urn:{n}", None, (), f"{n} is too large.", "urn:s", "Violation", "SPARQL") for n in range(5)]
    assert len(Report(tuple(told)).groups()) == 1


def test_it_raises_if_it_is_broken():
    Report(results(1, "Warning")).raise_if_broken()
    with pytest.raises(BrokenPromise, match=r"It has a name\.") as caught:
        Report(results(5)).raise_if_broken()
    assert caught.value.promises == ("It has a name.",)
    assert caught.value.exit_code == 1


def test_it_says_what_was_checked(report: Report):
    assert report.checked is not None
    assert report.checked.triples == 4
    assert report.checked.shapes == 1
    assert str(report.checked).startswith("data: 4 triples against 1 shape, by ")
    both = report + Report((), Checked("data", 4, 35, "PROV-CONSTRAINTS", rules="constraint"))
    assert str(both.checked).startswith(str(report.checked))
    assert str(both.checked).endswith(", and 35 constraints, by PROV-CONSTRAINTS")


def test_what_was_held_to_shapes_and_constraints_conforms_to_both():
    shapes = Report((), Checked("data", 4, 1, "compiled"))
    constraints = Report((), Checked("data", 4, 35, "PROV-CONSTRAINTS", rules="constraint"))
    axioms = Report((), Checked("data", 4, 900, "HermiT", rules="axiom"))
    assert (shapes + constraints).summary == "The graph conforms to all shapes and constraints"
    said = str((shapes + constraints + axioms).checked)
    assert said == (
        "data: 4 triples against 1 shape, by the compiled engine, and 35 constraints, by PROV-CONSTRAINTS, "
        "and 900 axioms, by HermiT"
    )


@pytest.mark.parametrize("engine", ["compiled", "reference"])
@pytest.mark.parametrize(
    ("node", "shown"), [("1", '"1"^^xsd:integer'), ('"hello"', '"hello"'), ('"bon jour"@fr', '"bon jour"@fr')]
)
def test_a_literal_that_is_a_focus_node_is_told_as_one(engine: str, node: str, shown: str, tmp_path: Path):
    (tmp_path / "data.ttl").write_text("<urn:a> <urn:p> 1 .")
    (tmp_path / "shapes.ttl").write_text(
        f"@prefix sh: <{SH}> . <urn:S> a sh:NodeShape ; sh:targetNode {node} ; sh:nodeKind sh:IRI ."
    )
    report = validate(tmp_path / "data.ttl", tmp_path / "shapes.ttl", engine=engine)
    (result,) = report
    assert result.node == shown
    assert f"at {shown}" in str(report)
    graph = rdflib.Graph().parse(data=report.to_rdf(), format="turtle")
    (focus,) = graph.objects(None, SH.focusNode)
    (expected,) = rdflib.Graph().parse(data=f"<urn:a> <urn:b> {node} .", format="turtle").objects()
    assert focus.eq(expected)
    assert focus.language == expected.language


def test_what_was_handed_over_is_said():
    checked = Checked("x", 1, 2, "compiled", ("urn:s: it has a rule",))
    assert str(checked).endswith("; 1 shape handed to pySHACL")


def test_json_holds_how_it_stands_the_promises_and_every_result(report: Report):
    said = json.loads(report.to_json())
    assert said["conforms"] is False
    assert len(said["results"]) == len(report)
    assert {promise["promise"] for promise in said["promises"]} == {message for _, message in report.groups()}
    assert said["checked"]["triples"] == 4


def test_markdown_and_html_show_values_as_they_are_and_never_as_markup(report: Report):
    html = report._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert html.count("<details>") == len(report.groups())
    markdown = report.to_markdown()
    assert markdown.startswith("## The graph breaks 2 promises\n")
    assert "``" in markdown, "a value with a backtick is fenced by two"
    assert markdown.count("- **") == len(report.groups())


def test_rdf_is_the_report_that_pyshacl_gives(report: Report):
    """Focus, path, value, severity, component and shape: paths of blank nodes and blank shapes up to isomorphism."""
    _, expected, _ = pyshacl.validate(
        rdflib.Graph().parse(data=DATA, format="turtle"),
        shacl_graph=rdflib.Graph().parse(data=SHAPES, format="turtle"),
    )
    ours = rdflib.Graph().parse(data=report.to_rdf(), format="turtle")
    for graph in (ours, expected):
        graph.remove((None, SH.resultMessage, None))
    kept = rdflib.Graph()
    for node in expected.subjects(rdflib.RDF.type, SH.ValidationReport):
        _copy(expected, node, kept)
    assert rdflib.compare.isomorphic(ours, kept), rdflib.compare.graph_diff(ours, kept)[1:]


def _copy(graph: rdflib.Graph, node: rdflib.term.Node, into: rdflib.Graph) -> None:
    """A node and the blank nodes below it."""
    for predicate, held in graph.predicate_objects(node):
        into.add((node, predicate, held))
        if isinstance(held, rdflib.BNode):
            _copy(graph, held, into)


@pytest.mark.parametrize(
    ("text", "turtle"),
    [
        ("http://example.org/p", "<http://example.org/p>"),
        ("^<urn:p>", "[ sh:inversePath <urn:p> ]"),
        ("(<urn:p>/<urn:q>)", "( <urn:p> <urn:q> )"),
        ("(<urn:p>|^<urn:q>)", "[ sh:alternativePath ( <urn:p> [ sh:inversePath <urn:q> ] ) ]"),
        ("(<urn:p>)*", "[ sh:zeroOrMorePath <urn:p> ]"),
        ("((<urn:p>/(<urn:q>)+))?", "[ sh:zeroOrOnePath ( <urn:p> [ sh:oneOrMorePath <urn:q> ] ) ]"),
    ],
)
def test_a_path_is_written_in_the_terms_of_shacl(text: str, turtle: str):
    assert as_path(text) == turtle


def test_rdf_of_an_empty_report_conforms_and_of_a_warning_does_not():
    for held, conforms in ((Report(()), "true"), (Report(results(1, "Warning")), "false")):
        store = ox.Store()
        store.load(held.to_rdf().encode(), format=ox.RdfFormat.TURTLE)
        (quad,) = store.quads_for_pattern(None, ox.NamedNode(str(SH.conforms)), None)
        assert quad.object.value == conforms


def test_a_file_may_leave_the_hierarchy_of_classes_to_the_ontology(tmp_path: Path):
    path = tmp_path / "data.ttl"
    path.write_text(
        """@prefix ex: <http://example.org/> . @prefix prov: <http://www.w3.org/ns/prov#> .
        @prefix provml: <https://w3id.org/provml#> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
        ex:plan a provml:LearningExperiment ; rdfs:label "plan" ; provml:hasLearningStage ex:fit .
        ex:fit a provml:Training ; rdfs:label "fit" .
        ex:reading a prov:Usage ; prov:hadRole provml:TrainingRole ; prov:entity ex:data . ex:data a prov:Entity ."""
    )
    assert len(validate(path)) == 0, str(validate(path))
