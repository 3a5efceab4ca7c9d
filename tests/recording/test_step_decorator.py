"""`@run.step`: inputs, parameters and outputs of each call, and functions that behave as without it."""

from __future__ import annotations

import asyncio
import gc
import inspect
import pickle
import threading
import weakref
from collections.abc import AsyncIterator, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from journal_events import read_events

import provml
from provml.journal import events
from provml.journal.events import Begin, Done, Produced
from provml.recording.data import Data
from provml.recording.run import Run
from provml.recording.stages import Step

pytestmark = pytest.mark.usefixtures("isolated_home")


@pytest.fixture
def run() -> Iterator[Run]:
    with provml.record("flowers", strict=True, capture_environment=False) as run:
        yield run


def events_of(kind: type[Any], run: Run) -> list[Any]:
    paths = sorted(Path(".provml/runs", run.id).glob("*.jsonl"))
    return [event for path in paths for event in read_events(path) if isinstance(event, kind)]


def written(name: str, text: str = "1,2\n") -> Path:
    path = Path(name)
    path.write_text(text)
    return path


def test_a_call_is_a_step_with_inputs_parameters_and_output(run: Run):
    @run.step
    def tile(source: Data, size: int, *, mode: str = "wrap") -> Path:
        return written("tiles.csv", Path(source.path).read_text() * size)

    raw = run.dataset(written("raw.csv"))
    result = tile(raw, 2)

    assert result == Path("tiles.csv")
    [begin] = events_of(Begin, run)
    assert (begin.name, begin.kind, begin.using) == ("tile", "step", [raw.ref])
    assert begin.values == {"size": 2, "mode": "wrap"}
    [produced] = events_of(Produced, run)
    [_, output] = events_of(events.Data, run)
    assert (produced.location, produced.ref, output.name, output.path) == ("tile", output.ref, "tiles.csv", "tiles.csv")
    assert events_of(Done, run)[0].status == "FINISHED"


def test_decorator_options_apply_to_each_call(run: Run):
    @run.step(named="gray scale", kind="filter", by="alice", role="training", filter_name="gray-scale")
    def gray(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return x * 0.5

    gray(np.ones(3))
    gray(np.zeros(3))
    first, second = events_of(Begin, run)
    assert (first.name, first.kind, first.by, first.location, second.location) == (
        "gray scale",
        "filter",
        "alice",
        "gray-scale",
        "gray-scale-2",
    )
    assert first.values == {"filter_name": "gray-scale"}
    assert len({produced.ref for produced in events_of(Produced, run)}) == 2


def test_parameters_can_be_named_as_inputs_and_outputs(run: Run):
    @run.step(using=("source", "mask"), producing="target")
    def blur(source: str, mask: Any, target: str) -> int:
        return Path(target).write_text("b")

    assert blur(str(written("a.csv")), np.ones(4), "b.csv") == 1
    [begin] = events_of(Begin, run)
    names = {data.ref: data.name for data in events_of(events.Data, run)}
    assert [names[ref] for ref in begin.using] == ["a.csv", "mask"]
    assert [names[event.ref] for event in events_of(Produced, run)] == ["b.csv"]
    assert begin.values == {}


def test_functions_are_linked_by_the_content_of_their_files(run: Run):
    @run.step(using="source")
    def clean(source: Path) -> Path:
        return written("clean.csv", source.read_text().strip())

    @run.step(using="source", kind="split")
    def halve(source: Path) -> tuple[Path, Path]:
        return written("train.csv", "1"), written("test.csv", "2")

    halve(clean(written("raw.csv")))
    run.finish()
    with provml.open() as store:
        rows = store.query(
            """SELECT ?name { ?data provlake:path "test.csv" ; (prov:wasGeneratedBy/prov:used)+ ?origin .
               ?origin provlake:path ?name } ORDER BY ?name"""
        ).rows
    assert [row[0] for row in rows] == ["clean.csv", "raw.csv"]


def linked(run: Run) -> dict[str, list[str]]:
    """The names of the data that each step used."""
    names = {data.ref: data.name for data in events_of(events.Data, run)}
    more = [(used.location, used.ref) for used in events_of(events.Used, run)]
    steps = {begin.location: begin.using for begin in events_of(Begin, run)}
    return {
        at: [names[ref] for ref in dict.fromkeys([*using, *(r for a, r in more if a == at)])]
        for at, using in steps.items()
    }


def test_a_file_written_by_one_step_is_an_input_of_the_next(run: Run):
    @run.step(role="raw")
    def load() -> Path:
        return written("raw.csv", "1\n2\n")

    @run.step(kind="filter", filter_name="first")
    def first(source: Path, rows: int) -> str:
        written("first.csv", source.read_text()[: 2 * rows])
        return str(run.dataset("first.csv").path)

    @run.step(kind="training")
    def train(data: str, learning_rate: float = 0.1) -> Path:
        return written("net.pt", "weights")

    @run.step(kind="evaluation")
    def test(model: Path) -> None:
        pass

    test(train(first(load(), 1)))
    assert linked(run) == {"load": [], "first": ["raw.csv"], "train": ["first.csv"], "test": ["flowers"]}
    assert [begin.values for begin in events_of(Begin, run)] == [
        {}, {"rows": 1, "filter_name": "first"}, {"learning_rate": 0.1}, {},
    ]  # fmt: skip
    assert [used.role for used in events_of(events.Used, run)] == ["raw", "training", "model"]
    run.finish()
    with provml.open() as store:
        assert store.validate(run.id)


def test_registered_and_returned_objects_are_inputs(run: Run):
    class Table:
        """Like a data frame or a model: an object without content that can be hashed."""

    @run.step
    def load() -> np.ndarray[Any, Any]:
        return np.arange(12.0)

    @run.step
    def halve(x: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], Table]:
        return x[:6], Table()

    @run.step(kind="training")
    def fit(x: np.ndarray[Any, Any], table: Table) -> Table:
        return Table()

    @run.step
    def show(model: Table, like: Table) -> None:
        pass

    registered = Table()
    run.dataset(registered, name="registered")
    show(fit(*halve(load())), registered)
    fit(np.arange(6.0), Table())  # equal, but not registered
    assert linked(run) == {"load": [], "halve": ["load"], "fit": ["halve", "halve"], "show": ["flowers", "registered"],
                           "fit-2": []}  # fmt: skip
    names = {data.ref: (data.kind, data.name) for data in events_of(events.Data, run)}
    assert [(event.location, *names[event.ref]) for event in events_of(Produced, run)] == [
        ("load", "dataset", "load"), ("halve", "dataset", "halve"), ("halve", "dataset", "halve"),
        ("fit", "model", "flowers"),
    ]  # fmt: skip
    run.finish()
    with provml.open() as store:
        assert store.validate(run.id)


