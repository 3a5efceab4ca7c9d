"""PROV-CONSTRAINTS for PROV-O: the W3C cases, random documents, every rule by number, and the verdict."""

from __future__ import annotations

import csv
import json
import os
import random
from itertools import pairwise, product
from pathlib import Path

import pyoxigraph as ox
import pytest
from examples_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import provml
from provml import vocab
from provml.errors import FileFormatError, NodeNotFound, WrongType, WrongValue
from provml.validation.prov_constraints import CONSTRAINTS, Verdict, check
from provml.validation.prov_constraints.rules import RULES
from validation.prov_constraints.cases import CASES, CYCLES, HEAD, INFERRED_ORDERS, ORDERS
from validation.prov_constraints.literal import Fact, LiteralChecker
from validation.prov_constraints.strategies import EX, THEMES, documents, events, triples

SUITES = Path(os.environ.get("PROVML_SUITES") or Path(__file__).parents[3] / "shared" / "suites")
W3C, RANDOM = SUITES / "prov-constraints", SUITES / "prov-random"

needs_w3c = pytest.mark.skipif(not W3C.exists(), reason=f"the W3C cases are not at {W3C} (set PROVML_SUITES)")
needs_random = pytest.mark.skipif(not RANDOM.exists(), reason=f"{RANDOM} does not exist (set PROVML_SUITES)")

DISABLED = {
    "CONSTRAINT_DERIVATION_GENERATION_GENERATION_ORDERING": 42,
    "CONSTRAINT_WASSTARTEDBY_ORDERING": 43,
    "CONSTRAINT_GENERATION_PRECEDES_INVALIDATION": 36,
    "CONSTRAINT_USAGE_WITHIN_ACTIVITY": 33,
    "CONSTRAINT_GENERATION_WITHIN_ACTIVITY": 34,
    "CONSTRAINT_END_END_ORDERING": 32,
    "CONSTRAINT_WASASSOCIATEDWITH_ORDERING": 47,
    "CONSTRAINT_WASATTRIBUTEDTO_ORDERING": 48,
    "CONSTRAINT_ACTEDONBEHALFOF_ORDERING": 49,
    "CONSTRAINT_SPECIALIZATION_GENERATION_ORDERING": 45,
}
"""The names of constraints in the ordering assertions of the suite."""


def turtle(text: str) -> list[ox.Quad]:
    return list(ox.parse(HEAD + text, format=ox.RdfFormat.TURTLE))


def check_turtle(text: str) -> Verdict:
    return check(turtle(text))


def iri(name: str) -> str:
    return name if name.startswith("_:") else EX + name


# ---- the suites


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


@pytest.mark.parametrize("suite", [pytest.param(W3C, marks=needs_w3c), pytest.param(RANDOM, marks=needs_random)])
def test_every_verdict_of_the_suites_is_correct_for_rdf_and_prov_n(suite: Path):
    cases = rows(suite / "MANIFEST.tsv")
    assert len([row for row in cases if row["format"] == "provn"]) > 80
    assert len(cases) > 160
    wrong = [row["case"] for row in cases if check(suite / row["file"]).valid != (row["expected"] == "valid")]
    assert not wrong


@needs_w3c
def test_events_are_ordered_as_in_the_suite_with_and_without_each_constraint():
    files = {row["case"]: row["file"] for row in rows(W3C / "MANIFEST.tsv") if row["format"] != "provn"}
    for row in rows(W3C / "ordering-assertions.tsv"):
        exclude = [] if row["rule_disabled"] == "-" else [DISABLED[row["rule_disabled"]]]
        verdict = check(W3C / files[row["case"]], exclude=exclude)
        precedes = verdict.precedes(EX + row["event1"], EX + row["event2"], strict=row["kind"] == "strict")
        assert precedes == (row["precedes_inferred"] == "True"), row


# ---- every rule by number


def test_every_rule_of_the_recommendation_has_a_valid_and_an_invalid_document():
    assert set(RULES) == set(range(1, 57))
    assert CASES.keys() | ORDERS.keys() == set(RULES)
    assert not CASES.keys() & ORDERS.keys()


@pytest.mark.parametrize("number", CASES)
def test_a_document_satisfies_or_violates_a_rule(number: int):
    _, texts, violated = CASES[number]
    good, bad = texts.split("---")
    assert check_turtle(good).valid, check_turtle(good)
    verdict = check_turtle(bad)
    assert not verdict
    assert tuple(sorted({n for violation in verdict for n in violation.constraints})) == violated


