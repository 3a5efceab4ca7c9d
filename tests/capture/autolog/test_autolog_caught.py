"""A plain PyTorch loop without a loader that is left by an exception, which the script catches."""

from __future__ import annotations

import signal
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import provml
from capture.autolog.contracts import autologging
from capture.contract import ask

torch = pytest.importorskip("torch", reason="PyTorch is not installed; `pip install 'provml[torch]'`")

pytestmark = pytest.mark.xdist_group("torch")

TRAININGS = """SELECT ?s ?type ?message { ?t a provml:TrainingExecution ; provlake:status ?s ; prov:startedAtTime ?b
  OPTIONAL { ?t provlake:exceptionType ?type } OPTIONAL { ?t provlake:exceptionMessage ?message } } ORDER BY ?b"""
EPOCHS = "SELECT ?s { ?e a provml:TrainingEpochExecution ; provml:sectionIndex ?i ; provlake:status ?s } ORDER BY ?i"
BEGIN = """
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""
STEP = "optimizer.zero_grad(); loss = ((net(X) - Y) ** 2).mean(); loss.backward(); optimizer.step()"
IS_MONITORED = sys.version_info >= (3, 12)


def script(body: str, *, is_function: bool = False) -> str:
    """Return a script; STEP stands for a step of the optimizer."""
    text = BEGIN + textwrap.dedent(body).replace("STEP", STEP)
    return f"def main():\n{textwrap.indent(text, '    ')}\nmain()" if is_function else text


def run_script(text: str, home: Path) -> list[tuple[Any, ...]]:
    """Return the status and the reason of each training of a script."""
    namespace = {"__name__": "__main__", "torch": torch, "signal": signal, "provml": provml, "pytest": pytest}
    namespace |= {"X": torch.randn(64, 4), "Y": torch.randn(64, 1)}
    with autologging(home=home, strict=True, capture_environment=False):
        exec(compile(text, "script.py", "exec"), namespace)
    with provml.open(home) as store:
        return ask(store, TRAININGS)


INTERRUPTED = {
    "at a raise": """
        try:
            for epoch in range(10):
                STEP
                if epoch == 3:
                    raise ValueError("too large")
        except ValueError:
            pass
    """,
    "in an inner loop": """
        try:
            for epoch in range(1, 4 + 1):
                for batch in range(0, 64, 16):
                    STEP
                    if epoch == 2 and batch == 16:
                        raise ValueError("too large")
        except ValueError:
            pass
    """,
    "after an inner loop": """
        try:
            for epoch in range(6):
                for batch in range(4):
                    STEP
                if epoch == 3:
                    raise ValueError("too large")
        except ValueError:
            pass
    """,
    "by a function with the loss": """
        def train():
            epoch = 0
            while epoch < 10:
                STEP
                epoch += 1
                if epoch == 3:
                    raise ValueError("too large")
        try:
            train()
        except ValueError as error:
            print(error)
    """,
    "and the exception is kept": """
        def train():
            for epoch in range(10):
                STEP
                if epoch == 3:
                    raise ValueError("too large")
        with pytest.raises(ValueError) as caught:
            train()
    """,
    "by a step in a function": """
        def step():
            STEP
        try:
            for epoch in range(10):
                step()
                if epoch == 3:
                    raise ValueError("too large")
        except ValueError:
            pass
    """,
    "within mixed precision": """
        try:
            for epoch in range(10):
                with torch.autocast("cpu"):
                    loss = ((net(X) - Y) ** 2).mean()
                loss.backward(); optimizer.step()
                if epoch == 3:
                    raise ValueError("too large")
        except ValueError:
            pass
    """,
    "and a handler raises another": """
        try:
            for epoch in range(10):
                try:
                    STEP
                    if epoch == 3:
                        raise RuntimeError
                except RuntimeError as error:
                    raise ValueError("too large") from error
        except ValueError as error:
            kept = error
    """,
    "and the network is evaluated": """
        try:
            for epoch in range(10):
                STEP
                if epoch == 3:
                    raise ValueError("too large")
        except ValueError:
            pass
        with torch.no_grad():
            torch.nn.functional.mse_loss(net(X), Y)
    """,
}
ENDED = {
    "complete": """
        for epoch in range(10):
            STEP
    """,
    "break": """
        try:
            for epoch in range(10):
                STEP
                if epoch == 3:
                    break
        except ValueError:
            pass
    """,
    "caught inside": """
        for epoch in range(10):
            try:
                STEP
                if epoch == 9:
                    raise ValueError
            except ValueError:
                pass
    """,
    "last items without a step": """
        for epoch in range(10):
            if epoch > 5:
                continue
            STEP
    """,
    "accumulated gradients": """
        for batch in range(10):
            loss = ((net(X) - Y) ** 2).mean()
            loss.backward()
            if batch % 3 == 2:
                optimizer.step(); optimizer.zero_grad()
    """,
    "skipped steps of a scaler": """
        scaler = torch.amp.GradScaler("cpu")
        for batch in range(10):
            optimizer.zero_grad()
            loss = ((net(X) - Y) ** 2).mean() * (float("inf") if batch in (0, 9) else 1.0)
            scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()
    """,
    "an exception after it": """
        try:
            for epoch in range(10):
                STEP
            raise ValueError("no screen")
        except ValueError:
            pass
    """,
    "a generator that is not finished": """
        def losses():
            for epoch in range(10):
                STEP
                yield loss.item()
        generator = losses()
        first = [next(generator) for _ in range(4)]
    """,
    "two optimizers": """
        other = torch.nn.Parameter(torch.ones(1))
        second = torch.optim.SGD([other], lr=0.1)
        for epoch in range(10):
            STEP
            (other * other).sum().backward(); second.step()
    """,
    "several loops": """
        STEP
        for epoch in range(10):
            STEP
        for epoch in range(5):
            STEP
    """,
    "one variable of two loops": """
        def step():
            STEP
        for _ in range(4):
            for _ in range(3):
                torch.randn(1)
            step()
    """,
    "a variable that is changed": """
        for epoch in range(10):
            STEP
            epoch = epoch // 2
            torch.zeros(1)
            STEP
    """,
    "a nested raise after a while loop": """
        def train():
            epoch = 0
            while epoch < 5:
                STEP
                epoch += 1
            for name in ["curve"]:
                if name:
                    raise ValueError("no screen")
        try:
            train()
        except ValueError:
            pass
    """,
    "a nested raise after while True": """
        try:
            epoch = 0
            while True:
                STEP
                epoch += 1
                if epoch == 3:
                    break
            if epoch:
                raise ValueError("no screen")
        except ValueError:
            pass
    """,
    "the else of a while loop": """
        try:
            epoch = 0
            while epoch < 3:
                STEP
                epoch += 1
            else:
                raise ValueError("no screen")
        except ValueError:
            pass
    """,
    "the end of autolog": """
        try:
            for epoch in range(10):
                STEP
                if epoch == 3:
                    provml.autolog(False)
        except ValueError:
            pass
    """,
}
PLACES = pytest.mark.parametrize("is_function", [False, True], ids=["module", "function"])


@PLACES
@pytest.mark.parametrize("name", INTERRUPTED)
def test_an_exception_that_left_the_loop_fails_the_training(name: str, is_function: bool, tmp_path: Path):
    [(status, kind, message)] = run_script(script(INTERRUPTED[name], is_function=is_function), tmp_path)
    assert status == "FAILED"
    if IS_MONITORED or "kept" in name:
        assert (kind, message) == ("ValueError", "too large")
    else:
        assert (kind, message.split(" in line")[0]) in [
            ("UnknownException", "left by an exception that the program caught as ValueError"),
            ("ValueError", "too large"),
        ]


@PLACES
@pytest.mark.parametrize("name", ENDED)
def test_a_loop_that_no_exception_left_is_finished(name: str, is_function: bool, tmp_path: Path):
    [(status, kind, _)] = run_script(script(ENDED[name], is_function=is_function), tmp_path)
    assert (status, kind) == ("FINISHED", None)


def test_ctrl_c_that_the_script_catches_interrupts_the_training_and_its_epoch(tmp_path: Path):
    text = """
        def train(epoch):
            for number, begin in enumerate(range(0, 64, 16)):
                STEP
                if epoch == 3 and number == 2:
                    signal.raise_signal(signal.SIGINT)
        try:
            for epoch in range(1, 100):
                net.train()
                train(epoch)
                net.eval()
        except KeyboardInterrupt:
            print("Exiting from training early")
        with torch.no_grad():
            torch.nn.functional.mse_loss(net(X), Y)
    """
    assert [row[:2] for row in run_script(script(text), tmp_path)] == [("INTERRUPTED", "KeyboardInterrupt")]
    with provml.open(tmp_path) as store:
        assert ask(store, EPOCHS) == [("FINISHED",), ("FINISHED",), ("INTERRUPTED",)]


@pytest.mark.parametrize("body", ["{}train(lr)", "{}train(lr); kept = None"])
@PLACES
def test_only_the_failed_training_of_a_search_is_failed(body: str, is_function: bool, tmp_path: Path):
    text = """
        def train(lr):
            net = torch.nn.Linear(4, 1)
            optimizer = torch.optim.SGD(net.parameters(), lr=lr)
            for epoch in range(10):
                STEP
                if lr == 0.2 and epoch == 4:
                    raise ValueError("too large")
        for lr in (0.1, 0.2, 0.3):
            try:
                BODY
            except ValueError:
                continue
    """.replace("BODY", body.format(""))
    rows = run_script(script(text, is_function=is_function), tmp_path)
    assert [row[0] for row in rows] == ["FINISHED", "FAILED", "FINISHED"]


def test_loops_at_one_place_are_distinguished_by_their_items(tmp_path: Path):
    text = """
        for lr in (0.1, 0.2, 0.3):
            try:
                net = torch.nn.Linear(4, 1)
                optimizer = torch.optim.SGD(net.parameters(), lr=lr)
                for epoch in range(10):
                    STEP
                    if lr == 0.2 and epoch == 4:
                        raise ValueError("too large")
            except ValueError:
                continue
    """
    assert [row[0] for row in run_script(script(text), tmp_path)] == ["FINISHED", "FAILED", "FINISHED"]


def test_an_exception_that_leaves_no_trace_on_python_3_11_does_not_fail_the_training(tmp_path: Path):
    text = """
        number = 0
        try:
            while True:
                STEP
                number += 1
                if number == 3:
                    raise ValueError("too large")
        except ValueError:
            pass
    """
    [(status, _, _)] = run_script(script(text), tmp_path)
    assert status == ("FAILED" if IS_MONITORED else "FINISHED")


def test_autolog_leaves_the_tools_of_the_interpreter_as_they_were(tmp_path: Path):
    if not IS_MONITORED:
        assert not hasattr(sys, "monitoring")
        return
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    before = [monitoring.get_tool(number) for number in range(6)]
    with autologging(home=tmp_path, capture_environment=False):
        assert "provml" in [monitoring.get_tool(number) for number in range(6)]
    assert [monitoring.get_tool(number) for number in range(6)] == before


@pytest.mark.parametrize("use", ["seen = locals()", "seen = vars()"])
def test_the_variables_of_a_function_stay_as_the_function_saw_them(use: str, tmp_path: Path):
    """On Python 3.11, reading the variables of a function changes what `locals()` returned to it."""
    text = f"""
        {use}
        for epoch in range(3):
            STEP
        assert "net" in seen and (IS_MONITORED or "loss" not in seen)
    """.replace("IS_MONITORED", str(IS_MONITORED))
    [(status, _, _)] = run_script(script(text, is_function=True), tmp_path)
    assert status == "FINISHED"


def test_no_tensor_of_a_step_lives_longer_than_without_autolog(tmp_path: Path):
    text = """
        import weakref
        alive = []
        def train():
            for epoch in range(4):
                output = net(X)
                alive.append(weakref.ref(output))
                loss = ((output - Y) ** 2).mean()
                optimizer.zero_grad(); loss.backward(); optimizer.step()
                assert [reference() is not None for reference in alive] == [False] * epoch + [True]
        train()
        assert not any(reference() is not None for reference in alive)
    """
    [(status, _, _)] = run_script(script(text), tmp_path)
    assert status == "FINISHED"