def test_data_inside_collections_is_an_input_and_the_rest_a_parameter(run: Run):
    x = np.ones(3)
    for source in (written("a.csv", "a"), written("b.csv", "b"), x):
        run.dataset(source, name="" if isinstance(source, Path) else "x")
    step = run.step(lambda paths, parts, options: None)
    step([Path("a.csv"), "c.csv"], (x, 3), {"source": "b.csv", "size": 4})
    step([Path("a.csv")], (x,), {"source": "b.csv"})
    assert list(linked(run).values()) == [["a.csv", "x", "b.csv"], ["a.csv", "x", "b.csv"]]
    assert [begin.values for begin in events_of(Begin, run)] == [
        {"paths": '["c.csv"]', "parts": "[3]", "options": '{"size": 4}'}, {},
    ]  # fmt: skip


def test_a_file_is_identified_by_real_path_and_current_content(run: Run):
    step = run.step(lambda source: None)
    raw = run.dataset(written("raw.csv", "old"), role="raw")
    Path("link.csv").symlink_to("raw.csv")
    for source in ("raw.csv", Path("raw.csv").absolute(), Path("link.csv"), "./raw.csv"):
        step(source)
    written("raw.csv", "new")
    step("raw.csv")
    written("raw.csv", "old")
    step("raw.csv")
    Path("raw.csv").unlink()
    step("raw.csv")
    using = [begin.using for begin in events_of(Begin, run)]
    new = events_of(events.Data, run)[1]
    assert using == [[raw.ref]] * 4 + [[new.ref], [raw.ref], []]
    assert (new.name, new.path) == ("raw.csv", "raw.csv")
    assert new.ref != raw.ref
    assert events_of(Begin, run)[-1].values == {"source": "raw.csv"}


def test_plain_values_returned_by_a_step_are_parameters(run: Run):
    Path("train").mkdir()
    written("train/a.csv")
    run.dataset("train")
    values = run.step(lambda: (1, True, None, "short", 2.5))()
    run.step(lambda count, yes, none, word, share, split: None)(*values, "train")
    assert not any(linked(run).values())
    assert events_of(Begin, run)[1].values == {"count": 1, "yes": True, "word": "short", "share": 2.5, "split": "train"}


