"""Functions as steps: what a call used, had as parameters and produced, and that the function is what it was."""

from __future__ import annotations

import asyncio
import gc
import inspect
import pickle
import threading
import weakref
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from journals import told_in

import provml
from provml import event
from provml.content import Data
from provml.event import Begin, Done, Produced
from provml.recorder import Recorder
from provml.sections import Step


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("PROVML_RUN", "PROVML_HOME", "PROVML_DISABLED"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run() -> Iterator[Recorder]:
    with provml.record("flowers", strict=True, capture_environment=False) as made:
        yield made


def of(kind: type[Any], run: Recorder) -> list[Any]:
    paths = sorted(Path(".provml/runs", run.id).glob("*.jsonl"))
    return [what for path in paths for what in told_in(path) if isinstance(what, kind)]


def written(name: str, text: str = "1,2\n") -> Path:
    path = Path(name)
    path.write_text(text)
    return path


def test_a_function_is_a_step_with_its_data_its_parameters_and_what_it_returns(run: Recorder):
    @run.step
    def tile(source: Data, size: int, *, mode: str = "wrap") -> Path:
        return written("tiles.csv", Path(source.path).read_text() * size)

    raw = run.dataset(written("raw.csv"))
    made = tile(raw, 2)

    assert made == Path("tiles.csv")
    [begin] = of(Begin, run)
    assert (begin.name, begin.kind, begin.using) == ("tile", "step", [raw.ref])
    assert begin.values == {"size": 2, "mode": "wrap"}
    [produced] = of(Produced, run)
    [_, told] = of(event.Data, run)
    assert (produced.at, produced.ref, told.name, told.path) == ("tile", told.ref, "tiles.csv", "tiles.csv")
    assert of(Done, run)[0].status == "FINISHED"


def test_what_the_decorator_is_told_is_said_of_each_call(run: Recorder):
    @run.step(named="gray scale", kind="filter", by="alice", role="training", filter_name="gray-scale")
    def gray(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return x * 0.5

    gray(np.ones(3))
    gray(np.zeros(3))
    one, two = of(Begin, run)
    assert (one.name, one.kind, one.by, one.at, two.at) == (
        "gray scale",
        "filter",
        "alice",
        "gray-scale",
        "gray-scale-2",
    )
    assert one.values == {"filter_name": "gray-scale"}
    assert len({produced.ref for produced in of(Produced, run)}) == 2


def test_paths_and_arrays_are_used_and_produced_where_their_parameters_are_named(run: Recorder):
    @run.step(using=("source", "mask"), producing="target")
    def blur(source: str, mask: Any, target: str) -> int:
        return Path(target).write_text("b")

    assert blur(str(written("a.csv")), np.ones(4), "b.csv") == 1
    [begin] = of(Begin, run)
    names = {data.ref: data.name for data in of(event.Data, run)}
    assert [names[ref] for ref in begin.using] == ["a.csv", "mask"]
    assert [names[made.ref] for made in of(Produced, run)] == ["b.csv"]
    assert begin.values == {}


def test_lineage_goes_through_functions_by_the_content_of_their_files(run: Recorder):
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
            """SELECT ?name { ?made provlake:path "test.csv" ; (prov:wasGeneratedBy/prov:used)+ ?origin .
               ?origin provlake:path ?name } ORDER BY ?name"""
        ).rows
    assert [row[0] for row in rows] == ["clean.csv", "raw.csv"]


def linked(run: Recorder) -> dict[str, list[str]]:
    """The names of the data that each step used."""
    names = {data.ref: data.name for data in of(event.Data, run)}
    more = [(used.at, used.ref) for used in of(event.Used, run)]
    steps = {begin.at: begin.using for begin in of(Begin, run)}
    return {
        at: [names[ref] for ref in dict.fromkeys([*using, *(r for a, r in more if a == at)])]
        for at, using in steps.items()
    }


def test_what_one_step_writes_and_the_next_is_given_is_used_by_it(run: Recorder):
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
    assert [begin.values for begin in of(Begin, run)] == [
        {}, {"rows": 1, "filter_name": "first"}, {"learning_rate": 0.1}, {},
    ]  # fmt: skip
    assert [used.role for used in of(event.Used, run)] == ["raw", "training", "model"]
    run.finish()
    with provml.open() as store:
        assert store.validate(run.id)


def test_the_very_object_that_was_told_or_given_is_used(run: Recorder):
    class Table:
        """A frame, a tensor, a model: what has no content that can be read."""

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

    told = Table()
    run.dataset(told, name="told")
    show(fit(*halve(load())), told)
    fit(np.arange(6.0), Table())  # equal, but not what was told
    assert linked(run) == {"load": [], "halve": ["load"], "fit": ["halve", "halve"], "show": ["flowers", "told"],
                           "fit-2": []}  # fmt: skip
    names = {data.ref: (data.kind, data.name) for data in of(event.Data, run)}
    assert [(made.at, *names[made.ref]) for made in of(Produced, run)] == [
        ("load", "dataset", "load"), ("halve", "dataset", "halve"), ("halve", "dataset", "halve"),
        ("fit", "model", "flowers"),
    ]  # fmt: skip
    run.finish()
    with provml.open() as store:
        assert store.validate(run.id)


def test_data_inside_a_list_a_tuple_or_a_dictionary_is_used_and_the_rest_is_a_parameter(run: Recorder):
    x = np.ones(3)
    for source in (written("a.csv", "a"), written("b.csv", "b"), x):
        run.dataset(source, name="" if isinstance(source, Path) else "x")
    step = run.step(lambda paths, parts, options: None)
    step([Path("a.csv"), "c.csv"], (x, 3), {"source": "b.csv", "size": 4})
    step([Path("a.csv")], (x,), {"source": "b.csv"})
    assert list(linked(run).values()) == [["a.csv", "x", "b.csv"], ["a.csv", "x", "b.csv"]]
    assert [begin.values for begin in of(Begin, run)] == [
        {"paths": '["c.csv"]', "parts": "[3]", "options": '{"size": 4}'}, {},
    ]  # fmt: skip


def test_a_file_is_known_by_its_real_path_and_by_what_is_in_it_now(run: Recorder):
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
    using = [begin.using for begin in of(Begin, run)]
    new = of(event.Data, run)[1]
    assert using == [[raw.ref]] * 4 + [[new.ref], [raw.ref], []]
    assert (new.name, new.path) == ("raw.csv", "raw.csv")
    assert new.ref != raw.ref
    assert of(Begin, run)[-1].values == {"source": "raw.csv"}


def test_plain_values_are_parameters_also_where_a_step_gave_them(run: Recorder):
    Path("train").mkdir()
    written("train/a.csv")
    run.dataset("train")
    given = run.step(lambda: (1, True, None, "short", 2.5))()
    run.step(lambda count, yes, none, word, share, split: None)(*given, "train")
    assert not any(linked(run).values())
    assert of(Begin, run)[1].values == {"count": 1, "yes": True, "word": "short", "share": 2.5, "split": "train"}


def test_what_a_step_hands_on_as_it_was_is_not_produced_and_what_it_changed_is(run: Recorder):
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
    assert [made.at for made in of(Produced, run)] == ["double"]
    assert linked(run) == {"check": ["raw.csv"], "check-2": ["x"], "double": ["x"], "check-3": ["double"]}


def test_nothing_is_kept_alive_and_what_is_gone_is_never_mistaken(run: Recorder):
    load = run.step(lambda: np.arange(3.0))
    use = run.step(lambda x: None)
    gone = weakref.ref(load())
    gc.collect()
    assert gone() is None
    for number in range(50):  # an address is soon another's
        run.dataset(np.full(3, number), name="told")
        use(np.full(3, -1))
    assert not any(linked(run).values())


def test_what_is_said_with_using_or_producing_wins(run: Recorder):
    raw = run.dataset(written("raw.csv"), name="as it was told")
    run.dataset(written("out.csv", "before"))
    step = run.step(using="source", producing="target")(lambda source, target: Path(target).write_text("after"))
    step("raw.csv", "out.csv")
    assert of(Begin, run)[0].using == [raw.ref]
    assert [data.name for data in of(event.Data, run)] == ["as it was told", "out.csv", "raw.csv", "out.csv"]
    assert of(Begin, run)[0].values == {}


@pytest.mark.parametrize("kind", ["training", "validation", "evaluation"])
def test_numbers_by_name_that_a_stage_gives_back_are_its_measures(run: Recorder, kind: str):
    @run.step(kind=kind)
    def judge(rows: int) -> Any:
        return {"accuracy": np.float64(0.5), "rows": rows, "is_good": True, "of": "flowers", "each": [1, 2], 3: 4}

    @run.step(kind=kind)
    def both() -> Any:
        return written("raw.csv"), {"loss": 0.25}

    judge(7)
    both()
    assert [one.values for one in of(event.Measured, run)] == [{"accuracy": 0.5, "rows": 7}, {"loss": 0.25}]


def test_settings_that_a_training_gives_back_as_they_were_are_no_measures(run: Recorder):
    @run.step(kind="training")
    def train(settings: dict[str, float], results: dict[str, float]) -> Any:
        results["loss"], results["tries"] = 0.25, 2
        return settings, results

    train({"learning_rate": 0.1, "depth": 3}, {"tries": 1, "seen": 5})
    assert [one.values for one in of(event.Measured, run)] == [{"loss": 0.25, "tries": 2}]


def test_numbers_that_another_step_gives_back_are_no_measures(run: Recorder):
    @run.step
    def count() -> dict[str, int]:
        return {"rows": 7}

    assert count() == {"rows": 7}
    assert of(event.Measured, run) == []


def test_a_script_of_functions_alone_is_answered(run: Recorder):
    @run.step(kind="training")
    def train(data: Data, learning_rate: float) -> Path:
        return written("net.pt", "weights")

    @run.step(kind="evaluation")
    def judge(model: Path) -> dict[str, float]:
        return {"accuracy": 0.75}

    judge(train(run.dataset(written("raw.csv"), role="training"), 0.1))
    with provml.open() as store:
        assert [tuple(row)[1:] for row in store.ask("q4", model="flowers")] == [(0.1, 0.75)]


def test_an_exception_is_recorded_and_reaches_the_caller(run: Recorder):
    @run.step
    def broken(size: int) -> None:
        raise ZeroDivisionError("no tiles")

    with pytest.raises(ZeroDivisionError, match="no tiles"):
        broken(0)
    [done] = of(Done, run)
    assert (done.status, done.error) == ("FAILED", ["ZeroDivisionError", "no tiles"])


def test_a_wrong_call_raises_what_it_would_raise(run: Recorder):
    @run.step
    def one(size: int) -> int:
        return size

    with pytest.raises(TypeError, match="unexpected keyword argument 'sise'"):
        one(sise=3)  # type: ignore[call-arg]
    assert of(Done, run)[0].error[0] == "TypeError"


def test_a_generator_is_a_step_that_lasts_until_it_is_left(run: Recorder):
    @run.step
    def shards(count: int) -> Iterator[Path]:
        for number in range(count):
            yield written(f"shard-{number}", str(number))

    waiting = shards(3)
    assert of(Begin, run) == []  # nothing happened yet
    assert next(waiting) == Path("shard-0")
    assert of(Done, run) == []
    assert list(waiting) == [Path("shard-1"), Path("shard-2")]
    assert [data.name for data in of(event.Data, run)] == ["shard-0", "shard-1", "shard-2"]
    for _ in shards(3):
        break
    assert [done.status for done in of(Done, run)] == ["FINISHED", "FINISHED"]
    assert inspect.isgeneratorfunction(shards)


def test_what_is_sent_and_thrown_into_a_generator_reaches_it(run: Recorder):
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


def test_coroutines_and_asynchronous_generators_are_steps(run: Recorder):
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
    assert {begin.at for begin in of(Begin, run)} == {"load", "load-2", "late", "stream"}
    assert {done.at: done.status for done in of(Done, run)} == {
        "load": "FINISHED",
        "load-2": "FINISHED",
        "late": "FAILED",
        "stream": "FINISHED",
    }


def test_what_is_sent_and_thrown_into_an_asynchronous_generator_reaches_it(run: Recorder):
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
    assert [done.status for done in of(Done, run)] == ["FINISHED"]


def test_methods_are_steps_and_self_is_no_parameter(run: Recorder):
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
    assert [begin.values for begin in of(Begin, run)] == [{"count": 2}, {"limit": 5}, {"name": "s"}]


def test_each_call_of_a_recursion_is_a_step(run: Recorder):
    @run.step
    def halve(size: int) -> int:
        return size if size < 2 else halve(size // 2)

    assert halve(8) == 1
    assert [begin.values["size"] for begin in of(Begin, run)] == [8, 4, 2, 1]
    assert [done.at for done in of(Done, run)] == ["halve-4", "halve-3", "halve-2", "halve"]


def test_threads_have_steps_of_their_own(run: Recorder):
    @run.step
    def work(number: int) -> int:
        return number * 2

    given: list[int] = []
    threads = [threading.Thread(target=lambda n=n: given.append(work(n))) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(given) == [n * 2 for n in range(20)]
    assert len({begin.at for begin in of(Begin, run)}) == 20
    assert len(of(Done, run)) == 20


def test_arguments_that_are_not_plain_or_secret_are_left_out(run: Recorder):
    @run.step
    def fit(model: object, api_token: str, layers: list[int], text: str, many: list[int], none: None = None) -> None:
        pass

    fit(object(), "hush", [3, 2], "x" * 5000, list(range(5000)))
    assert of(Begin, run)[0].values == {"layers": "[3, 2]"}


def test_long_lists_are_not_looked_through_but_data_in_them_is_found(run: Recorder):
    class Rows(list[Any]):
        looked = 0

        def __iter__(self) -> Iterator[Any]:
            for one in super().__iter__():
                self.looked += 1
                yield one

    rows = Rows(range(5000))
    assert run.step(lambda rows: rows)(rows) is rows
    assert rows.looked < 10
    data = [run.dataset(None, name=f"part {number}") for number in range(1200)]
    run.step(lambda parts: None)(data)
    run.step(using="paths")(clean)([str(written(f"{number}.csv")) for number in range(1200)])
    assert [len(begin.using) for begin in of(Begin, run)] == [0, 1200, 1200]


def clean(paths: list[str]) -> None:
    """Do nothing with some files."""


def test_a_fault_of_capture_leaves_the_result_as_it_is(caplog: pytest.LogCaptureFixture):
    class Unreadable(np.ndarray[Any, Any]):
        def tobytes(self, *given: Any) -> bytes:
            raise MemoryError("too big")

    with provml.record("flowers", capture_environment=False) as run:
        result = np.ones(3).view(Unreadable)
        assert run.step(lambda: result)() is result
        assert run.faults == 1
    assert "too big" in caplog.text


def test_where_recording_is_off_the_function_is_just_called(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PROVML_DISABLED", "1")
    with provml.record("flowers") as run:
        assert run.step(lambda size: size + 1)(1) == 2
    assert not Path(".provml").exists()


def test_a_name_still_gives_a_step_to_use_in_a_with(run: Recorder):
    with run.step("tile", by="alice", size=3) as step:
        pass
    assert isinstance(step, Step)
    [begin] = of(Begin, run)
    assert (begin.name, begin.by, begin.values) == ("tile", "alice", {"size": 3})


def double(size: int) -> int:
    """Twice as much."""
    return size * 2


def test_a_recorded_function_keeps_its_name_its_doc_and_its_signature(run: Recorder):
    recorded = run.step(double)
    assert (recorded.__name__, recorded.__doc__) == ("double", "Twice as much.")
    assert str(inspect.signature(recorded)) == "(size: 'int') -> 'int'"
    assert pickle.loads(pickle.dumps(double)) is double


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"using": "sauce"}, "double has no parameter 'sauce'; it has size"),
        ({"kind": "trainning"}, "kind is one of training"),
    ],
)
def test_what_cannot_be_is_refused_at_the_decorator(run: Recorder, said: dict[str, Any], error: str):
    with pytest.raises(ValueError, match=error):
        run.step(**said)(double)


