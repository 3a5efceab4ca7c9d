"""Runs with energy: one that was metered, one that was modelled, with its emissions, and one without."""

from __future__ import annotations

from pathlib import Path

from example_runs.journal import JournalBuilder
from provml.journal.events import Consumed

JULY = 1_782_864_000.0


def write(home: Path) -> None:
    """Write the journals."""
    for journal in (_run("metered", "net", 0.25), _run("modelled", "wide", 0.5, emissions=0.2), _run("plain", "net")):
        journal.write(home)


def _run(run: str, model: str, energy: float = 0.0, *, emissions: float = 0.0) -> JournalBuilder:
    journal = JournalBuilder(run, "energy", JULY, model=model)
    training = journal.begin("training", learning_rate=0.1)
    journal.epoch(training, 1, 1.0, loss=0.5)
    for location, share in ((training, 0.75), ("", 1.0)):
        if energy:
            method, is_metered = ("CodeCarbon 3.3.2, model", False) if emissions else ("RAPL", True)
            amount = Consumed(location, "energy", share * energy, "kW.h", method, is_metered=is_metered)
            journal.append(amount)
            if is_metered:
                journal.append(Consumed(location, "energy", share * energy, "kW.h", method, True, "cpu"))
        if emissions:
            method = "grid of DEU, 380.95 g/kWh (CodeCarbon)"
            journal.append(Consumed(location, "emissions", share * emissions, "kg", method))
        if location:
            journal.end(training)
    journal.finish()
    return journal