@pytest.mark.parametrize("number", [n for n in CASES if n in CONSTRAINTS])
def test_a_document_that_violates_one_constraint_is_valid_if_it_is_excluded(number: int):
    bad = CASES[number][1].split("---")[1]
    assert check(turtle(bad), exclude=[number])


@pytest.mark.parametrize("number", ORDERS)
def test_a_constraint_orders_one_event_before_another(number: int):
    text, first, second = ORDERS[number]
    assert check_turtle(text).valid
    assert check_turtle(text).precedes(EX + first, EX + second)
    assert not check(turtle(text), exclude=[number]).precedes(EX + first, EX + second)
    backwards = number in (31, 32, 39, 40)
    assert check_turtle(text).precedes(EX + second, EX + first) == backwards
    assert check_turtle(text).precedes(EX + first, EX + second, strict=True) == (number == 42)


@pytest.mark.parametrize("rule", INFERRED_ORDERS)
def test_inferences_order_one_event_before_another(rule: str):
    verdict = check_turtle(INFERRED_ORDERS[rule])
    assert verdict.valid
    assert verdict.precedes(EX + "x", EX + "y")
    assert not verdict.precedes(EX + "y", EX + "x")


@pytest.mark.parametrize("number", CYCLES)
def test_an_event_strictly_before_itself_is_reported_with_the_complete_cycle(number: int):
    verdict = check_turtle(CYCLES[number])
    assert len(verdict) == 1
    violation = verdict.violations[0]
    assert violation.constraint == 42
    assert number in violation.constraints
    assert any(step.strict for step in violation.cycle)
    assert all(step.after == following.before for step, following in pairwise(violation.cycle))
    assert violation.cycle[-1].after == violation.cycle[0].before
    assert check(turtle(CYCLES[number]), exclude=[number])


# ---- random documents


def compare(facts: list[Fact]) -> None:
    """Compare the verdict and the order of events with a literal implementation of the recommendation."""
    verdict, literal = check(triples(facts)), LiteralChecker(facts)
    assert verdict.valid == literal.valid, str(verdict)
    if not literal.has_conflict:
        for first, second, strict in product(events(facts), events(facts), (False, True)):
            expected = literal.precedes(first, second, strict=strict)
            assert verdict.precedes(iri(first), iri(second), strict=strict) == expected, (first, second, strict)


@pytest.mark.parametrize("theme", THEMES)
def test_random_documents_are_checked_and_ordered_like_by_the_literal_recommendation(theme: str):
    settings(max_examples=examples(150))(given(THEMES[theme])(compare))()


@settings(max_examples=examples(100))
@given(documents, st.randoms(use_true_random=False))
def test_the_order_of_triples_and_the_names_of_blank_nodes_do_not_matter(facts: list[Fact], chance: random.Random):
    original = triples(facts)
    blank_nodes: dict[str, ox.BlankNode] = {}

    def rename(node: ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple) -> ox.NamedNode | ox.BlankNode:
        return blank_nodes.setdefault(node.value, ox.BlankNode()) if isinstance(node, ox.BlankNode) else node  # type: ignore[return-value]

    shuffled = [ox.Triple(rename(t.subject), t.predicate, rename(t.object)) for t in original]
    chance.shuffle(shuffled)
    assert check(original).valid == check(shuffled).valid


@settings(max_examples=examples(100))
@given(documents)
def test_an_unrelated_part_does_not_change_the_verdict(facts: list[Fact]):
    others = turtle(":z1 a prov:Entity ; prov:wasGeneratedBy :z2 ; prov:wasDerivedFrom :z3 . :z2 prov:used :z3, [] .")
    alone = check(triples(facts))
    assert check([*triples(facts), *others]).violations == alone.violations


@settings(max_examples=examples(100))
@given(documents)
def test_each_bundle_is_checked_like_a_document_of_its_own(facts: list[Fact]):
    bundles = [ox.NamedNode(EX + "b1"), ox.NamedNode(EX + "b2")]
    alone = [violation.reason for violation in check(triples(facts))]
    inside = check(ox.Quad(*triple, bundle) for bundle in bundles for triple in triples(facts))
    for bundle in bundles:
        assert [violation.reason for violation in inside if violation.bundle == str(bundle)] == alone


