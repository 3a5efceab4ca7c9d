"""Random scenarios: what a training script may do, drawn by hypothesis and recorded with the real recorder."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyoxigraph as ox
from hypothesis import strategies as st

from provml import rdf
from provml.recording.run import Run
from provml.store.checkpoint import JournalCheckpoint
from provml.store.journal_mapping import JournalSource, map_events
from provml.store.siblings import FirstJournalCache

NAMES = st.sampled_from(
    ["loss", "accuracy", "val loss", "größe", "a/b", "loss-2", "17", "network", "x~2", "%41", "日本"]
)
STAGE_NAMES = st.sampled_from(["training", "my stage", "ü/ber", "task", "data", "training-2", "environment"])
NUMBERS = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True, width=32),
    st.integers(-(2**70), 2**70),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-1000, max_value=1000).map(Decimal),
)
SCALARS = st.one_of(NUMBERS, st.booleans(), st.text(max_size=8))
MEASURES = st.dictionaries(NAMES, NUMBERS, max_size=2)
VALUES = st.dictionaries(st.sampled_from(["learning_rate", "momentum", "größe", "a/b", "lr-2"]), SCALARS, max_size=3)
CONTENTS = st.sampled_from([b"raw", b"train", b"test"])

EPOCHS = st.fixed_dictionaries(
    {
        "batches": st.lists(st.lists(MEASURES, max_size=2), max_size=3),
        "measured": st.lists(MEASURES, max_size=2),
        "adapted": st.none() | st.fixed_dictionaries({"values": VALUES, "technique": st.sampled_from(["", "decay"])}),
        "validation": st.booleans(),
        "model": st.none() | VALUES,
        "ends": st.sampled_from(["whole", "whole", "whole", "never", "break", "error"]),
        "late": MEASURES,
    }
)
EXECUTION_DETAILS = ["name", "directory", "resource", "output", "errors"]
EXECUTIONS = st.dictionaries(st.sampled_from(EXECUTION_DETAILS), st.text(max_size=8))
STEPS = st.fixed_dictionaries(
    {
        "verb": st.sampled_from(["curation", "preparation", "filter", "split", "extraction", "step"]),
        "name": STAGE_NAMES,
        "using": st.lists(CONTENTS, max_size=2),
        "values": VALUES,
        "more": VALUES,
        "produced": st.none() | st.tuples(CONTENTS, st.sampled_from(["dataset", "features", "model"])),
        "measured": MEASURES,
        "execution": EXECUTIONS,
        "ends": st.booleans(),
    }
)
STAGES = st.fixed_dictionaries(
    {
        "verb": st.sampled_from(["training", "validation", "evaluation"]),
        "name": STAGE_NAMES,
        "kind": st.sampled_from(["epoch", "epoch", "fold", "round"]),
        "using": st.lists(CONTENTS, max_size=2),
        "values": VALUES,
        "more": VALUES,
        "layers": st.booleans(),
        "epochs": st.lists(EPOCHS, max_size=3),
        "measured": MEASURES,
        "ends": st.booleans(),
    }
)
SCENARIOS = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["flowers", "größe / 2", "a b"]),
        "by": st.sampled_from(["", "alice"]),
        "study": st.sampled_from(["", "spring"]),
        "task": st.sampled_from(["", "classification"]),
        "steps": st.lists(STEPS, max_size=3),
        "stages": st.lists(STAGES, min_size=1, max_size=2),
        "ends": st.sampled_from(["finished", "failed", "never"]),
    }
)


def record_scenario(scenario: dict[str, Any], home: Path) -> Path:
    """Record a scenario with the real recorder and return the folder of its run."""
    settings = {key: scenario[key] for key in ("by", "study", "task")}
    run = Run(scenario["name"], home=home, strict=True, capture_environment=False, **settings)
    for step in scenario["steps"]:
        _record_step(run, step)
    for stage in scenario["stages"]:
        _record_stage(run, stage)
    if scenario["ends"] == "never":
        run._open.clear()
    run.finish(error=ValueError("too bad") if scenario["ends"] == "failed" else None)
    return home / "runs" / run.id


def _record_step(run: Run, spec: dict[str, Any]) -> None:
    using = [run.dataset(content, name=content.decode(), role="raw", size=len(content)) for content in spec["using"]]
    step = getattr(run, spec["verb"])(spec["name"], using=using, **spec["values"])
    step.parameters(**spec["more"])
    step.measured(**spec["measured"])
    step.execution(**spec["execution"])
    if spec["produced"] is not None:
        content, kind = spec["produced"]
        step.produced(content, kind=kind, name=f"{kind}/1", shape=3)
    if spec["ends"]:
        step.done()


def _record_stage(run: Run, spec: dict[str, Any]) -> None:
    using = [run.dataset(content, name=content.decode()) for content in spec["using"]]
    stage = getattr(run, spec["verb"])(name=spec["name"], using=using, **spec["values"])
    if spec["layers"]:
        stage.layers(
            [{"name": "conv", "filters": 96, "kernel": [3, 3]}, {"name": "drop", "rate": 0.4, "block": "conv"}]
        )
    stage.parameters(**spec["more"])
    for index, epoch_spec in enumerate(spec["epochs"], 1):
        epoch = stage.epoch(index, kind=spec["kind"])
        _record_epoch(stage, epoch, epoch_spec)
    stage.measured(**spec["measured"])
    if spec["verb"] == "training":
        model = stage.produced(b"model")
        with run.evaluation(of=model) as evaluation:
            evaluation.measured(accuracy=0.5)
    if spec["ends"]:
        stage.done()


def _record_epoch(stage: Any, epoch: Any, spec: dict[str, Any]) -> None:
    for number, batch in enumerate(epoch.batches(spec["batches"]), 1):
        for measures in batch.data:
            batch.measured(**measures)
        if spec["ends"] == "break" and number == 2:
            break
    for measures in spec["measured"]:
        epoch.measured(**measures)
    if spec["validation"]:
        with epoch.validation() as validation:
            validation.measured(loss=0.5)
    if spec["adapted"] is not None:
        stage.adapted(technique=spec["adapted"]["technique"], parameters={"drop": 0.5}, **spec["adapted"]["values"])
    if spec["model"] is not None:
        epoch.produced(b"model", **spec["model"])
    if spec["ends"] != "never":
        epoch.done(error=ValueError("broken") if spec["ends"] == "error" else None)
    epoch.measured(**spec["late"])


def to_ntriples(path: Path, journal: JournalCheckpoint | None = None) -> bytes:
    """Map a journal to N-Triples, from a checkpoint on."""
    journal = JournalCheckpoint() if journal is None else journal
    text = b"".join(text for _, text in map_events(JournalSource(path.name, path, FirstJournalCache()), journal))
    assert not journal.problems, journal.problems
    return text


def graph(*texts: bytes) -> ox.Store:
    """Return a store with N-Triples."""
    store = ox.Store()
    for text in texts:
        store.load(text, format=ox.RdfFormat.N_TRIPLES)
    return store


def rows(store: ox.Store, sparql: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query as Python values."""
    from provml.rdf.namespaces import PREFIXES

    solutions = store.query(sparql, prefixes=PREFIXES)
    return [tuple(None if node is None else rdf.value(node) for node in row) for row in solutions]
