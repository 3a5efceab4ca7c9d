"""What was received gives the same graph: in pieces or at once, twice, in another order, after a kill."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

import provml
from provml.exchange.growing_journal import GrowingJournal
from provml.journal import events
from tests.web.ingest.exchanges import Clock, feed, graph, new_ingest, recorded, requests_of, scenarios, translated

CLIENTS = ("dfanalyzer", "provlake", "openlineage")
SCENARIOS = [(client, name) for client in CLIENTS for name in scenarios(client)]


@pytest.mark.parametrize(("client", "name"), SCENARIOS)
def test_the_graph_is_the_same_in_pieces_at_once_twice_and_again(tmp_path: Path, client: str, name: str) -> None:
    exchanges = recorded(name)
    expected = graph(translated(tmp_path / "at once", client, exchanges))
    clock, home = Clock(), tmp_path / "pieces"
    ingest = new_ingest(home, client, clock)
    feed(ingest, client, exchanges, clock)
    assert graph(home) == expected
    feed(ingest, client, exchanges, clock)  # the same requests once more
    assert graph(home) == expected
    for path in home.glob("runs/*/*.jsonl"):
        path.unlink()
    new_ingest(home, client, clock).replay()
    assert graph(home) == expected


@pytest.mark.parametrize(("client", "name"), [item for item in SCENARIOS if item[0] != "dfanalyzer"])
def test_the_graph_does_not_depend_on_the_order(tmp_path: Path, client: str, name: str) -> None:
    """A dfa-lib client waits for each answer, so its requests have an order; those of the others need none."""
    exchanges = recorded(name)
    expected = graph(translated(tmp_path / "ordered", client, exchanges))
    shuffled = list(exchanges)
    random.Random(7).shuffle(shuffled)
    clock, home = Clock(), tmp_path / "shuffled"
    clock.now = max(exchange["t"] for exchange in exchanges)
    feed(new_ingest(home, client, clock), client, shuffled, clock)
    assert graph(home) == expected


@pytest.mark.parametrize("client", CLIENTS)
def test_the_graph_conforms(tmp_path: Path, client: str) -> None:
    home = translated(tmp_path, client, [exchange for name in scenarios(client) for exchange in recorded(name)])
    with provml.open(home) as store:
        assert store.validate().conforms
        assert [problem.reason for problem in store.problems] == []


def test_a_live_run_is_only_appended_to(tmp_path: Path) -> None:
    clock = Clock()
    ingest = new_ingest(tmp_path, "dfanalyzer", clock)
    lines: list[bytes] = []
    for source, request in requests_of("dfanalyzer", recorded("dfanalyzer/dnnprov-training")):
        clock.now = request.time
        ingest.receive(source, request)
        ingest.translate(at_once=True)
        for path in tmp_path.glob("runs/*/*.jsonl"):
            now = path.read_bytes().splitlines()
            assert now[: len(lines)] == lines
            lines = now
    assert b'"e":"end"' in lines[-1]


def test_a_killed_translation_is_taken_up(tmp_path: Path) -> None:
    """A process is killed after each request is kept; the next one translates what is there, without a duplicate."""
    name = "dfanalyzer/kerasprov-training"
    script = """
import os, signal, sys
from pathlib import Path
from tests.web.ingest.exchanges import Clock, feed, new_ingest, recorded
home, name, start, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
clock = Clock()
ingest = new_ingest(home, "dfanalyzer", clock)
ingest.resume()
exchanges = recorded(name)[start:]
feed(ingest, "dfanalyzer", exchanges[:count - 1], clock)
feed(ingest, "dfanalyzer", exchanges[count - 1:count], clock, translates=False)
os.kill(os.getpid(), signal.SIGKILL)
"""
    home = tmp_path / "killed"
    total = len(recorded(name))
    for start in range(0, total, 6):
        count = min(6, total - start)
        command = [sys.executable, "-c", script, str(home), name, str(start), str(count)]
        assert subprocess.run(command, cwd=Path(__file__).parents[3], check=False).returncode == -9
    clock = Clock()
    clock.now = max(exchange["t"] for exchange in recorded(name))
    ingest = new_ingest(home, "dfanalyzer", clock)
    ingest.resume()
    ingest.translate(at_once=True)
    assert graph(home) == graph(translated(tmp_path / "whole", "dfanalyzer", recorded(name)))
    assert ingest.log.open_sources() == []


def test_a_line_cut_off_by_a_kill_is_written_again(tmp_path: Path) -> None:
    home = translated(tmp_path, "provlake", recorded("provlake/training"))
    expected = graph(home)
    (path,) = home.glob("runs/*/*.jsonl")
    data = path.read_bytes()
    path.write_bytes(data[:-10])
    new_ingest(home, "provlake").replay()
    assert path.read_bytes().splitlines()[-1] == data.splitlines()[-1]
    assert graph(home) == expected
    (log,) = home.glob("received/provlake/*.jsonl")
    with log.open("ab") as file:
        file.write(b'{"t":1.0,"action":"retro')  # a request that was not answered
    new_ingest(home, "provlake").replay()
    assert graph(home) == expected


class TestGrowingJournal:
    header = events.Header(events.VERSION, "r", "w", "exp", 1.0)
    begin = events.Begin("training", "training", 1.0, "training")

    def update(self, journal: GrowingJournal, *more: events.Event) -> None:
        journal.update([self.header, self.begin, *more], 5.0)

    def test_what_is_missing_is_appended(self, tmp_path: Path) -> None:
        journal = GrowingJournal(tmp_path, "r", "w")
        self.update(journal)
        self.update(journal, events.Measured("training", {"loss": 1.0}))
        (path,) = (tmp_path / "runs" / "r").iterdir()
        assert path.name == "w.jsonl"
        assert path.read_bytes().count(b"\n") == 3
        assert path.stat().st_mtime == 5.0

    def test_the_same_value_twice_is_two_values(self, tmp_path: Path) -> None:
        journal = GrowingJournal(tmp_path, "r", "w")
        measured = events.Measured("training", {"loss": 1.0})
        self.update(journal, measured)
        self.update(journal, measured, measured)
        assert (tmp_path / "runs/r/w.jsonl").read_bytes().count(b"measured") == 2

    @pytest.mark.parametrize(
        ("earlier", "later"),
        [
            ([events.Done("training", 2.0, 1.0)], []),
            (
                [events.Measured("training", {"loss": 2.0})],
                [events.Measured("training", {"loss": 1.0}), events.Measured("training", {"loss": 2.0})],
            ),
            (
                [events.Begin("training/1", "epoch", 1.0, index=1)],
                [events.Parameter("training", {"lr": 0.1}), events.Begin("training/1", "epoch", 1.0, index=1)],
            ),
        ],
        ids=["an event is no longer right", "values are numbered", "a hyperparameter was in force"],
    )
    def test_a_journal_is_replaced_if_appending_would_be_wrong(
        self, tmp_path: Path, earlier: list[events.Event], later: list[events.Event]
    ) -> None:
        journal = GrowingJournal(tmp_path, "r", "w")
        self.update(journal, *earlier)
        self.update(journal, *later)
        (path,) = (tmp_path / "runs" / "r").iterdir()
        assert path.name != "w.jsonl"
        expected = [events.encode(event) for event in (self.header, self.begin, *later)]
        assert path.read_bytes() == b"".join(expected)