MERGED = {
    "the generation of a derivation has the identifier of another derivation": (
        """:e prov:qualifiedDerivation :x . :x prov:entity :f .
        :h prov:qualifiedDerivation [ prov:entity :i ; prov:hadActivity :a ; prov:hadGeneration :x ] .""",
        {23},
    ),
    "an unknown activity with a time is unified with one that has a start": (
        """_:b prov:startedAtTime "2020-01-01T01:00:00Z"^^xsd:dateTime .
        :e prov:qualifiedGeneration :g . :g prov:activity _:b, :a .
        :a prov:qualifiedStart [ prov:atTime "2020-01-01T02:00:00Z"^^xsd:dateTime ], [ prov:hadActivity :c ] .""",
        {28},
    ),
    "unknowns are unified by a chain of merges with a conflict at its end": (
        """:e prov:qualifiedGeneration :g, [ prov:activity _:b ; prov:atTime _:t ] . :g prov:activity _:b, :a .
        :f prov:qualifiedInvalidation [ prov:activity :c ; prov:atTime _:t ],
            [ prov:activity :c ; prov:atTime "2020-01-01T01:00:00Z"^^xsd:dateTime ] .
        :g prov:atTime "2020-01-01T02:00:00Z"^^xsd:dateTime .""",
        {23, 24, 25},
    ),
}


@pytest.mark.parametrize("name", MERGED)
def test_violations_that_follow_from_unification_are_found(name: str):
    text, numbers = MERGED[name]
    violated = {number for violation in check_turtle(text) for number in violation.constraints}
    assert violated
    assert violated <= numbers | {50, 55}


# ---- PROV-DM and PROV-Links


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (":o a prov:Association ; prov:agent :ag .", "no activity"),
        (":t a prov:Attribution ; prov:agent :ag .", "no entity"),
        (":e prov:qualifiedAttribution [ a prov:Attribution ] .", "no agent"),
        (":a prov:qualifiedCommunication :c . :c a prov:Communication .", "no informant"),
        (":x prov:qualifiedDelegation [ prov:hadActivity :a ] .", "no responsible agent"),
        (":e prov:qualifiedDerivation [ prov:hadActivity :a ] .", "no source entity"),
        (":g a prov:Generation ; prov:activity :a .", "no entity"),
        (":i a prov:Influence ; prov:influencer :x .", "no influencee"),
        (":x prov:qualifiedInfluence [ a prov:Influence ] .", "no influencer"),
        (":e prov:mentionOf :f .", "no bundle"),
        (":e prov:asInBundle :b .", "no general entity"),
    ],
)
def test_a_missing_mandatory_part_is_reported(text: str, part: str):
    verdict = check_turtle(text)
    assert [violation.constraint for violation in verdict] == ["PROV-DM"]
    assert part in verdict.violations[0].reason


@pytest.mark.parametrize(
    "text",
    [
        ":e prov:qualifiedGeneration [ a prov:Generation ] .",
        ":a prov:qualifiedUsage [ a prov:Usage ] ; prov:qualifiedAssociation [ a prov:Association ] .",
        ":a prov:qualifiedStart [ a prov:Start ] ; prov:qualifiedEnd [ a prov:End ] .",
        ":x prov:qualifiedInfluence [ a prov:EntityInfluence ; prov:entity :y ] .",
        ":e prov:qualifiedRevision :d . :d prov:hadGeneration :g ; prov:hadActivity :a ; prov:entity :f .",
        """:g a prov:Generation . :d prov:hadGeneration :g ; prov:hadActivity :a ; prov:entity :f .
        :e prov:qualifiedDerivation :d .""",
        ":e prov:mentionOf :f, [] ; prov:asInBundle :b .",
        ":g prov:qualifiedGenerationOf :e ; a prov:Generation . :a prov:generated :e ; prov:activityOfInfluence :g .",
    ],
)
def test_optional_and_inferred_parts_are_not_reported_as_missing(text: str):
    assert check_turtle(text).valid, check_turtle(text)


def test_an_entity_mentions_one_entity_of_one_bundle():
    verdict = check_turtle(":e prov:mentionOf :f, :h ; prov:asInBundle :b .")
    assert [violation.constraint for violation in verdict] == ["PROV-Links"]
    assert check_turtle(":e prov:mentionOf :f ; prov:asInBundle :b, :c .").violations[0].name == "unique-mention"


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("2020-01-01T01:00:00Z", "2020-01-01T01:00:00.000+00:00", True),
        ("2020-01-01T01:00:00-05:00", "2020-01-01T06:00:00Z", True),
        ("2020-01-01T01:00:00", "2020-01-01T01:00:00Z", False),
        ("2020-01-01T01:00:00.1Z", "2020-01-01T01:00:00.10Z", True),
        ("2020-01-01T01:00:00.1Z", "2020-01-01T01:00:00.01Z", False),
        ("-0044-03-15T01:00:00+01:00", "-0044-03-15T00:00:00Z", False),
    ],
)
def test_times_are_compared_in_utc(first: str, second: str, same: bool):
    times = ", ".join(f'"{time}"^^xsd:dateTime' for time in (first, second))
    assert check_turtle(f":a prov:endedAtTime {times} .").valid == same


