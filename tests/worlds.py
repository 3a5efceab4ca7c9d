"""Random worlds: what a training script may do, drawn by hypothesis and done through the real recorder."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyoxigraph as ox
from hypothesis import strategies as st

from provml import rdf
from provml.recorder import Recorder
from provml.store.kin import Eldest
from provml.store.progress import Journal
from provml.store.reading import lifted

NAMES = st.sampled_from(
    ["loss", "accuracy", "val loss", "größe", "a/b", "loss-2", "17", "network", "x~2", "%41", "日本"]
)
TITLES = st.sampled_from(["training", "my stage", "ü/ber", "task", "data", "training-2", "environment"])
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
SURROUNDINGS = st.dictionaries(st.sampled_from(["name", "where", "on", "output", "errors"]), st.text(max_size=8))
STEPS = st.fixed_dictionaries(
    {
        "verb": st.sampled_from(["curation", "preparation", "filter", "split", "extraction", "step"]),
        "name": TITLES,
        "using": st.lists(CONTENTS, max_size=2),
        "values": VALUES,
        "more": VALUES,
        "produced": st.none() | st.tuples(CONTENTS, st.sampled_from(["dataset", "features", "model"])),
        "measured": MEASURES,
        "ran": SURROUNDINGS,
        "ends": st.booleans(),
    }
)
STAGES = st.fixed_dictionaries(
    {
        "verb": st.sampled_from(["training", "validation", "evaluation"]),
        "name": TITLES,
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
WORLDS = st.fixed_dictionaries(
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


def live(world: dict[str, Any], home: Path) -> Path:
    """Do all that a world tells; the folder of its run."""
    said = {key: world[key] for key in ("by", "study", "task")}
    run = Recorder(world["name"], home=home, strict=True, capture_environment=False, **said)
    for step in world["steps"]:
        _step(run, step)
    for stage in world["stages"]:
        _stage(run, stage)
    if world["ends"] == "never":
        run._open.clear()
    run.finish(error=ValueError("too bad") if world["ends"] == "failed" else None)
    return home / "runs" / run.id


def _step(run: Recorder, told: dict[str, Any]) -> None:
    using = [run.dataset(content, name=content.decode(), role="raw", size=len(content)) for content in told["using"]]
    step = getattr(run, told["verb"])(told["name"], using=using, **told["values"])
    step.parameters(**told["more"])
    step.measured(**told["measured"])
    step.ran(**told["ran"])
    if told["produced"] is not None:
        content, kind = told["produced"]
        step.produced(content, kind=kind, name=f"{kind}/1", shape=3)
    if told["ends"]:
        step.done()


def _stage(run: Recorder, told: dict[str, Any]) -> None:
    using = [run.dataset(content, name=content.decode()) for content in told["using"]]
    stage = getattr(run, told["verb"])(name=told["name"], using=using, **told["values"])
    if told["layers"]:
        stage.layers(
            [{"name": "conv", "filters": 96, "kernel": [3, 3]}, {"name": "drop", "rate": 0.4, "block": "conv"}]
        )
    stage.parameters(**told["more"])
    for index, one in enumerate(told["epochs"], 1):
        epoch = stage.epoch(index, kind=told["kind"])
        _epoch(stage, epoch, one)
    stage.measured(**told["measured"])
    if told["verb"] == "training":
        model = stage.produced(b"model")
        with run.evaluation(of=model) as test:
            test.measured(accuracy=0.5)
    if told["ends"]:
        stage.done()


def _epoch(stage: Any, epoch: Any, told: dict[str, Any]) -> None:
    for number, batch in enumerate(epoch.batches(told["batches"]), 1):
        for measures in batch.data:
            batch.measured(**measures)
        if told["ends"] == "break" and number == 2:
            break
    for measures in told["measured"]:
        epoch.measured(**measures)
    if told["validation"]:
        with epoch.validation() as twin:
            twin.measured(loss=0.5)
    if told["adapted"] is not None:
        stage.adapted(technique=told["adapted"]["technique"], parameters={"drop": 0.5}, **told["adapted"]["values"])
    if told["model"] is not None:
        epoch.produced(b"model", **told["model"])
    if told["ends"] != "never":
        epoch.done(error=ValueError("broken") if told["ends"] == "error" else None)
    epoch.measured(**told["late"])


def lift(path: Path, journal: Journal | None = None) -> bytes:
    """The N-Triples of a journal."""
    journal = Journal() if journal is None else journal
    text = b"".join(text for _, text in lifted(path.name, path, journal, Eldest()))
    assert not journal.problems, journal.problems
    return text


def graph(*texts: bytes) -> ox.Store:
    """A store with some N-Triples."""
    store = ox.Store()
    for text in texts:
        store.load(text, format=ox.RdfFormat.N_TRIPLES)
    return store


def rows(store: ox.Store, sparql: str) -> list[tuple[Any, ...]]:
    """The rows of a query as Python values."""
    from provml.store.home import PREFIXES

    found = store.query(sparql, prefixes=PREFIXES)
    return [tuple(None if node is None else rdf.value(node) for node in row) for row in found]
