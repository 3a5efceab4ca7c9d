"""Reports: true if the graph conforms, one entry per violated constraint, the same in every format."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyoxigraph as ox
import pyshacl
import pytest
import rdflib
import rdflib.compare

from provml.errors import ValidationFailed
from provml.validation import Report, Result, ValidationScope, validate
from provml.validation.report_formats import as_path

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


@pytest.fixture(scope="module", params=["sparql", "pyshacl"])
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Report:
    folder = tmp_path_factory.mktemp("report")
    (folder / "data.ttl").write_text(DATA)
    (folder / "shapes.ttl").write_text(SHAPES)
    return validate(folder / "data.ttl", only_shapes=folder / "shapes.ttl", engine=request.param, label="data")


def results(count: int, severity: str = "Violation", message: str = "It has a name.") -> tuple[Result, ...]:
    nodes = (f"http://example.org/{number}" for number in range(count))
    return tuple(Result(node, "http://example.org/name", (), message, "urn:s", severity, "MinCount") for node in nodes)


def test_a_report_is_true_if_nothing_is_violated_and_iterates_over_results(report: Report):
    assert not report
    assert not report.conforms
    assert len(list(report)) == len(report) == 5
    assert Report(())
    assert Report(results(3, "Warning"))
    assert not Report(results(1))


def test_a_thousand_violations_of_a_constraint_are_one_group_with_a_count_and_examples():
    report = Report(results(1000))
    ((severity, message),) = report.groups()
    assert (severity, message) == ("Violation", "It has a name.")
    assert "- Violation at 1,000 nodes: It has a name. Too few values." in str(report)
    assert "and 997 more" in str(report)
    assert str(report).count("\n") == 2


def test_results_that_were_only_counted_are_included_in_the_count():
    report = Report(results(10), counts={("urn:s", "MinCount"): 60_000})
    assert "- Violation in 60,000 results: " in str(report)
    assert str(report).endswith(" and more")
    (group,) = json.loads(report.to_json())["constraints"]
    assert (group["nodes"], group["results"], group["has_more"]) == (None, 60_000, False), "unknown number of nodes"


def test_counted_results_are_not_added_to_each_message_of_a_shape():
    """2,000 results with ten messages are not reported as 11,000: the message of a counted result is unknown."""
    retained = [result for number in range(10) for result in results(100, message=f"Message {number}.")]
    retained = [replace(result, path=f"urn:{number}") for number, result in enumerate(retained)]
    report = Report(tuple(retained), counts={("urn:s", "MinCount"): 2000})
    groups = report.groups().values()
    assert {(group.count, group.has_more) for group in groups} == {(100, True)}
    assert "- Violation in 100 results or more: Message 3." in str(report)
    assert {group["has_more"] for group in json.loads(report.to_json())["constraints"]} == {True}
    assert "in 100 results or more" in report.to_markdown()
    assert "in 100 results or more" in report.to_html()


def test_grouping_takes_a_fixed_number_of_passes():
    """The results of each shape are counted once, not once per group."""
    passes = 0

    class Counted(tuple):
        def __iter__(self):
            nonlocal passes
            passes += 1
            return super().__iter__()

    many = [replace(r, shape=f"urn:{n}", message=f"M{n}.", path=f"urn:p{n}") for n in range(50) for r in results(2)]
    report = Report(Counted(many), counts={("urn:7", "MinCount"): 9})
    for _ in range(3):
        str(report)
        report.to_json()
    assert len(report.groups()) == 50
    assert passes < 20
    assert "- Violation in 9 results: M7." in str(report)


def test_groups_are_sorted_by_severity_and_then_by_frequency():
    unsorted = (
        *results(9, "Info", "I."),
        *results(3, "Warning", "W."),
        *results(1, "urn:odd", "O."),
        *results(1, "Violation", "A."),
        *results(2, "Violation", "B."),
    )
    distinct = [replace(result, path=f"{result.path}{n}", component="") for n, result in enumerate(unsorted)]
    assert [message for _, message in Report(tuple(distinct)).groups()] == ["B.", "A.", "W.", "I.", "O."]


def test_a_property_that_several_shapes_report_is_shown_once_by_the_handwritten_shape():
    def result(shape: str, message: str) -> Result:
        return Result("urn:e", "urn:plan", (), message, shape, "Violation", "MinCount")

    general = result("urn:Execution", "An execution has a plan.")
    narrow = result("urn:Epoch", "An epoch has a plan.")
    other = Result("urn:f", "urn:plan", (), "An execution has a plan.", "urn:Execution", "Violation", "MinCount")
    handwritten = result("https://w3id.org/provml/shape/execution-without-plan", "Carry out a plan.")
    assert {message for _, message in Report((general, narrow, other)).groups()} == {
        "An epoch has a plan.",
        "An execution has a plan.",
    }
    assert [message for _, message in Report((general, narrow, handwritten)).groups()] == ["Carry out a plan."]
    assert len(Report((general, narrow, handwritten))) == 3, "no result is dropped"


def test_messages_with_different_values_filled_in_are_one_group():
    filled = [Result(f"urn:{n}", None, (), f"{n} is too large.", "urn:s", "Violation", "SPARQL") for n in range(5)]
    assert len(Report(tuple(filled)).groups()) == 1


def test_raise_if_failed_raises_only_for_violations():
    Report(results(1, "Warning")).raise_if_failed()
    with pytest.raises(ValidationFailed, match=r"It has a name\.") as caught:
        Report(results(5)).raise_if_failed()
    assert caught.value.constraints == ("It has a name.",)
    assert caught.value.exit_code == 1


def test_the_scope_describes_what_was_validated(report: Report):
    assert report.scope is not None
    assert report.scope.triples == 4
    assert report.scope.rule_count == 1
    assert str(report.scope).startswith("data: 4 triples against 1 shape (")
    both = report + Report((), ValidationScope("data", 4, 35, "PROV-CONSTRAINTS", rule_kind="constraint"))
    assert str(both.scope).startswith(str(report.scope))
    assert str(both.scope).endswith(" and 35 constraints (PROV-CONSTRAINTS)")


def test_a_combined_report_conforms_to_shapes_constraints_and_axioms():
    shapes = Report((), ValidationScope("data", 4, 1, "sparql"))
    constraints = Report((), ValidationScope("data", 4, 35, "PROV-CONSTRAINTS", rule_kind="constraint"))
    axioms = Report((), ValidationScope("data", 4, 900, "HermiT", rule_kind="axiom"))
    assert (shapes + constraints).summary == "The graph conforms to all shapes and constraints"
    assert str((shapes + constraints + axioms).scope) == (
        "data: 4 triples against 1 shape (SPARQL engine) and 35 constraints (PROV-CONSTRAINTS) and 900 axioms (HermiT)"
    )


@pytest.mark.parametrize("engine", ["sparql", "pyshacl"])
@pytest.mark.parametrize(
    ("node", "shown"), [("1", '"1"^^xsd:integer'), ('"hello"', '"hello"'), ('"bon jour"@fr', '"bon jour"@fr')]
)
def test_a_literal_focus_node_is_reported_as_a_literal(engine: str, node: str, shown: str, tmp_path: Path):
    (tmp_path / "data.ttl").write_text("<urn:a> <urn:p> 1 .")
    (tmp_path / "shapes.ttl").write_text(
        f"@prefix sh: <{SH}> . <urn:S> a sh:NodeShape ; sh:targetNode {node} ; sh:nodeKind sh:IRI ."
    )
    report = validate(tmp_path / "data.ttl", only_shapes=tmp_path / "shapes.ttl", engine=engine)
    (result,) = report
    assert result.node == shown
    assert f"at {shown}" in str(report)
    graph = rdflib.Graph().parse(data=report.to_rdf(), format="turtle")
    (focus,) = graph.objects(None, SH.focusNode)
    (expected,) = rdflib.Graph().parse(data=f"<urn:a> <urn:b> {node} .", format="turtle").objects()
    assert focus.eq(expected)
    assert focus.language == expected.language


def test_delegated_shapes_are_counted_in_the_scope():
    scope = ValidationScope("x", 1, 2, "sparql", ("urn:s: it has a rule",))
    assert str(scope).endswith("; 1 shape passed to pySHACL")


def test_json_contains_the_outcome_the_constraints_and_every_result(report: Report):
    fields = json.loads(report.to_json())
    assert fields["conforms"] is False
    assert len(fields["results"]) == len(report)
    assert {item["constraint"] for item in fields["constraints"]} == {message for _, message in report.groups()}
    assert fields["scope"]["triples"] == 4


def test_markdown_and_html_escape_values(report: Report):
    html = report._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert html.count("<details>") == len(report.groups())
    markdown = report.to_markdown()
    assert markdown.startswith("## The graph violates 2 constraints\n")
    assert "``" in markdown, "a value with a backtick is delimited by two"
    assert markdown.count("- **") == len(report.groups())


def test_rdf_equals_the_report_of_pyshacl(report: Report):
    """Compares focus, path, value, severity, component and shape, up to isomorphism of blank nodes."""
    _, expected, _ = pyshacl.validate(
        rdflib.Graph().parse(data=DATA, format="turtle"),
        shacl_graph=rdflib.Graph().parse(data=SHAPES, format="turtle"),
    )
    ours = rdflib.Graph().parse(data=report.to_rdf(), format="turtle")
    for graph in (ours, expected):
        graph.remove((None, SH.resultMessage, None))
    theirs = rdflib.Graph()
    for node in expected.subjects(rdflib.RDF.type, SH.ValidationReport):
        _copy(expected, node, theirs)
    assert rdflib.compare.isomorphic(ours, theirs), rdflib.compare.graph_diff(ours, theirs)[1:]


def _copy(graph: rdflib.Graph, node: rdflib.term.Node, into: rdflib.Graph) -> None:
    """Copy the triples of a node and of the blank nodes that it refers to."""
    for predicate, value in graph.predicate_objects(node):
        into.add((node, predicate, value))
        if isinstance(value, rdflib.BNode):
            _copy(graph, value, into)


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
def test_a_path_is_converted_to_a_shacl_path(text: str, turtle: str):
    assert as_path(text) == turtle


def test_in_rdf_an_empty_report_conforms_and_a_warning_does_not():
    for report, conforms in ((Report(()), "true"), (Report(results(1, "Warning")), "false")):
        store = ox.Store()
        store.load(report.to_rdf().encode(), format=ox.RdfFormat.TURTLE)
        (quad,) = store.quads_for_pattern(None, ox.NamedNode(str(SH.conforms)), None)
        assert quad.object.value == conforms


def test_a_file_does_not_need_to_contain_the_class_hierarchy(tmp_path: Path):
    path = tmp_path / "data.ttl"
    path.write_text(
        """@prefix ex: <http://example.org/> . @prefix prov: <http://www.w3.org/ns/prov#> .
        @prefix provml: <https://w3id.org/provml#> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
        ex:plan a provml:LearningExperiment ; rdfs:label "plan" ; provml:hasLearningStage ex:fit .
        ex:fit a provml:Training ; rdfs:label "fit" .
        ex:reading a prov:Usage ; prov:hadRole provml:TrainingRole ; prov:entity ex:data . ex:data a prov:Entity ."""
    )
    assert len(validate(path)) == 0, str(validate(path))