# ---- the verdict


def test_a_violation_has_a_number_a_name_nodes_and_a_reason():
    verdict = check_turtle(":e prov:wasGeneratedBy :x . :x a prov:Entity .")
    [violation] = verdict
    assert not verdict.valid
    assert not verdict
    assert len(verdict) == 1
    assert (violation.constraint, violation.name) == (55, "entity-activity-disjoint")
    assert violation.nodes == (f"<{EX}x>",)
    assert str(violation) == (
        f"Constraint 55 (entity-activity-disjoint): <{EX}x> is an entity (it is declared as one)"
        f" and an activity (it is the activity of the generation of <{EX}e>)"
    )


def test_a_conflict_after_a_merge_names_the_constraint_of_the_merge():
    [violation] = check_turtle(CASES[1][1].split("---")[1])
    assert (violation.constraint, violation.constraints) == (23, (23, 24))
    assert "two values for its time" in violation.reason
    assert "by constraint 24" in violation.reason


def test_a_cycle_is_shown_event_by_event_with_the_constraint_of_each_step():
    rule = "Constraint 42 (derivation-generation-generation-ordering)"
    assert str(check_turtle(CYCLES[34])).splitlines()[1:] == [
        f"- {rule}: the generation of <{EX}e> would be strictly before itself",
        f"    the generation of <{EX}e> is strictly before the generation of <{EX}f> (constraint 42)",
        f"    the generation of <{EX}f> is not after the start of <{EX}a> (constraint 43)",
        f"    the start of <{EX}a> is not after the generation of <{EX}e> (constraint 34)",
        "    by inference 9 (wasStartedBy-inference): The trigger of a start was generated by the starter.",
    ]


def test_a_passage_through_an_entity_without_a_generation_is_one_step():
    [violation] = check_turtle(CASES[19][1].split("---")[1])
    assert [step.constraints for step in violation.cycle] == [(42,), (45,)]


def test_a_verdict_becomes_a_report_with_one_group_per_rule():
    text = " ".join(f":e{n} prov:wasGeneratedBy :x{n} . :x{n} a prov:Entity ." for n in range(9))
    verdict = check_turtle(text + CYCLES[42])
    report = verdict.to_report()
    assert not report
    assert len(report) == 10
    assert len(report.groups()) == 2
    assert f"at <{EX}x0> with" in str(report)
    assert "is strictly before" in str(report)
    assert str(verdict).count("Constraint 55") == 5
    assert "4 more of entity-activity-disjoint" in str(verdict)
    assert check_turtle("").to_report()
    assert str(check_turtle("")) == "The document is valid by PROV-CONSTRAINTS."


def test_a_long_cycle_is_shortened():
    ring = " ".join(f":e{n} prov:wasDerivedFrom :e{(n + 1) % 1000} ; a prov:Entity ." for n in range(1000))
    verdict = check_turtle(ring)
    assert len(verdict.violations[0].cycle) == 1000
    assert len(str(verdict).splitlines()) < 30
    assert "980 more steps" in str(verdict.to_report())
    ring = " ".join(f":e{n} prov:specializationOf :e{(n + 1) % 1000} ." for n in range(1000))
    assert len(str(check_turtle(ring))) < 1000


# ---- inputs


def test_files_of_all_formats_are_read_and_each_named_graph_is_a_bundle(tmp_path: Path):
    path = tmp_path / "two.trig"
    path.write_text(HEAD + ":b1 { :x a prov:Entity } :b2 { :x a prov:Activity } :b1 { :y a prov:Plan, prov:Activity }")
    [violation] = check(path)
    assert violation.bundle == f"<{EX}b1>"
    assert "in the bundle" in str(violation)
    for rdf_format in (ox.RdfFormat.JSON_LD, ox.RdfFormat.RDF_XML, ox.RdfFormat.N_TRIPLES, ox.RdfFormat.TURTLE):
        path = tmp_path / f"single.{rdf_format.file_extension}"
        ox.serialize([quad.triple for quad in turtle(CYCLES[34])], path, format=rdf_format)
        assert not check(str(path))
        assert len(check(path)) == 1


