"""Programs in other languages record with HTTP alone: the page with curl, the example for Node, the JSON Schema."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import provml
from provml.journal import events
from provml.journal.schema import event_schema, event_types

from .services import ServiceProcess

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "record-from-elsewhere.md"
NODE = shutil.which("node")


def test_the_page_records_a_training_with_curl(service: ServiceProcess):
    (script,) = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.S | re.M)
    subprocess.run(["bash", "-eu", "-c", f"URL={service.url}\n{script}"], check=True)
    service.kill()
    with provml.open(service.home) as store:
        (row,) = store.table()
        names = dict(zip(store.table().columns, row, strict=True))
        assert (names["name"], names["model"], names["status"]) == ("flowers", "alexnet", "FINISHED")
        assert (names["learning_rate"], names["train_loss"]) == (0.1, 0.25)
        assert store.validate().conforms


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_the_example_for_node_records_a_training(service: ServiceProcess):
    command = [str(NODE), str(ROOT / "examples" / "record_from_node.mjs"), service.url]
    run = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    service.kill()
    with provml.open(service.home) as store:
        assert store.run(run).status == "FINISHED"
        assert len(store.ask("time-and-loss-by-epoch", model="least squares")) == 5
        assert store.validate(run).conforms


# ---- the schema

VALIDATOR = jsonschema.Draft202012Validator(event_schema())
SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=5) | st.lists(st.text(max_size=3))


def accepts(line: dict[str, object]) -> bool:
    try:
        events.decode(msgspec.json.encode(line))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    return True


def test_the_schema_has_every_event():
    assert len(event_types()) == 21
    jsonschema.Draft202012Validator.check_schema(event_schema())
    assert set(event_schema()["$defs"]) == {kind.__name__ for kind in event_types()}


def test_recorded_journals_fulfil_the_schema(tmp_path: Path):
    with provml.record("flowers", home=tmp_path / "home") as run:
        data = run.dataset(b"abc", name="data")
        with run.training(using=data, learning_rate=0.1) as training:
            for epoch in training.epochs(2):
                for batch in epoch.batches(range(3)):
                    batch.measured(loss=float("nan") if batch.index == 2 else 0.5)
            training.adapted(learning_rate=0.01)
        run.keep(b"abc", name="note.txt")
    (journal,) = (tmp_path / "home").glob("runs/*/main.jsonl")
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert len(lines) > 10
    for line in lines:
        VALIDATOR.validate(line)


@given(st.data())
def test_the_schema_takes_what_a_reader_takes(data: st.DataObject):
    """A line with fields of some types is valid exactly if the reader decodes it."""
    kind = data.draw(st.sampled_from([events.Begin, events.Done, events.End, events.Used, events.BatchEnd]))
    definition = event_schema()["$defs"][kind.__name__]
    fields = [name for name in definition["properties"] if name != "e"]
    line: dict[str, object] = {"e": definition["properties"]["e"]["enum"][0]}
    for name in fields:
        sample = {"string": "FINISHED", "number": 1.5, "integer": 3, "array": [], "object": {}}
        kind_of_field = definition["properties"][name].get("type", "string")
        if data.draw(st.booleans()):
            line[name] = sample[kind_of_field]
    if data.draw(st.booleans()):
        line[data.draw(st.sampled_from(fields))] = data.draw(SCALARS)
    assert VALIDATOR.is_valid(line) == accepts(line)
