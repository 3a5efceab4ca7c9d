"""How a plain PyTorch loop ends: an exception in its loop, in a cell, or after the training."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import provml
from capture.autolog.contracts import autologging
from capture.contract import Boom, ask
from provml.recording.context import CONTEXT

torch = pytest.importorskip("torch", reason="PyTorch is not installed; `pip install 'provml[torch]'`")

from capture.autolog import loops  # noqa: E402  # it needs PyTorch

pytestmark = pytest.mark.xdist_group("torch")

BEGIN = "import torch; net = loops.Net(); optimizer = torch.optim.SGD(net.parameters(), lr=0.1)"
TRAIN = """
for epoch in range(100):
    for x, y in loops.loaders()[0]:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    if epoch == 1:
        raise KeyboardInterrupt
"""
EPOCHS = "SELECT ?s { ?e a provml:TrainingEpochExecution ; provml:sectionIndex ?i ; provlake:status ?s } ORDER BY ?i"
TRAININGS = "SELECT ?s { ?t a provml:TrainingExecution ; provlake:status ?s }"


def train(place: str) -> None:
    """Train for three epochs; something happens in this place."""
    network, (loader, _) = loops.Net(), loops.loaders()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)

    def train_epoch(number: int) -> None:
        for position, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(x), y).backward()
            optimizer.step()
            if number == 2 and position == 1:
                if place == "error":
                    raise Boom("bad batch")
                if place == "ctrl-c":
                    signal.raise_signal(signal.SIGINT)
                if place == "break":
                    break

    for number in range(3):
        train_epoch(number)
        if place == "validation" and number == 2:
            raise Boom("bad validation")
    if place == "later":
        raise Boom("bad plot")


ENDINGS = {
    "error": ("FAILED", "FAILED", "FAILED"),
    "ctrl-c": ("INTERRUPTED", "INTERRUPTED", "INTERRUPTED"),
    "break": ("FINISHED", "FINISHED", "FINISHED"),
    "validation": ("FINISHED", "FAILED", "FAILED"),
    "later": ("FINISHED", "FINISHED", "FAILED"),
}
"""The statuses of the last epoch, of the training, and of the run if nobody catches the exception."""


@pytest.mark.parametrize("is_caught", [True, False], ids=["caught", "not caught"])
@pytest.mark.parametrize("place", ENDINGS)
def test_a_training_fails_by_what_left_its_loop(place: str, is_caught: bool, isolated_home: Path):
    home = isolated_home / "home"
    with suppress(Boom, KeyboardInterrupt), autologging(home=home, strict=True, capture_environment=False):
        try:
            train(place)
        except (Boom, KeyboardInterrupt):
            if not is_caught:
                raise
    epoch, training, run = ENDINGS[place]
    if is_caught and place == "later":
        run = "FINISHED"
    if is_caught and place == "validation" and sys.version_info < (3, 12):  # in the last iteration it leaves no trace
        training = run = "FINISHED"
    with provml.open(home) as store:
        assert ask(store, EPOCHS) == [("FINISHED",), ("FINISHED",), (epoch,)]
        assert ask(store, TRAININGS) == [(training,)]
        assert store.run("latest").status == run


def test_a_cell_that_is_stopped_ends_its_training_at_once(isolated_home: Path):
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    shell.showtraceback = lambda *args, **kwargs: None
    shell.user_ns["loops"] = loops
    try:
        with autologging(home=isolated_home / "home", capture_environment=False):
            for cell in (BEGIN, TRAIN):
                shell.run_cell(cell)
            with provml.open(isolated_home / "home") as store:
                assert ask(store, TRAININGS) == [("INTERRUPTED",)]
                assert store.run("latest").status == "INTERRUPTED"
            shell.run_cell("unknown_name")
    finally:
        InteractiveShell.clear_instance()
    assert not CONTEXT.active_runs