def test_stores_bytes_triples_and_things_are_accepted():
    quads = turtle(CYCLES[45])
    store = ox.Store()
    store.extend(quads)
    assert not check(store)
    assert not check(ox.Dataset(quads))
    assert not check(quad.triple for quad in quads)
    assert not check(ox.serialize((quad.triple for quad in quads), format=ox.RdfFormat.N_TRIPLES))
    assert check([])
    assert check(b"")
    assert check(vocab.Persona(EX + "alice", label="Alice"))


def test_invalid_and_missing_files_are_named_with_the_line(tmp_path: Path):
    path = tmp_path / "broken.ttl"
    path.write_text(HEAD + "\n:a prov:used .\n")
    with pytest.raises(FileFormatError, match=r"broken\.ttl:4: .* Correct the Turtle") as error:
        check(path)
    assert error.value.line == 4
    with pytest.raises(FileFormatError, match=r"none\.ttl: no such file"):
        check(tmp_path / "none.ttl")
    with pytest.raises(FileFormatError, match=r"prov\.provn: .*no such file"):
        check(tmp_path / "prov.provn")
    with pytest.raises(FileFormatError, match=r"unknown extension '\.doc'\. Use one of \.ttl"):
        check(tmp_path / "prov.doc")
    with pytest.raises(FileFormatError, match=r"N-Triples:1: "):
        check(b"<a> <b> .")


def test_other_types_and_unknown_constraints_are_rejected():
    with pytest.raises(WrongType, match="an RDF file"):
        check(7)  # type: ignore[arg-type]
    with pytest.raises(WrongType, match="an RDF file"):
        check([7])
    with pytest.raises(WrongValue, match="22 to 56"):
        check([], exclude=[7])
    with pytest.raises(NodeNotFound):
        check_turtle(ORDERS[30][0]).precedes(EX + "x", EX + "a")
    with pytest.raises(NodeNotFound):
        check_turtle("").precedes(EX + "x", EX + "y", bundle=EX + "b")


# ---- recorded runs and large documents


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with data of all kinds, as N-Triples."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "raw.csv").write_text("1,2,rose\n")
    with provml.record("flowers", model="net", by="alice", task="classify", home=folder / "home") as run:
        raw = run.dataset(folder / "raw.csv", role="raw")
        with run.filter("gray", using=raw, tile=224) as step:
            (folder / "train.csv").write_text("1,2\n")
            train = step.produced(folder / "train.csv", role="training")
        with run.training(using=train, learning_rate=0.1, optimizer="Adam") as training:
            training.layers([{"name": "conv", "type": "Conv2D", "filters": 8}])
            for epoch in training.epochs(3):
                for batch in epoch.batches([1, 2]):
                    batch.measured(loss=1 / batch.data)
                epoch.measured(loss=1 / epoch.index)
                with epoch.validation() as validation:
                    validation.measured(loss=2 / epoch.index)
                training.adapted(learning_rate=0.1 / epoch.index, technique="decay", reason="it stalls")
            (folder / "net.pt").write_bytes(b"weights")
            model = training.produced(folder / "net.pt")
        with provml.record("flowers", run=run.id, home=folder / "home") as other, other.evaluation(of=model) as test:
            test.measured(accuracy=0.5)
    with provml.open(folder / "home") as store, (folder / "run.nt").open("wb") as file:
        store.export("latest", file, "nt")
    return folder / "run.nt"


def test_a_recorded_run_is_valid(run: Path):
    verdict = check(run)
    assert verdict.valid, verdict
    [order] = verdict.orders.values()
    assert len(order.events) > 20


def test_a_recorded_run_with_data_derived_from_its_own_model_is_invalid(run: Path):
    derived = [quad for quad in ox.parse(path=run, format=ox.RdfFormat.N_TRIPLES) if "wasDerivedFrom" in str(quad)]
    model = next(quad for quad in derived if quad.predicate.value.endswith("#wasDerivedFrom"))
    back = ox.Quad(model.object, model.predicate, model.subject)
    verdict = check([*ox.parse(path=run, format=ox.RdfFormat.N_TRIPLES), back])
    assert [violation.constraint for violation in verdict] == [42]


def work(text: str) -> tuple[int, int]:
    """Return the number of examined statements, and of events and edges."""
    [order] = check(turtle(text)).orders.values()
    return order.unified.steps, len(order.events) + sum(map(len, order.edges))