def test_an_unchanged_input_is_not_an_output(run: Run):
    @run.step
    def check(x: Any) -> Any:
        return x

    @run.step
    def double(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        x *= 2
        return x

    x = np.ones(3)
    run.dataset(x, name="x")
    run.dataset(written("raw.csv"))
    check(Path("raw.csv"))
    check(double(check(x)))
    assert [event.location for event in events_of(Produced, run)] == ["double"]
    assert linked(run) == {"check": ["raw.csv"], "check-2": ["x"], "double": ["x"], "check-3": ["double"]}


def test_the_registry_keeps_no_object_alive(run: Run):
    load = run.step(lambda: np.arange(3.0))
    use = run.step(lambda x: None)
    gone = weakref.ref(load())
    gc.collect()
    assert gone() is None
    for number in range(50):  # an address is soon another's
        run.dataset(np.full(3, number), name="registered")
        use(np.full(3, -1))
    assert not any(linked(run).values())


def test_using_and_producing_have_priority(run: Run):
    raw = run.dataset(written("raw.csv"), name="raw data")
    run.dataset(written("out.csv", "before"))
    step = run.step(using="source", producing="target")(lambda source, target: Path(target).write_text("after"))
    step("raw.csv", "out.csv")
    assert events_of(Begin, run)[0].using == [raw.ref]
    assert [data.name for data in events_of(events.Data, run)] == ["raw data", "out.csv", "raw.csv", "out.csv"]
    assert events_of(Begin, run)[0].values == {}


@pytest.mark.parametrize("kind", ["training", "validation", "evaluation"])
def test_numbers_in_a_returned_dictionary_are_measures_of_a_stage(run: Run, kind: str):
    @run.step(kind=kind)
    def judge(rows: int) -> Any:
        numbers = {"accuracy": np.float64(0.5), "share": Fraction(1, 4), "rows": rows}
        return numbers | {"is_good": True, "of": "flowers", "each": [1, 2], 3: 4}

    @run.step(kind=kind)
    def both() -> Any:
        return written("raw.csv"), {"loss": 0.25}

    judge(7)
    both()
    assert [event.values for event in events_of(events.Measured, run)] == [
        {"accuracy": 0.5, "share": 0.25, "rows": 7},
        {"loss": 0.25},
    ]


def test_unchanged_settings_are_not_measures(run: Run):
    @run.step(kind="training")
    def train(settings: dict[str, float], results: dict[str, float]) -> Any:
        results["loss"], results["tries"] = 0.25, 2
        return settings, results

    train({"learning_rate": 0.1, "depth": 3}, {"tries": 1, "epoch": 5})
    assert [event.values for event in events_of(events.Measured, run)] == [{"loss": 0.25, "tries": 2}]


def test_numbers_returned_by_other_steps_are_not_measures(run: Run):
    @run.step
    def count() -> dict[str, int]:
        return {"rows": 7}

    assert count() == {"rows": 7}
    assert events_of(events.Measured, run) == []


def test_a_script_with_only_decorated_functions_answers_questions(run: Run):
    @run.step(kind="training")
    def train(data: Data, learning_rate: float) -> Path:
        return written("net.pt", "weights")

    @run.step(kind="evaluation")
    def judge(model: Path) -> dict[str, float]:
        return {"accuracy": 0.75}

    judge(train(run.dataset(written("raw.csv"), role="training"), 0.1))
    with provml.open() as store:
        assert [tuple(row)[1:] for row in store.ask("q4", model="flowers")] == [(0.1, 0.75)]


def test_an_exception_is_recorded_and_reaches_the_caller(run: Run):
    @run.step
    def broken(size: int) -> None:
        raise ZeroDivisionError("no tiles")

    with pytest.raises(ZeroDivisionError, match="no tiles"):
        broken(0)
    [done] = events_of(Done, run)
    assert (done.status, done.error) == ("FAILED", ["ZeroDivisionError", "no tiles"])


def test_a_wrong_call_raises_the_same_error(run: Run):
    @run.step
    def identity(size: int) -> int:
        return size

    with pytest.raises(TypeError, match="unexpected keyword argument 'sise'"):
        identity(sise=3)  # type: ignore[call-arg]
    assert events_of(Done, run)[0].error[0] == "TypeError"


def test_a_generator_is_a_step_until_it_ends(run: Run):
    @run.step
    def shards(count: int) -> Iterator[Path]:
        for number in range(count):
            yield written(f"shard-{number}", str(number))

    waiting = shards(3)
    assert events_of(Begin, run) == []  # nothing happened yet
    assert next(waiting) == Path("shard-0")
    assert events_of(Done, run) == []
    assert list(waiting) == [Path("shard-1"), Path("shard-2")]
    assert [data.name for data in events_of(events.Data, run)] == ["shard-0", "shard-1", "shard-2"]
    for _ in shards(3):
        break
    assert [done.status for done in events_of(Done, run)] == ["FINISHED", "FINISHED"]
    assert inspect.isgeneratorfunction(shards)


def test_send_and_throw_reach_a_generator(run: Run):
    @run.step
    def echo() -> Any:
        heard = []
        while len(heard) < 3:
            try:
                heard.append((yield len(heard)))
            except KeyError as error:
                heard.append(error.args[0])
        return heard

    def caller() -> Any:
        return (yield from echo())

    talk = caller()
    assert next(talk) == 0
    assert talk.send("a") == 1
    assert talk.throw(KeyError("b")) == 2
    with pytest.raises(StopIteration) as stop:
        talk.send("c")
    assert stop.value.value == ["a", "b", "c"]


def test_coroutines_and_asynchronous_generators_are_steps(run: Run):
    @run.step
    async def load(name: str) -> Path:
        await asyncio.sleep(0)
        return written(name)

    @run.step
    async def stream(count: int) -> AsyncIterator[int]:
        for number in range(count):
            heard = yield number
            assert heard is None

    @run.step
    async def late() -> None:
        raise TimeoutError("no answer")

    async def main() -> list[int]:
        await asyncio.gather(load("a"), load("b"))
        with pytest.raises(TimeoutError):
            await late()
        return [number async for number in stream(3)]

    assert asyncio.run(main()) == [0, 1, 2]
    assert inspect.iscoroutinefunction(load)
    assert {begin.location for begin in events_of(Begin, run)} == {"load", "load-2", "late", "stream"}
    assert {done.location: done.status for done in events_of(Done, run)} == {
        "load": "FINISHED",
        "load-2": "FINISHED",
        "late": "FAILED",
        "stream": "FINISHED",
    }


def test_send_and_throw_reach_an_asynchronous_generator(run: Run):
    heard: list[Any] = []

    @run.step
    async def echo() -> Any:
        while True:
            try:
                heard.append((yield len(heard)))
            except KeyError as error:
                heard.append(error.args[0])

    async def main() -> None:
        talk = echo()
        assert await anext(talk) == 0
        assert await talk.asend("a") == 1
        assert await talk.athrow(KeyError("b")) == 2
        await talk.aclose()

    asyncio.run(main())
    assert heard == ["a", "b"]
    assert [done.status for done in events_of(Done, run)] == ["FINISHED"]


def test_methods_are_steps_without_self_as_parameter(run: Run):
    class Loader:
        @run.step
        def load(self, count: int) -> int:
            return count + 1

        @run.step
        @staticmethod
        def check(limit: int) -> int:
            return limit

        @classmethod
        @run.step
        def make(cls, name: str) -> str:
            return cls.__name__ + name

    assert Loader().load(2) == 3
    assert Loader.check(5) == 5
    assert Loader().make("s") == "Loaders"
    assert [begin.values for begin in events_of(Begin, run)] == [{"count": 2}, {"limit": 5}, {"name": "s"}]


def test_each_call_of_a_recursion_is_a_step(run: Run):
    @run.step
    def halve(size: int) -> int:
        return size if size < 2 else halve(size // 2)

    assert halve(8) == 1
    assert [begin.values["size"] for begin in events_of(Begin, run)] == [8, 4, 2, 1]
    assert [done.location for done in events_of(Done, run)] == ["halve-4", "halve-3", "halve-2", "halve"]


def test_each_thread_has_its_own_steps(run: Run):
    @run.step
    def work(number: int) -> int:
        return number * 2

    results: list[int] = []
    threads = [threading.Thread(target=lambda n=n: results.append(work(n))) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [n * 2 for n in range(20)]
    assert len({begin.location for begin in events_of(Begin, run)}) == 20
    assert len(events_of(Done, run)) == 20


def test_complex_and_secret_arguments_are_left_out(run: Run):
    @run.step
    def fit(model: object, api_token: str, layers: list[int], text: str, many: list[int], none: None = None) -> None:
        pass

    fit(object(), "hush", [3, 2], "x" * 5000, list(range(5000)))
    assert events_of(Begin, run)[0].values == {"layers": "[3, 2]"}


def test_long_lists_are_searched_only_if_they_begin_with_data(run: Run):
    class Rows(list[Any]):
        looked = 0

        def __iter__(self) -> Iterator[Any]:
            for item in super().__iter__():
                self.looked += 1
                yield item

    rows = Rows(range(5000))
    assert run.step(lambda rows: rows)(rows) is rows
    assert rows.looked < 10
    data = [run.dataset(None, name=f"part {number}") for number in range(1200)]
    run.step(lambda parts: None)(data)
    run.step(using="paths")(clean)([str(written(f"{number}.csv")) for number in range(1200)])
    assert [len(begin.using) for begin in events_of(Begin, run)] == [0, 1200, 1200]


def clean(paths: list[str]) -> None:
    """Do nothing with some files."""


def test_a_capture_error_does_not_change_the_result(caplog: pytest.LogCaptureFixture):
    class Unreadable(np.ndarray[Any, Any]):
        def tobytes(self, *args: Any) -> bytes:
            raise MemoryError("too big")

    with provml.record("flowers", capture_environment=False) as run:
        result = np.ones(3).view(Unreadable)
        assert run.step(lambda: result)() is result
        assert run.capture_errors == 1
    assert "too big" in caplog.text


def test_a_disabled_run_only_calls_the_function(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PROVML_DISABLED", "1")
    with provml.record("flowers") as run:
        assert run.step(lambda size: size + 1)(1) == 2
    assert not Path(".provml").exists()


def test_step_with_a_name_is_a_context_manager(run: Run):
    with run.step("tile", by="alice", size=3) as step:
        pass
    assert isinstance(step, Step)
    [begin] = events_of(Begin, run)
    assert (begin.name, begin.by, begin.values) == ("tile", "alice", {"size": 3})


def double(size: int) -> int:
    """Twice as much."""
    return size * 2


def test_a_decorated_function_keeps_name_docstring_and_signature(run: Run):
    recorded = run.step(double)
    assert (recorded.__name__, recorded.__doc__) == ("double", "Twice as much.")
    assert str(inspect.signature(recorded)) == "(size: 'int') -> 'int'"
    assert pickle.loads(pickle.dumps(double)) is double


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"using": "sauce"}, "double has no parameter 'sauce'. Parameters: size"),
        ({"kind": "trainning"}, "kind must be one of training"),
    ],
)
def test_invalid_options_are_refused_by_the_decorator(run: Run, options: dict[str, Any], error: str):
    with pytest.raises(ValueError, match=error):
        run.step(**options)(double)