def test_what_is_no_function_is_refused(run: Recorder):
    with pytest.raises(TypeError, match="a name or a function, not 3"):
        run.step(3)  # type: ignore[type-var]


def test_a_training_is_a_stage_and_the_path_that_it_gives_is_the_model(run: Recorder):
    @run.step(kind="training", using="data")
    def learn(data: Path, learning_rate: float) -> Path:
        return written("net.pt", "weights")

    learn(written("train.csv"), 0.1)
    assert [(data.kind, data.name) for data in of(event.Data, run)] == [("dataset", "train.csv"), ("model", "flowers")]
    assert of(Begin, run)[0].kind == "training"


def test_a_secret_inside_an_argument_is_left_out(run: Recorder):
    @run.step
    def load(opts: dict[str, Any], more: dict[str, Any]) -> None:
        assert opts["password"] == "p"

    load({"password": "p", "rows": 3}, {"token": "t"})
    [begin] = of(Begin, run)
    assert begin.values == {"opts": '{"rows": 3}'}


def test_a_class_method_is_recorded_with_the_decorator_on_either_side(run: Recorder):
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
        def said(cls, rows: int) -> str:
            return f"{cls.__name__} {rows}"

    assert (Reader.outside(1), Reader().said(2), Reader.alone(3)) == ("Reader 1", "Reader 2", 3)
    assert [(begin.name, begin.values) for begin in of(Begin, run)] == [
        ("outside", {"rows": 1}), ("said", {"rows": 2}), ("alone", {"rows": 3}),
    ]  # fmt: skip
