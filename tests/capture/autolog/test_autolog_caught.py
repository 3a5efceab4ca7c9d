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
    "the end of an iterator": """
        items = iter(range(5))
        try:
            while True:
                item = next(items)
                STEP
        except StopIteration:
            pass
    """,
    "async for": """
        import asyncio
        async def items():
            for item in range(5):
                yield item
        async def train():
            async for item in items():
                STEP
        asyncio.run(train())
    """,
    "an exception of the loop that is raised after it": """
        def train():
            error, epoch = None, 0
            while epoch < 5:
                STEP
                epoch += 1
                try:
                    if epoch == 2:
                        raise ValueError
                except ValueError as caught:
                    error = caught
            return error
        try:
            raise train()
        except ValueError:
            pass
    """,
    "a context that keeps exceptions": """
        import contextlib
        @contextlib.contextmanager
        def quiet():
            try:
                yield
            except ValueError:
                pass
        for epoch in range(10):
            with quiet():
                if epoch > 6:
                    raise ValueError
                STEP
    """,
    "a retry that ends by break": """
        errors = []
        for attempt in range(3):
            try:
                for epoch in range(10):
                    STEP
                    if attempt == 0 and epoch == 2:
                        raise ValueError
                    if epoch == 5:
                        break
                break
            except ValueError as error:
                errors.append(error)
    """,
    "an exception that a function inside the loop catches": """
        def step():
            STEP
            raise ValueError("not logged")
        def safe_step():
            try:
                step()
            except ValueError:
                pass
        for epoch in range(10):
            safe_step()
            if epoch == 4:
                break
    """,
    "an exception in the function of the loop, after break": """
        def train():
            for epoch in range(10):
                STEP
                if epoch == 4:
                    break
            raise ValueError("no screen")
        try:
            train()
        except ValueError:
            pass
    """,
    "an exit without a failure": """
        def train():
            for epoch in range(10):
                STEP
                if epoch == 3:
                    raise SystemExit
        try:
            train()
        except SystemExit:
            pass
    """,
    "suppressed exceptions": """
        import contextlib
        for epoch in range(10):
            with contextlib.suppress(ValueError):
                if epoch > 7:
                    raise ValueError
                STEP
    """,
    "a range whose arguments change": """
        number = 0
        for epoch in range(number, number + 5):
            STEP
            number += 1
    """,
    "a range whose arguments a function changes": """
        class State:
            number = 0
            def count(self):
                self.number += 1
        state = State()
        for epoch in range(state.number, state.number + 5):
            STEP
            state.count()
    """,
    "an inner range that becomes empty": """
        for epoch in range(5):
            for batch in range(3 - epoch):
                STEP
    """,
    "an inner range that becomes empty by a change of an object": """
        import types
        state = types.SimpleNamespace(number=3)
        for epoch in range(6):
            for batch in range(state.number):
                STEP
            vars(state)["number"] -= 1
    """,
    "an inner iterator that becomes empty": """
        items = iter([1, 2, 3])
        for epoch in range(4):
            for item in items:
                STEP
    """,
    "a function that makes no step any more": """
        calls = []
        def train():
            calls.append(1)
            if len(calls) > 4:
                return
            STEP
        for epoch in range(10):
            train()
    """,
    "a function that accumulates gradients": """
        def train(batch):
            ((net(X) - Y) ** 2).mean().backward()
            if batch % 4 == 3:
                optimizer.step(); optimizer.zero_grad()
        for batch in range(10):
            train(batch)
    """,
    "a function that catches an exception and makes no step": """
        def train(batch):
            try:
                if batch > 6:
                    raise ValueError
                STEP
            except ValueError:
                pass
        for batch in range(10):
            train(batch)
    """,
    "a loader in a generator": """
        loader = torch.utils.data.DataLoader(X, batch_size=16)
        def batches():
            while True:
                yield from loader
        endless = batches()
        for batch in range(10):
            optimizer.zero_grad(); net(next(endless)).mean().backward(); optimizer.step()
    """,
    "a loader that is empty later": """
        class Items(torch.utils.data.IterableDataset):
            passes = 0
            def __iter__(self):
                Items.passes += 1
                return iter([X, X] if Items.passes < 3 else [])
        loader = torch.utils.data.DataLoader(Items(), batch_size=None)
        for epoch in range(6):
            for x in loader:
                optimizer.zero_grad(); net(x).mean().backward(); optimizer.step()
    """,
    "a loader that is used in some epochs": """
        loader = torch.utils.data.DataLoader(X, batch_size=16)
        def train(epoch):
            if epoch > 3:
                return
            for x in loader:
                optimizer.zero_grad(); net(x).mean().backward(); optimizer.step()
        for epoch in range(6):
            train(epoch)
    """,
    "gradients accumulated over passes": """
        loader = torch.utils.data.DataLoader(X, batch_size=32)
        batches = 0
        for epoch in range(6):
            for x in loader:
                net(x).mean().backward()
                batches += 1
                if batches % 5 == 0:
                    optimizer.step(); optimizer.zero_grad()
    """,
    "skipped steps of a scaler over a loader": """
        loader = torch.utils.data.DataLoader(X, batch_size=64)
        scaler = torch.amp.GradScaler("cpu")
        for epoch in range(6):
            for x in loader:
                optimizer.zero_grad()
                loss = net(x).mean() * (float("inf") if epoch in (0, 4, 5) else 1.0)
                scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()
    """,
    "accumulation with Accelerate": """
        accelerate = pytest.importorskip("accelerate")
        accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=4)
        net, optimizer = accelerator.prepare(net, optimizer)
        for batch in range(10):
            with accelerator.accumulate(net):
                optimizer.zero_grad(); accelerator.backward(net(X).mean()); optimizer.step()
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


def test_an_exception_that_was_kept_before_does_not_fail_the_next_training_at_its_place(tmp_path: Path):
    text = """
        errors = []
        for lr in (0.1, 0.2, 0.3):
            net = torch.nn.Linear(4, 1)
            optimizer = torch.optim.SGD(net.parameters(), lr=lr)
            try:
                for epoch in range(10):
                    STEP
                    if lr == 0.1 and epoch == 2:
                        raise ValueError("too large")
                    if epoch == 5:
                        break
            except ValueError as error:
                errors.append(error)
    """
    first, *later = [row[0] for row in run_script(script(text), tmp_path)]
    assert later == ["FINISHED", "FINISHED"]
    assert first == ("FAILED" if IS_MONITORED else "FINISHED")


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


FOLDS = """
    try:
        for fold in range(5):
            net = torch.nn.Linear(4, 1)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for epoch in range(3):
                STEP
            if fold == 1:
                raise ValueError("no report")
    except ValueError:
        pass
"""


@PLACES
@pytest.mark.parametrize("text", [FOLDS, FOLDS.replace("except ValueError", "finally")], ids=["caught", "not caught"])
def test_an_exception_between_two_folds_fails_no_training(text: str, is_function: bool, tmp_path: Path):
    if "finally" in text:
        with pytest.raises(ValueError, match="no report"):
            run_script(script(text, is_function=is_function), tmp_path)
        with provml.open(tmp_path) as store:
            rows = ask(store, TRAININGS)
    else:
        rows = run_script(script(text, is_function=is_function), tmp_path)
    assert [row[0] for row in rows] == ["FINISHED", "FINISHED"]


@PLACES
def test_an_exception_in_the_loop_of_a_fold_fails_its_training(is_function: bool, tmp_path: Path):
    text = FOLDS.replace("if fold == 1:\n", "    if fold == 1 and epoch == 1:\n    ")
    rows = run_script(script(text, is_function=is_function), tmp_path)
    assert [row[0] for row in rows] == ["FINISHED", "FAILED"]