LARGE = {
    "an entity that all activities generate and use": ":e prov:wasGeneratedBy :g{n} . :u{n} prov:used :e .",
    "a chain of derivations": ":e{n} a prov:Entity ; prov:wasDerivedFrom :e{m} ; prov:wasGeneratedBy :a{n} .",
    "a chain of specializations": ":e{n} prov:specializationOf :e{m} .",
    "a shared agent": ":a{n} prov:wasAssociatedWith :ag ; prov:wasStartedBy [] . :e{n} prov:wasAttributedTo :ag .",
    "many starts": ":a a prov:Activity ; prov:qualifiedStart [ prov:hadActivity :b{n} ; prov:atTime [] ] .",
    "a chain of merges": """
        :e{n} prov:qualifiedGeneration :g{n}, [ prov:activity _:x{n} ; prov:atTime [] ] .
        :g{n} prov:activity _:x{n}, _:x{m} .
        :a{n} prov:qualifiedStart [ prov:entity :e{n} ; prov:hadActivity _:x{n} ], [ prov:hadActivity _:x{m} ] .""",
    "unknowns that are all equal": ":e prov:qualifiedGeneration [ prov:activity :a ; prov:atTime _:t{n} ] .",
}


@pytest.mark.parametrize("name", LARGE)
def test_the_work_is_linear_in_the_size_of_the_document(name: str):
    small, large = (work("\n".join(LARGE[name].format(n=n, m=n + 1) for n in range(size))) for size in (400, 800))
    for before, after in zip(small, large, strict=True):
        assert after <= 2.2 * before + 50
    assert sum(small) < 50 * 400


# ---- reports for programs


def test_json_and_turtle_carry_the_bundle_the_inferences_and_the_cycle():
    [violation] = check(ox.parse(HEAD + f":b {{ {CYCLES[34]} }}", format=ox.RdfFormat.TRIG))
    assert violation.inferences == (9,)
    report = Verdict((violation,)).to_report()
    [result] = json.loads(report.to_json())["results"]
    assert result["bundle"] == f"{EX}b"
    assert result["reason"] == f"the generation of <{EX}e> would be strictly before itself"
    assert {rule.partition("#")[2] for rule in result["rules"]} == {
        "wasStartedBy-inference", "generation-within-activity", "derivation-generation-generation-ordering",
        "wasStartedBy-ordering",
    }  # fmt: skip
    assert [step["constraints"] for step in result["cycle"]] == [[42], [43], [34]]
    assert [step["inferences"] for step in result["cycle"]] == [[9], [9], []]
    assert result["cycle"][1]["nodes"] == [f"<{EX}f>", f"<{EX}a>"]
    store = ox.Store()
    store.load(report.to_rdf(), format=ox.RdfFormat.TURTLE)
    query = """PREFIX sh: <http://www.w3.org/ns/shacl#> PREFIX dcterms: <http://purl.org/dc/terms/>
        SELECT ?bundle (COUNT(DISTINCT ?step) AS ?steps) (COUNT(DISTINCT ?rule) AS ?rules) {
            ?report sh:result ?r . ?r dcterms:isPartOf ?bundle ; sh:detail ?step ; dcterms:references ?rule .
            ?step sh:focusNode ?before ; sh:value ?after ; sh:sourceConstraint ?reason ; sh:resultMessage ?text
        } GROUP BY ?bundle"""
    [(bundle, steps, rules_count)] = store.query(query)
    assert (bundle.value, steps.value, rules_count.value) == (f"{EX}b", "3", "4")


def test_the_inference_that_a_conflict_follows_from_is_named():
    [conflict] = check_turtle(CASES[11][1].split("---")[1])
    assert conflict.inferences == (11,)
    assert "by inference 11 (derivation-generation-use-inference)" in str(conflict)
    [disjoint] = check_turtle(CASES[14][1].split("---")[1])
    assert disjoint.inferences == ()  # the activity of a delegation is an activity without inference 14
    [member] = check_turtle(CASES[21][1].split("---")[1])
    assert member.inferences == (21,)
    [own] = check_turtle(CASES[7][1].split("---")[1])
    assert own.inferences == (7,)


def test_the_shortest_of_several_cycles_is_reported():
    long = " ".join(f":e{n} prov:wasDerivedFrom :e{(n + 1) % 9} ; a prov:Entity ." for n in range(9))
    [violation] = check_turtle(long + ":e7 prov:wasDerivedFrom :e6 .")
    assert {node for step in violation.cycle for node in step.nodes} == {f"<{EX}e6>", f"<{EX}e7>"}
