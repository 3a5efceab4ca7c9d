"""Workflow files: reading, errors with their line, and nodes shared by plan and execution."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from provml import rdf, vocab, workflow
from provml.errors import FileFormatError
from provml.journal import events as event
from provml.mapping import EventMapper, State, plan
from provml.model.thing import Thing
from provml.recording.run import Run, record
from provml.store import open_store
from provml.store.store import Store
from provml.validation import validate

ROOT = Path(__file__).parents[1]
GENERATED = sorted((ROOT / "shapes" / "generated").glob("*.ttl"))
"""Shapes of the ontology; the runs recorded here are too small for the other constraints."""
FLOWERS = """\
name: flowers
version: 1.10
description: Tell 17 kinds of flower apart.
study: flower networks
stores:
  scratch: {type: FileSystem, address: /scratch/flowers}
environments:
  gpu node: {hostname: node07, processor: Xeon, cores: 28, memory: 256 GiB, accelerators: [K80, A100]}
software: {python: 3.12, torch: 2.10}
attributes:
  flowers.h5: {kind: dataset, about: http://example.org/kg/OxfordFlower17, stored in: scratch}
  train.h5: {kind: dataset, stored in: [scratch]}
  tile: {kind: parameter, type: integer, unit: px, description: Edge of a tile.}
  learning_rate: {kind: hyperparameter, type: double}
  score: {kind: measure, type: double, direction: minimize}
  loss: {kind: measure, type: double}
  alexnet: {kind: model, stored in: scratch}
  best_epoch: {kind: hyperparameter, name: epoch, type: integer}
transformations:
  gray-scale: {kind: preparation, inputs: [flowers.h5, tile], outputs: train.h5, description: One channel.}
  training: {kind: training, inputs: [train.h5, learning_rate], outputs: [loss, alexnet, best_epoch]}
  evaluation: {kind: evaluation, inputs: alexnet, outputs: score}
"""
FILTERED = FLOWERS.replace("1.10", "2\nrevises: 1.10").replace(
    "transformations:", "transformations:\n  median: {kind: filter, inputs: flowers.h5}"
)


@pytest.fixture(autouse=True)
def _data_files(isolated_home: Path) -> None:
    """Every test works in a folder with these data files."""
    for name in ("flowers.h5", "train.h5", "m.pt"):
        (isolated_home / name).write_text(name)


def saved(text: str, name: str = "flow.yaml") -> Path:
    Path(name).write_text(text, encoding="utf-8")
    return Path(name)


def train(run: Run, *, filtered: bool = False) -> None:
    raw = run.dataset("flowers.h5")
    if filtered:
        with run.filter("median", using=raw, size=3):
            pass
    images = run.prepared("train.h5", step="gray-scale", using=raw, tile=224)
    with run.training(using=images, learning_rate=0.1) as training:
        for epoch in training.epochs(2):
            epoch.measured(loss=0.5)
            model = epoch.produced("m.pt")
    with run.evaluation(of=model) as test:
        test.measured(score=0.5)


def recorded(text: str | None, *, name: str = "flowers", filtered: bool = False) -> str:
    flow = None if text is None else saved(text)
    with record(name, model="alexnet", strict=True, workflow=flow, capture_environment=False) as run:
        train(run, filtered=filtered)
    return run.id


def rows(store: Store, sparql: str) -> list[tuple[Any, ...]]:
    answer = store.query(sparql)
    assert not isinstance(answer, bool)
    return sorted(tuple(row) for row in answer)


def graph_of(store: Store, run: str | None) -> bytes:
    written = io.BytesIO()
    store.export(run, written, "nt")
    return written.getvalue()


def journals() -> list[Path]:
    return sorted(Path(".provml").glob("runs/*/*.jsonl"))


# ---- reading


def test_a_file_becomes_plain_data_for_the_journal():
    data = workflow.load(saved(FLOWERS))
    assert json.loads(json.dumps(data)) == data
    assert data["version"] == "1.10"
    assert data["software"] == {"python": "3.12", "torch": "2.10"}
    assert data["environments"]["gpu node"]["memory"] == 256 * 2**30
    assert data["attributes"]["train.h5"] == {"kind": "dataset", "stored": ["scratch"]}
    assert data["transformations"]["gray-scale"]["outputs"] == ["train.h5"]
    back = event.decode(event.encode(event.Workflow(data)).strip())
    assert isinstance(back, event.Workflow)
    assert workflow.restore(back.spec) == workflow.restore(data)


def test_a_name_alone_is_a_workflow():
    assert workflow.load(saved("name: flowers")).keys() == {"name", "version"}


def test_scalars_stay_the_text_of_the_file():
    data = workflow.load(saved("name: no\nversion: 2026-11-16\ndescription: 0x10\nsoftware: {on: 1e3, null-lib: 010}"))
    assert (data["name"], data["version"], data["description"]) == ("no", "2026-11-16", "0x10")
    assert data["software"] == {"on": "1e3", "null-lib": "010"}


def test_empty_sections_and_a_byte_order_mark_are_allowed():
    Path("flow.yaml").write_bytes(b"\xef\xbb\xbfname: flowers\r\nstores:\r\nattributes: {}\r\n")
    assert workflow.load(Path("flow.yaml"))["name"] == "flowers"


def test_a_file_without_a_version_gets_one_from_its_content():
    bare = FLOWERS.replace("version: 1.10\n", "")
    first = workflow.load(saved(bare))["version"]
    lines = bare.splitlines()
    steps = lines.index("transformations:") + 1
    turned = "\n".join(["# laid out otherwise", *lines[:steps], *reversed(lines[steps:])])
    assert workflow.load(saved(turned.replace("[flowers.h5, tile]", "[tile, flowers.h5]")))["version"] == first
    assert workflow.load(saved(bare.replace("unit: px", "unit: mm")))["version"] != first
    assert len(first) == 12


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("1 kB", 1000), ("1.5 GiB", 3 * 2**29), ("64GB", 64 * 10**9), ("0.1 B", 0)]
)
def test_memory_can_have_a_unit(text: str, size: int):
    data = workflow.load(saved(f"name: x\nenvironments: {{a: {{memory: {text}}}}}"))
    assert data["environments"]["a"]["memory"] == size


BROKEN = {
    "nothing": ("", 1, "it is empty"),
    "only a comment": ("# to do\n", 1, "it is empty"),
    "a list": ("- name: x\n", 1, "the workflow has no keys"),
    "a word": ("flowers\n", 1, "the workflow has no keys"),
    "two documents": ("name: x\n---\nname: y\n", 2, "single document"),
    "no name": ("version: 1\n", 1, "has no name"),
    "empty name": ("name:\n", 1, "name of the workflow is empty"),
    "spaces for a name": ("name: '  '\n", 1, "is empty"),
    "list for a name": ("name: [x]\n", 1, "name of the workflow is a list"),
    "not YAML": ("name: x\nstores: {a: {type: Volume}\nstudy: y\n", 3, "expected"),
    "a tab": ("name: x\nstores:\n\ta: {}\n", 3, "cannot start any token"),
    "an unknown alias": ("name: *x\n", 1, "undefined alias"),
    "a forbidden character": ("name: x\nstudy: a\x00b\n", 2, "YAML forbids"),
    "an escaped control character": ('name: x\nstudy: "a\\0b"\n', 2, "a control character or half a character"),
    "half a character": ('name: x\nstudy: "\\ud800"\n', 2, "a control character or half a character"),
    "a Python object": ("name: !!python/object:os.system x\n", 1, "tagged"),
    "a tagged mapping": ("name: x\nstores: !!set {a}\n", 2, "has no keys"),
    "unknown key": ("name: x\ntransformation: {}\n", 2, "Did you mean 'transformations'?"),
    "unknown key of an attribute": ("name: x\nattributes:\n  a:\n    kind: measure\n    typ: double\n", 5, "'typ'"),
    "key twice": ("name: x\nstudy: a\nname: y\n", 3, "'name' twice, first in line 1"),
    "attribute twice": (
        "name: x\nattributes:\n  a: {kind: measure}\n  b: {kind: model}\n  a: {kind: model}\n",
        5,
        "twice, first in line 3",
    ),
    "two keys with the same name": (
        "name: x\nattributes:\n  a: {kind: measure}\n  b: {kind: measure, name: a}\n",
        4,
        "the name and kind of 'a'",
    ),
    "no kind": ("name: x\ntransformations:\n  fit:\n    description: y\n", 3, "transformation 'fit' has no kind"),
    "empty step": ("name: x\ntransformations:\n  fit:\n", 3, "has no kind"),
    "wrong kind of a step": ("name: x\ntransformations:\n  fit: {kind: trainning}\n", 3, "Did you mean 'training'?"),
    "wrong kind of an attribute": ("name: x\nattributes:\n  a: {kind: metric}\n", 3, "Use hyperparameter"),
    "wrong type": ("name: x\nattributes:\n  a: {kind: measure, type: float}\n", 3, "Use string"),
    "wrong type of store": ("name: x\nstores:\n  a: {type: disk}\n", 3, "Use FileSystem"),
    "wrong direction": ("name: x\nattributes:\n  a: {kind: measure, direction: up}\n", 3, "maximize or minimize"),
    "direction of a model": (
        "name: x\nattributes:\n  a:\n    kind: model\n    direction: minimize\n",
        5,
        "Only a measure",
    ),
    "about no IRI": (
        "name: x\nattributes:\n  a:\n    kind: model\n    about:\n    - http://x.org\n    - b\n",
        7,
        "IRI",
    ),
    "stored nowhere": ("name: x\nattributes:\n  a: {kind: model, stored in: s3}\n", 3, "not among the stores"),
    "unknown input": ("name: x\ntransformations:\n  fit:\n    kind: training\n    inputs:\n    - lr\n", 6, "'lr'"),
    "input no text": ("name: x\ntransformations:\n  fit: {kind: training, inputs: [{a: b}]}\n", 3, "is a mapping"),
    "lonely parameter": ("name: x\nattributes:\n  lr: {kind: hyperparameter}\n", 3, "no transformation has"),
    "hyperparameter of a split": (
        "name: x\nattributes:\n  lr: {kind: hyperparameter}\ntransformations:\n  f:\n    kind: split\n    inputs: lr\n",
        7,
        "a split with the hyperparameter 'lr'",
    ),
    "parameter that a filter gives": (
        "name: x\nattributes:\n  lr: {kind: parameter}\ntransformations:\n  f:\n    kind: filter\n    outputs: lr\n",
        7,
        "among its outputs",
    ),
    "cores": ("name: x\nenvironments:\n  a: {cores: many}\n", 3, "whole number"),
    "no cores": ("name: x\nenvironments:\n  a: {cores: 0}\n", 3, "whole number"),
    "memory": ("name: x\nenvironments:\n  a: {memory: 1 Gb}\n", 3, "256 GiB"),
    "revises itself": ("name: x\nversion: 1\nrevises: 1\n", 3, "revises itself"),
    "itself inside": ("name: x\nattributes: &a\n  b: *a\n", 3, "unknown key 'b'"),
    "deep": (f"name: {'[' * 5000}\n", None, "too deeply"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_an_error_names_its_line_and_gives_advice(case: str):
    text, line, words = BROKEN[case]
    path = saved(text)
    with pytest.raises(FileFormatError) as caught:
        workflow.load(path)
    assert caught.value.file == "flow.yaml"
    assert caught.value.line == line
    assert words in str(caught.value)
    assert str(caught.value).rstrip().endswith((".", "?"))


def test_an_unreadable_file_is_an_error():
    with pytest.raises(FileFormatError, match=r"missing\.yaml: no such file"):
        workflow.load(Path("missing.yaml"))
    with pytest.raises(FileFormatError, match="is a directory"):
        workflow.load(Path())
    Path("latin.yaml").write_bytes("name: x\nstudy: Blüten\n".encode("latin-1"))
    with pytest.raises(FileFormatError, match=r"latin\.yaml:2: it is not UTF-8 text"):
        workflow.load(Path("latin.yaml"))


@given(st.data())
def test_a_damaged_file_is_read_or_refused(data: st.DataObject):
    text = FLOWERS
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(start + 12, len(text))))
        text = text[:start] + data.draw(st.text(":{}[]&*!|>-?#'\"%@`,\n\t ax0~", max_size=4)) + text[end:]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "flow.yaml")
        path.write_text(text, encoding="utf-8")
        try:
            spec = workflow.load(path)
        except FileFormatError:
            return
    mapper = EventMapper()
    mapper.feed(event.Header(1, "r", "w", "flowers", 0.0))
    mapper.feed(event.Workflow(spec))
    assert rdf.ntriples(mapper.take())


def test_the_allowed_values_are_those_of_the_ontology():
    def allowed(cls: type[Thing], field: str) -> set[str]:
        return set(cls.FIELDS[field].choices)

    assert set(workflow.DATATYPES) == allowed(vocab.Attribute, "datatype")
    assert set(workflow.STORE_TYPES) == allowed(vocab.DataStore, "store_type")
    assert set(workflow.DIRECTIONS) == allowed(vocab.EvaluationMeasure, "direction") == set(get_args(plan.Direction))
    assert set(event.STEP_KINDS) == plan.STEPS.keys()


# ---- as things


def test_plan_and_execution_share_their_nodes():
    run = recorded(FLOWERS)
    with open_store() as store:
        assert validate(graph_of(store, run)).conforms
        assert rows(store, "SELECT ?label ?type { ?a provlake:datatype ?type ; rdfs:label ?label }") == [
            ("epoch", "integer"),
            ("learning_rate", "double"),
            ("loss", "double"),
            ("score", "double"),
            ("tile", "integer"),
        ]
        used = """SELECT DISTINCT ?label ?type {
            ?value prov:value ?v ; provlake:wasDerivedFromAttribute ?a .
            ?a rdfs:label ?label ; provlake:datatype ?type }"""
        assert [label for label, _ in rows(store, used)] == ["epoch", "learning_rate", "loss", "score", "tile"]
        nodes = "SELECT ?l (COUNT(DISTINCT ?a) AS ?n) { ?a a provlake:Attribute ; rdfs:label ?l } GROUP BY ?l"
        names = ["alexnet", "epoch", "flowers.h5", "learning_rate", "loss", "score", "tile", "train.h5"]
        assert rows(store, nodes) == [(label, 1) for label in names]
        assert rows(
            store, "SELECT ?u { ?a rdfs:label 'tile' ; provlake:unit ?u ; rdfs:comment 'Edge of a tile.' }"
        ) == [("px",)]
        query = """SELECT ?label ?type ?address {
            ?a provlake:isStoredInStore ?s ; rdfs:label ?label .
            ?s provlake:storeType ?type ; provlake:address ?address }"""
        assert rows(store, query) == [
            (label, "FileSystem", "/scratch/flowers") for label in ("alexnet", "flowers.h5", "train.h5")
        ]
        assert store.query("ASK { ?a rdfs:label 'flowers.h5' ; provlake:about <http://example.org/kg/OxfordFlower17> }")
        assert rows(store, "SELECT ?l { ?s rdfs:label 'training' ; provlake:hasOutputAttribute/rdfs:label ?l }") == [
            ("alexnet",),
            ("epoch",),
            ("loss",),
        ]
        machine = """SELECT ?cores ?bytes { ?version provlake:version '1.10' ; prov:wasInfluencedBy ?m .
            ?m provlake:hostname 'node07' ; provlake:coreCount ?cores ; provlake:memoryBytes ?bytes }"""
        assert rows(store, machine) == [(28, 256 * 2**30)]
        assert rows(
            store, "SELECT ?n { ?v provlake:version ?x ; prov:wasInfluencedBy [ provml:softwareVersion ?n ] }"
        ) == [
            ("2.10",),
            ("3.12",),
        ]
        assert store.query(
            "ASK { [] a provml:Study ; rdfs:label 'flower networks' ; provml:hasExperiment/rdfs:label 'flowers' }"
        )


def test_a_declared_direction_replaces_the_inferred_one():
    recorded(FLOWERS)
    with open_store() as store:
        assert rows(store, "SELECT ?label ?d { ?m provml:direction ?d ; rdfs:label ?label }") == [
            ("loss", "minimize"),
            ("score", "minimize"),
        ]


def test_earlier_runs_keep_the_inferred_direction():
    bare, declared, again = (
        recorded(None),
        recorded(FLOWERS),
        recorded(FLOWERS.replace("minimize", "maximize").replace("1.10", "2")),
    )
    asked = """SELECT ?d { ?v prov:wasGeneratedBy/provlake:wasMemberOfWorkflowExecution <%s> ;
        prov:wasDerivedFrom [ rdfs:label 'score' ; provml:direction ?d ] }"""
    with open_store() as store:
        directions = {run: rows(store, asked % store.run(run).iri) for run in (bare, declared, again)}
        assert directions == {bare: [("maximize",)], declared: [("minimize",)], again: [("maximize",)]}
        report = validate(graph_of(store, None))
        assert report.conforms, report


def test_a_file_recorded_after_the_inference_causes_no_conflict():
    with record("flowers", strict=True, capture_environment=False) as run:
        with run.evaluation() as test:
            test.measured(score=0.5, speed=1.0)
        run.record_workflow(
            saved("name: flowers\nattributes:\n  score: {kind: measure, direction: minimize, unit: s}\n")
        )
        run.record_workflow(saved("name: flowers\nattributes:\n  score: {kind: measure, unit: ms}\n"))
        run.record_workflow(saved("name: flowers\nattributes:\n  speed: {kind: measure, direction: minimize}\n"))
        run.record_workflow(saved("name: flowers\nattributes:\n  speed: {kind: measure, direction: maximize}\n"))
    with open_store() as store:
        assert rows(store, "SELECT ?l ?d { ?m provml:direction ?d ; rdfs:label ?l }") == [
            ("score", "maximize"),
            ("score", "minimize"),
            ("speed", "minimize"),
        ]
        units = "SELECT ?d ?u { ?m provml:direction ?d ; provlake:unit ?u }"
        assert rows(store, units) == [("maximize", "ms"), ("minimize", "s")]
        assert validate(graph_of(store, run.id), only_shapes=GENERATED).conforms


def test_runs_without_a_file_and_with_different_versions_are_distinguished():
    bare, old, new = recorded(None), recorded(FLOWERS), recorded(FILTERED, filtered=True)
    again = recorded(FILTERED, filtered=True)
    with open_store() as store:
        asked = """SELECT ?run ?version {
            ?run a provml:LearningProcessExecution .
            OPTIONAL { ?run prov:wasInfluencedBy ?node . ?node provlake:version ?version } }"""
        versions = {str(run).rpartition("/")[2]: version for run, version in store.query(asked)}
        assert versions == {bare: None, old: "1.10", new: "2", again: "2"}
        steps = "SELECT ?label {{ ?v provlake:version '{}' ; provlake:hasDataTransformation/rdfs:label ?label }}"
        before = rows(store, steps.format("1.10"))
        assert rows(store, steps.format("2")) == sorted([*before, ("median",)])
        assert ("median",) not in before
        assert rows(store, "SELECT ?v { ?n prov:wasRevisionOf/provlake:version ?v }") == [("1.10",)]
        query = "SELECT DISTINCT ?w { ?run provlake:wasDerivedFromWorkflow ?w . ?v prov:specializationOf ?w }"
        assert len(rows(store, query)) == 1
        for run in (bare, old, new):
            assert validate(graph_of(store, run)).conforms


def test_all_versions_and_runs_together_conform():
    recorded(None)
    recorded(FLOWERS)
    recorded(FILTERED, filtered=True)
    recorded(FILTERED.replace("/scratch", "/archive").replace("node07", "node08").replace("version: 2", "version: 3"))
    with open_store() as store:
        report = validate(graph_of(store, None))
        assert report.conforms, report


def test_a_version_has_its_own_attributes_and_stores():
    recorded(FLOWERS)
    recorded(FLOWERS.replace("1.10", "2").replace("  tile: {", "  angle: {").replace(", tile]", ", angle]"))
    with open_store() as store:
        query = "SELECT ?label {{ ?v provlake:version '{}' ; prov:hadMember/rdfs:label ?label }}"
        first, second = (set(rows(store, query.format(number))) for number in ("1.10", "2"))
        assert first - second == {("tile",)}
        assert second - first == {("angle",)}
        assert {("scratch",), ("training",), ("alexnet",)} <= first


def test_workflows_share_a_store_by_its_address():
    recorded(FLOWERS)
    recorded(FLOWERS.replace("name: flowers", "name: roses"), name="roses")
    recorded(FLOWERS.replace("1.10", "2").replace("/scratch/flowers", "/archive"))
    with open_store() as store:
        assert rows(store, "SELECT ?address { ?s a provlake:DataStore ; provlake:address ?address }") == [
            ("/archive",),
            ("/scratch/flowers",),
        ]


def test_a_step_that_runs_as_another_kind_than_declared_still_conforms():
    flow = """\
name: flowers
attributes:
  tile: {kind: parameter, type: integer}
  learning_rate: {kind: parameter, type: double}
transformations:
  gray-scale: {kind: filter, inputs: tile}
  median: {kind: preparation, inputs: tile}
  training: {kind: step, inputs: learning_rate}
"""
    run = recorded(flow, filtered=True)
    with open_store() as store:
        report = validate(graph_of(store, run))
        assert report.conforms, report
        assert rows(store, "SELECT ?t { ?a rdfs:label 'learning_rate' ; provlake:datatype ?t }") == [("double",)]


def test_any_name_is_allowed():
    flow = """\
name: Blüten / 17
version: "v 2/β #1"
stores: {"C:\\\\daten": {}}
attributes:
  "loss %": {kind: measure, about: ["http://example.org/kg/ü"]}
  "η": {kind: hyperparameter, unit: "‰"}
transformations:
  "fit/it": {kind: training, inputs: "η", outputs: "loss %"}
"""
    with (
        record("Blüten / 17", strict=True, workflow=saved(flow), capture_environment=False) as run,
        run.training(name="fit/it", η=0.1) as training,
    ):
        training.measured(**{"loss %": 1.0})
    with open_store() as store:
        assert store.problems == []
        assert validate(graph_of(store, run.id), only_shapes=GENERATED).conforms
        asked = "SELECT ?u { [] prov:value ?v ; prov:wasDerivedFrom [ rdfs:label 'η' ; provlake:unit ?u ] }"
        assert rows(store, asked) == [("‰",)]
        assert rows(store, "SELECT ?v { ?n provlake:version ?v }") == [("v 2/β #1",)]


def test_mapping_twice_or_in_parts_gives_the_same_triples():
    recorded(FILTERED, filtered=True)
    events = [event.decode(line) for line in journals()[0].read_bytes().rstrip(b"\0").splitlines()]
    assert any(isinstance(item, event.Workflow) for item in events)
    whole = EventMapper()
    for item in events:
        whole.feed(item)
    at_once = set(rdf.ntriples(whole.take()).splitlines())
    in_pieces: set[bytes] = set()
    state = State()
    for item in events:
        mapper = EventMapper(state)
        mapper.feed(item)
        in_pieces |= set(rdf.ntriples(mapper.take()).splitlines())
        state = msgspec.msgpack.decode(msgspec.msgpack.encode(mapper.state), type=State)
    assert in_pieces == at_once


@pytest.mark.parametrize("knows", [True, False], ids=["with the file", "without it"])
def test_a_child_process_that_joins_causes_no_conflict(knows: bool):
    flow = saved(FLOWERS).resolve()
    code = f"""
from provml.recording.run import record
flow = {str(flow) if knows else None!r}
with record("flowers", model="alexnet", strict=True, workflow=flow, capture_environment=False) as run:
    with run.evaluation(name="far") as test:
        test.measured(score=0.25)
"""
    with record("flowers", model="alexnet", strict=True, workflow=flow, capture_environment=False) as run:
        train(run)
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": path})
    assert len(journals()) == 2
    with open_store() as store:
        assert validate(graph_of(store, run.id), only_shapes=GENERATED).conforms
        directions = rows(store, "SELECT ?d { ?m rdfs:label 'score' ; provml:direction ?d }")
        assert directions == [("minimize",)]
        assert len(rows(store, "SELECT ?v { ?v provlake:version ?n }")) == 1


def test_a_damaged_workflow_line_is_reported_and_the_rest_is_mapped():
    run = recorded(FLOWERS)
    path = journals()[0]
    path.write_bytes(path.read_bytes().replace(b'"kind":"preparation"', b'"kind":["preparation"]', 1))
    with open_store() as store:
        store.sync()
        assert [problem.line for problem in store.problems] == [2]
        assert validate(graph_of(store, run)).conforms
        assert rows(store, "SELECT ?v { ?n provlake:version ?v }") == []
        assert store.query("ASK { ?x a provml:TrainingExecution }")


def test_a_file_with_an_error_stops_a_strict_run():
    with pytest.raises(FileFormatError, match=r"flow\.yaml:2"):
        record("x", strict=True, workflow=saved("name: x\nstudi: y\n"))
    assert "PROVML_RUN" not in os.environ, "children of this process would join a run that nobody holds"
    with open_store() as store:
        assert [(run.status, run.error.partition(":")[0]) for run in store.runs()] == [("FAILED", "FileFormatError")]