def test_only_functions_can_be_decorated(run: Run):
    with pytest.raises(TypeError, match="takes the name of a step or a function, not 3"):
        run.step(3)  # type: ignore[type-var]


def test_a_training_function_is_a_stage_and_returns_the_model(run: Run):
    @run.step(kind="training", using="data")
    def learn(data: Path, learning_rate: float) -> Path:
        return written("net.pt", "weights")

    learn(written("train.csv"), 0.1)
    assert [(data.kind, data.name) for data in events_of(events.Data, run)] == [
        ("dataset", "train.csv"),
        ("model", "flowers"),
    ]
    assert events_of(Begin, run)[0].kind == "training"


def test_a_secret_inside_an_argument_is_left_out(run: Run):
    @run.step
    def load(opts: dict[str, Any], more: dict[str, Any]) -> None:
        assert opts["password"] == "p"

    load({"password": "p", "rows": 3}, {"token": "t"})
    [begin] = events_of(Begin, run)
    assert begin.values == {"opts": '{"rows": 3}'}


def test_a_class_method_can_be_decorated_on_either_side(run: Run):
    class Reader:
        @run.step
        @classmethod
        def outside(cls, rows: int) -> str:
            return f"{cls.__name__} {rows}"

        @run.step
        @staticmethod
        def alone(rows: int) -> int:
            return rows

        @run.step(by="alice")
        @classmethod
        def inside(cls, rows: int) -> str:
            return f"{cls.__name__} {rows}"

    assert (Reader.outside(1), Reader().inside(2), Reader.alone(3)) == ("Reader 1", "Reader 2", 3)
    assert [(begin.name, begin.values) for begin in events_of(Begin, run)] == [
        ("outside", {"rows": 1}), ("inside", {"rows": 2}), ("alone", {"rows": 3}),
    ]  # fmt: skip
