"""PyTorch's loops beside others: ended by a partner, held by a name, gone on with in another epoch."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import provml
from capture.contract import Boom, adaptations, ask, by_epoch
from provml.validation import validate

torch = pytest.importorskip("torch", reason="PyTorch is not installed; `pip install 'provml[torch]'`")

from provml.capture.torch import Capture  # noqa: E402  # it needs PyTorch

pytestmark = pytest.mark.xdist_group("torch")  # loading PyTorch takes seconds: once is enough
EPOCH = "provml:TrainingEpochExecution"


class Trained:
    """A small network with a capture of its training."""

    def __init__(self, home: Path, **settings: Any) -> None:
        self.network = torch.nn.Linear(4, 2)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.1)
        said = {"home": home, "strict": True, "capture_environment": False, **settings}
        self.capture = Capture("digits", self.network, self.optimizer, **said)

    def step(self, loss: float) -> None:
        self.optimizer.zero_grad()
        self.network(torch.ones(4)).sum().backward()
        self.optimizer.step()
        self.capture.measured(loss=loss)

    def epoch(self) -> None:
        for loss in self.capture.batches([1.0, 3.0]):
            self.step(loss)


def training(store: Any) -> list[Any]:
    """How each training ended, and by which exception."""
    rows = ask(
        store,
        "SELECT ?s ?x { ?t a provml:TrainingExecution ; prov:startedAtTime ?b ; provlake:status ?s"
        " OPTIONAL { ?t provlake:exceptionType ?x } } ORDER BY ?b",
    )
    return [tuple(row) for row in rows]


def batches(store: Any) -> list[tuple[int, int]]:
    """The epoch and the number of each batch that has ended."""
    rows = ask(
        store,
        "SELECT ?e ?b { ?batch a provml:BatchExecution ; provml:sectionIndex ?b ; provml:elapsedSeconds ?s ;"
        f" provml:partOfSection ?epoch . ?epoch a {EPOCH} ; provml:sectionIndex ?e }} ORDER BY ?e ?b",
    )
    return [(epoch, batch) for epoch, batch in rows]


def of_batches(store: Any, name: str) -> list[tuple[int, int, float]]:
    """A measure of batches: of which epoch and batch, and its value."""
    rows = ask(
        store,
        "SELECT ?e ?b ?v { ?m a provml:BatchEvaluation ; prov:value ?v ; prov:wasGeneratedBy ?batch ;"
        f" provlake:wasDerivedFromAttribute/rdfs:label '{name}' . ?batch provml:sectionIndex ?b ;"
        f" provml:partOfSection ?epoch . ?epoch a {EPOCH} ; provml:sectionIndex ?e }} ORDER BY ?e ?b",
    )
    return [tuple(row) for row in rows]
