"""The questions of the catalog have true answers: the papers' tables, plain Python over the events, golden files."""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from world import alexnet, seismic
from world.asking import CATALOG, Row, World
from world.cases import ALEXNET, RUN, SEISMIC
from world.journal import Tale, sha256
from world.reckoning import Reckoning, as_text

from provml.answer import Answer
from provml.content import Data
from provml.recorder import Recorder, record

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"
DOMAIN = HERE / "world" / "domain.ttl"
PLACES: dict[str, tuple[str | None, str | None]] = {
    f"{seismic.KG}NetherlandsF3": ("North Sea", "F3"),
    f"{seismic.KG}Penobscot3D": ("Scotian", "Penobscot"),
    f"{seismic.KG}Parihaka3D": ("Taranaki", None),
}


@pytest.fixture(scope="session")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> World:
    home = tmp_path_factory.mktemp("trainings")
    alexnet.write(home)
    return World(home)


@pytest.fixture(scope="session")
def cycle(tmp_path_factory: pytest.TempPathFactory) -> World:
    home = tmp_path_factory.mktemp("cycle")
    seismic.life_cycle().write(home)
    return World(home, DOMAIN)


def run(name: str) -> str:
    return f"{RUN}{name}"


class near(list[Row]):  # noqa: N801  # it reads like pytest.approx
    """Rows that are equal where numbers agree in nine digits, also where they are written as text."""

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, list)
        return [tuple(map(as_text, row)) for row in self] == [tuple(map(as_text, row)) for row in other]

    __hash__ = None  # type: ignore[assignment]


# ---- the papers' tables, as they are printed

TABLES: dict[str, tuple[str, dict[str, Any], list[str], list[Row]]] = {
    "seed 000, Table 3": (
        "q3",
        {"model": "alexnet", "run": run("ten")},
        ["epoch", "seconds", "value"],
        [
            (1, 22.075, 3.484),
            (2, 20.560, 2.870),
            (3, 19.996, 2.542),
            (4, 20.478, 2.188),
            (5, 20.378, 2.015),
            (6, 20.006, 1.784),
            (7, 20.486, 1.600),
            (8, 20.238, 1.466),
            (9, 20.395, 1.246),
            (10, 20.318, 0.977),
        ],
    ),
    "seed 000, Table 4": (
        "q6",
        {"model": "alexnet"},
        ["epoch", "new", "technique"],
        [(10, 0.001, "LRS"), (30, 0.00025, "LRS")],
    ),
    "seed 000, Table 5": (
        "q8",
        {"model": "alexnet"},
        ["filter", "value", "epochs"],
        [("none", 0.59, 100), ("Gray-scale", 0.37, 100)],
    ),
    "seed 001, Table 1.1": (
        "h1",
        {"model": "alice"},
        ["epoch", "value", "seconds"],
        [(1, 0.903, 102.86), (2, 0.916, 107.59), (3, 0.920, 106.22), (4, 0.922, 107.72), (5, 0.924, 101.20)],
    ),
    "seed 001, Table 3.1": (
        "h2",
        {"model": "example", "descending": False, "first": 5},
        ["epoch", "seconds", "value"],
        [(20, 106.55, 0.50), (19, 110.92, 0.53), (18, 113.86, 0.66), (17, 100.06, 0.71), (16, 109.21, 0.73)],
    ),
    "seed 001, Table 4.1": (
        "h3",
        {"model": "alexnet-20", "first": 10},
        ["epoch", "seconds"],
        [
            (1, 14.005),
            (2, 11.458),
            (3, 10.647),
            (4, 10.548),
            (5, 10.720),
            (6, 12.779),
            (7, 10.394),
            (8, 10.619),
            (9, 10.695),
            (10, 10.572),
        ],
    ),
    "seed 001, Table 4.2": ("h4", {"model": "alexnet-20"}, ["epoch", "seconds", "value"], [(20, 10.889, 0.1954)]),
    "seed 001, Table 4.3": ("h5", {"model": "alexnet-20"}, ["epoch", "setting", "value"], [(20, 0.00025, 0.9402299)]),
    "seed 001, Table 4.4": (
        "h6",
        {"model": "alexnet-20"},
        ["number", "new", "epoch"],
        [(1, 0.0005, 10), (2, 0.00025, 20)],
    ),
    "seed 001, Table 4.5": (
        "h3",
        {"model": "densed", "run": run("densed-20"), "first": 5},
        ["epoch", "seconds"],
        [(1, 48.398), (2, 14.896), (3, 15.332), (4, 15.413), (5, 14.885)],
    ),
    "seed 001, Table 4.6": (
        "h4",
        {"model": "densed", "run": run("densed-20")},
        ["epoch", "seconds", "value"],
        [(20, 15.103, 0.004)],
    ),
    "seed 001, Table 4.8": (
        "h7",
        {"model": "densed", "k": 32, "l": 4, "last": 1},
        ["epoch", "value"],
        [(200, 0.0184)],
    ),
    "seed 001, Table 4.9": (
        "h7",
        {"model": "densed", "k": 32, "l": 8},
        ["epoch", "value"],
        [
            (1, 2.168),
            (2, 0.268),
            (3, 0.136),
            (4, 0.115),
            (5, 0.108),
            (6, 0.106),
            (7, 0.105),
            (8, 0.105),
            (9, 0.105),
            (10, 0.104),
        ],
    ),
    "seed 001, Table 4.10": (
        "h8",
        {"model": "densed", "learning_rate": 0.001, "k": 24, "l": 4},
        ["epoch", "value", "layers"],
        [(200, 0.012, 64)],
    ),
}
TABLE_4_7 = [
    (1, 0.431),
    (2, 0.079),
    (3, 0.053),
    (4, 0.047),
    (5, 0.045),
    (6, 0.045),
    (7, 0.044),
    (8, 0.044),
    (9, 0.044),
    (10, 0.043),
]


@pytest.mark.parametrize("table", TABLES)
def test_asking_gives_the_table_of_the_paper(trainings: World, table: str):
    question, values, columns, printed = TABLES[table]
    assert table.split(", ")[0] in CATALOG[question].about["source"]
    assert trainings.rows(question, *columns, **values) == near(printed)


def test_asking_again_while_the_training_goes_on_gives_the_next_table(tmp_path: Path):
    losses = alexnet.filled([loss for _, loss in TABLE_4_7], 200, 0.0184)
    whole = alexnet.densed("k32-l4", 1, 32, 4, losses)
    begun = alexnet.densed("k32-l4", 1, 32, 4, losses[:10], finished=False)
    path = begun.write(tmp_path)
    world = World(tmp_path)
    assert world.rows("h7", "epoch", "value", model="densed", k=32, l=4) == near(TABLE_4_7)
    before = path.read_bytes()
    whole.write(tmp_path)
    assert path.read_bytes().startswith(before)
    world.sync()
    last = world.rows("h7", "epoch", "value", model="densed", k=32, l=4, last=1)
    assert last == near([(200, 0.0184)])


# ---- golden answers


def test_every_question_is_asked_with_and_without_what_may_be_left_out():
    asked = ALEXNET | SEISMIC
    for name, query in CATALOG.items():
        cases = [values for case, values in asked.items() if case.partition("-")[0] == name]
        free = {key for key, one in query.params.items() if not one.required}
        assert any(not free & values.keys() for values in cases), f"{name} is not asked without its optional parameters"
        assert free <= {key for values in cases for key in values}, f"{name} is not asked with all its parameters"
    assert {case.partition("-")[0] for case in asked} <= set(CATALOG)
    assert {path.stem for path in GOLDEN.iterdir()} == set(asked), "golden files and cases differ"


MAY_TELL_NOTHING: dict[tuple[str, str], str] = {}
"""A case, a parameter that is given in it, and why the answer may be the same without; there is none so far."""


@pytest.mark.parametrize("case", [*ALEXNET, *SEISMIC])
def test_a_value_that_is_given_instead_of_the_default_changes_the_answer(trainings: World, cycle: World, case: str):
    name = case.partition("-")[0]
    world, values = (trainings, ALEXNET[case]) if case in ALEXNET else (cycle, SEISMIC[case])
    answer = world.rows(name, **values)
    for key in values:
        if CATALOG[name].params[key].default is not None and (case, key) not in MAY_TELL_NOTHING:
            without = world.rows(name, **{one: value for one, value in values.items() if one != key})
            assert without != answer, f"{name} gives the same, whether {key} is {values[key]!r} or left out"


@pytest.mark.parametrize("case", list(ALEXNET))
def test_the_trainings_give_the_golden_answer(trainings: World, case: str, update_golden: bool):
    compare(trainings, case, ALEXNET[case], update_golden)


@pytest.mark.parametrize("case", list(SEISMIC))
def test_the_life_cycle_gives_the_golden_answer(cycle: World, case: str, update_golden: bool):
    compare(cycle, case, SEISMIC[case], update_golden)


def compare(world: World, case: str, values: dict[str, Any], update: bool) -> None:
    columns, rows = world.ask(case.partition("-")[0], **values)
    given = Answer(columns, rows).to_csv()
    path = GOLDEN / f"{case}.csv"
    if update:
        path.write_text(given, encoding="utf-8")
    assert rows, "a golden answer without rows tells nothing"
    assert list(csv.reader(io.StringIO(given))) == near(list(csv.reader(io.StringIO(path.read_text(encoding="utf-8")))))


# ---- the life cycle, reckoned in plain Python


def reckoned(tales: list[Tale]) -> Reckoning:
    return Reckoning({tale.run: tale.events for tale in tales})


def alike(asked: list[Row], counted: list[Row]) -> None:
    """The same rows, whatever their order; floats as far as they can agree."""
    left, right = (Counter(tuple(map(as_cell, row)) for row in rows) for rows in (asked, counted))
    assert left == right


def as_cell(value: Any) -> Any:
    if isinstance(value, frozenset) or value is None:
        return value
    if isinstance(value, float):
        return as_text(value)
    return as_text(value) if isinstance(value, int) else str(value)


def paired(row: Row) -> Row:
    """A row of l7 with its lists as sets of pairs."""
    split = ([pair.partition("=") for pair in cell.split(", ") if pair] for cell in row[4:8])
    return (*row[:4], *(frozenset((name, as_text(value)) for name, _, value in pairs) for pairs in split), row[8])


def agree(world: World, tales: list[Tale]) -> None:
    """Ask l1 to l7 of everything, and compare with what the events tell."""
    known = reckoned(tales)
    for name, ref, _, _ in known.models:
        model = f"{RUN}{name}/data/{ref}"
        alike(world.rows("l1", model=model), known.l1(name, ref, PLACES))
        alike(world.rows("l2", model=model), known.l2(name, ref))
    for ref in sorted({ref for _, ref in known.data if ref.startswith("sha256:")}):
        alike(world.rows("l3", dataset=f"urn:{ref}"), known.l3(ref))
        alike(world.rows("l4", dataset=f"urn:{ref}"), known.l4(ref))
    for low, high in ((0, 1000), (100, 200), (100, 300), (150, 160)):
        slices = {"from": low, "to": high}
        alike(world.rows("l5", **slices), known.l5(low, high))
        alike(world.rows("l6", **slices), known.l6(low, high, PLACES))
        for measure, sign in (("loss", 1), ("accuracy", -1), ("drift", -1)):  # nobody tells what drift is better at
            rows = [paired(row) for row in world.rows("l7", **slices, measure=measure)]
            alike(rows, known.l7(low, high, measure))
            places = [(row[3] is None, 0.0 if row[3] is None else sign * row[3]) for row in rows]
            assert places == sorted(places), "the best come first, and those without batches last"


def test_the_questions_about_the_life_cycle_agree_with_plain_python(cycle: World):
    agree(cycle, seismic.life_cycle().tales)


@st.composite
def cycles(draw: st.DrawFn) -> seismic.Seismic:
    world = seismic.Seismic()
    known = st.sampled_from(["NetherlandsF3", "Penobscot3D", "Parihaka3D", ""])
    surveys = draw(st.lists(known, min_size=1, max_size=2))
    for number, survey in enumerate(surveys):
        where = {"latitude": float(number), "longitude": 0.5 * number}
        world.curation(f"c{number}", number, f"raw{number}.sgy", survey, slices=100 + number, **where)
    names = []
    for number in range(draw(st.integers(1, 3))):
        low = draw(st.sampled_from([0, 100, 150]))
        source = f"raw{draw(st.integers(0, len(surveys) - 1))}.sgy"
        name = draw(st.sampled_from([f"p{number}", "same"]))
        slices = (low, low + draw(st.sampled_from([10, 100])))
        world.preparation(f"p{number}", 10 + number, source, name, slices=slices, tile=64, noise=0.25)
        names.append(name)
    loss = st.integers(1, 8).map(lambda n: n / 8) | st.sampled_from([1, -1, math.inf, math.nan])
    for number in range(draw(st.integers(1, 3))):
        sets = draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
        world.learning(
            f"l{number}",
            20 + number,
            [f"{name}-train.h5" for name in sets],
            losses=draw(st.lists(st.lists(loss, min_size=1, max_size=2), min_size=1, max_size=2)),
            validation=draw(st.sampled_from(["", f"{sets[0]}-validation.h5"])),
            learning_rate=draw(st.sampled_from([0.1, 0.01])),
            adapted=draw(st.sampled_from([None, {1: 0.001}])),
            models=draw(st.booleans()),
            evaluated=draw(st.booleans()),
            ends=draw(st.sampled_from(["finished", "failed", "running", "lost"])),
        )
    return world


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(world=cycles())
def test_they_agree_on_any_life_cycle(tmp_path_factory: pytest.TempPathFactory, world: seismic.Seismic):
    home = tmp_path_factory.mktemp("any")
    world.write(home)
    agree(World(home, DOMAIN), world.tales)


def test_data_that_is_made_again_after_its_use_has_both_origins(tmp_path: Path):
    world = seismic.Seismic()
    world.curation("c", 0, "f3.sgy", "NetherlandsF3", slices=951, latitude=54.8, longitude=4.75)
    tale = Tale("again", "salt", seismic.MAY + 7200.0, model="salt")
    world.tales.append(tale)
    source = tale.data("f3.sgy.h5")
    train = tale.data("again-train.h5")
    models = []
    for number in (1, 2):
        training = tale.begin("training", using=[train], learning_rate=0.1)
        tale.epoch(training, 1, 2.0, loss=1.0 / number)
        models.append(tale.produced(training, tale.data("salt", f"weights {number}", kind="model")))
        tale.end(training)
        world.prepare(tale, source, "again", slices=(1, 2), tile=8, noise=0.5)
    tale.finish()
    world.write(tmp_path)
    asked = World(tmp_path, DOMAIN)
    for model in models:
        rows = asked.rows("l1", "file", "slices", "field", model=f"{RUN}again/data/{model}")
        assert rows == [("raw/f3.sgy", 951, "F3")]
    ref = f"urn:sha256:{sha256('again-train.h5')}"
    assert len({row[0] for row in asked.rows("b4", "user", sha256=sha256("again-train.h5"))}) == 2
    assert {row[0] for row in asked.rows("l3", "training", dataset=ref)} == {f"{RUN}again/training-2"}
    assert len(asked.rows("b5", dataset=f"urn:sha256:{sha256('f3.sgy')}")) == 2


# ---- the paper's listings


def parts(text: str) -> dict[str, int]:
    """How many clauses each part of a listing has."""
    body = text[text.index("WHERE {") : text.rindex("}")]
    found = re.split(r"\n  # (.*)\n", body)[1:]
    named = zip(found[::2], found[1::2], strict=True)
    return {name: len(re.findall(r"\s[;.]\s", f"{clauses}\n")) for name, clauses in named}


def test_the_listings_of_the_paper_give_the_same_answer_and_have_as_many_clauses_as_it_counts(cycle: World):
    first, second = ((HERE / "world" / f"listing-{number}.rq").read_text() for number in (1, 2))
    names = ["Training stage", "Epoch iteration", "Model hyperparameters", "Model", "Model evaluation"]
    assert parts(first) == dict(zip(names, [1, 2, 6, 2, 3], strict=True))
    assert parts(second) == dict(zip(names, [4, 5, 7, 5, 6], strict=True))
    one, other = (sorted(cycle.query(text)[1], key=str) for text in (first, second))
    assert one == other
    assert len(one) > 20


# ---- what the recorder writes


def test_what_the_recorder_writes_can_be_asked(tmp_path: Path):
    for name in ("f3.sgy", "train.h5", "validation.h5", "model.pt"):
        (tmp_path / name).write_text(name)
    with record("salt", home=tmp_path / "home", strict=True, by="trainer", capture_environment=False) as recorder:
        raw = recorder.dataset(tmp_path / "f3.sgy", role="raw", about=f"{seismic.KG}NetherlandsF3", slices=951)
        with recorder.preparation("tiles", using=raw, tile_size=64, first_slice=100, last_slice=200) as step:
            train = step.produced(tmp_path / "train.h5")
            held_out = step.produced(tmp_path / "validation.h5", role="validation")
        with recorder.training(using=[train], learning_rate=0.1) as training:
            for epoch in training.epochs(2):
                for batch in epoch.batches(range(2)):
                    batch.measured(loss=1.0 / (epoch.index + batch.index))
                epoch.measured(loss=1.0 / epoch.index)
                with epoch.validation(using=[held_out], threshold=0.5) as twin:
                    twin.measured(loss=2.0 / epoch.index)
                if epoch.index == 1:
                    training.adapted(learning_rate=0.05, technique="step decay")
            model = training.produced(tmp_path / "model.pt")
        with recorder.evaluation(of=model) as test:
            test.measured(accuracy=0.75)
    world = World(tmp_path / "home", DOMAIN)
    iri = f"{RUN}{recorder.id}/data/{model.ref}"
    columns = ("latitude", "basin", "field", "slices")
    assert world.rows("l1", *columns, model=iri) == [(None, "North Sea", "F3", 951)]
    prepared = [("first_slice", 100), ("last_slice", 200), ("tile_size", 64)]
    assert world.rows("l2", "parameter", "value", model=iri) == prepared
    best = [
        (2, "evaluation", "accuracy", 0.75),
        (2, "hyperparameter", "learning_rate", 0.05),
        (2, "training", "loss", 0.5),
        (2, "validation", "loss", 1.0),
    ]
    assert world.rows("l3", "epoch", "kind", "name", "value", dataset=f"urn:{train.ref}") == best
    assert world.rows("l4", "epoch", "batches", dataset=f"urn:{train.ref}") == [(1, 2), (2, 2)]
    slices = {"from": 100, "to": 200}
    assert world.rows("l5", "epoch", "measure", "value", **slices) == [(1, "loss", 1.0), (2, "loss", 0.5)]
    assert world.rows("l6", "slices", "basin", "field", **slices) == [(951, "North Sea", "F3")]
    measured = ("epoch", "hyperparameters", "measures", "validation_hyperparameters", "validation_measures")
    assert world.rows("l7", *measured, **slices) == [
        (2, "learning_rate=0.05", "loss=0.5", "threshold=0.5", "loss=1"),
        (1, "learning_rate=0.1", "loss=1", "threshold=0.5", "loss=2"),
    ]
    assert world.rows("q4", "initial", "value", model="salt") == [(0.1, 0.75)]
    assert world.rows("h5", "epoch", "setting", model="salt", measure="loss") == [(2, 0.05)]
    assert world.rows("h6", "number", "epoch", "new", "technique", model="salt") == [(1, 1, 0.05, "step decay")]


def test_a_value_that_is_not_a_number_is_never_the_best(tmp_path: Path):
    tale = alexnet.curve(
        "nan", 1, "m", seconds=[1.0] * 3, losses=[float("nan"), 0.5, 0.7], accuracies=[float("nan"), 0.2, 0.3]
    )
    tale.write(tmp_path)
    world = World(tmp_path)
    assert world.rows("h4", "epoch", "value", model="m") == [(2, 0.5)]
    assert world.rows("h5", "epoch", "value", model="m") == [(3, 0.3)]
    assert math.isnan(world.rows("q1", "value", model="m", epoch=1)[0][0])


def test_an_endless_batch_is_told_and_comes_before_none(tmp_path: Path):
    for count, numbers in enumerate(([math.inf], [math.nan], [-math.inf, 1], [], [0.5, math.nan], [math.inf, 2]), 1):
        tale = Tale(f"r{count}", "salt", seismic.MAY + count * seismic.HOUR, model="salt")
        data = tale.data("train.h5")
        tale.step("preparation", "tiles", using=[], makes=data, first_slice=1, last_slice=2)
        training = tale.begin("training", using=[data])
        epoch = tale.section(training, count)
        for number, value in enumerate(numbers, 1):
            tale.batch(epoch, number, 1.0, loss=value, score=value)
        tale.end(epoch)
        tale.write(tmp_path)
    world = World(tmp_path)
    slices = {"from": 1, "to": 2}
    least = [(3, -math.inf), (5, 0.5), (6, 2.0), (1, math.inf), (2, None), (4, None)]
    assert world.rows("l7", "epoch", "least", **slices) == least
    greatest = [(1, math.inf), (6, math.inf), (3, 1.0), (5, 0.5), (2, None), (4, None)]
    assert world.rows("l7", "epoch", "least", **slices, measure="score") == greatest


def test_an_infinite_hyperparameter_is_near_to_itself_only(tmp_path: Path):
    infinite, huge = float("inf"), 1e308
    given = {"one": 1, "infinite": infinite, "below": -infinite, "huge": huge, "none": float("nan")}
    for day, (name, value) in enumerate(given.items()):
        tale = Tale(name, "e", 1e9 + day, model="net")
        training = tale.begin("training", K=value, L=4, learning_rate=value)
        tale.epoch(training, 1, 1.0, loss=0.5)
        tale.write(tmp_path)
    world = World(tmp_path)
    asked = {1.0: ["one"], 1.0000001: ["one"], 32.0: [], infinite: ["infinite"], -infinite: ["below"]}
    for value, names in {**asked, huge: ["huge"], 1.7 * huge: [], float("nan"): []}.items():
        found = [(f"{RUN}{name}/training",) for name in names]
        assert world.rows("h7", "training", model="net", k=value, l=4) == found
        assert world.rows("h8", "training", model="net", k=value, l=4, learning_rate=value) == found
    for value, names in {**asked, 1.0000001: []}.items():
        found = [(f"{RUN}{name}/training",) for name in names]
        assert world.rows("b7", "training", hyperparameter="K", least=value, most=value) == found


def test_whole_and_broken_numbers_tie(tmp_path: Path):
    tale = Tale("ties", "ties", 1e9, model="m")
    data = tale.data("d.h5")
    training = tale.begin("training", using=[data], learning_rate=0.1, k=1, l=2)
    for index, (loss, accuracy) in enumerate([(1, 0.5), (1.0, 1), (2, 1.0), (1, 0.25)], 1):
        tale.epoch(training, index, 1.0, loss=loss, accuracy=accuracy)
    tale.write(tmp_path)
    world = World(tmp_path)
    least, most = [(1, 1), (2, 1), (4, 1)], [(2, 1), (3, 1)]
    given = {"model": "m", "learning_rate": 0.1, "k": 1, "l": 2}
    for measure, rows in (("loss", least), ("accuracy", most)):
        for question in ("h4", "h5"):
            assert world.rows(question, "epoch", "value", model="m", measure=measure) == rows, question
        assert world.rows("h8", "epoch", "value", **given, measure=measure) == rows
        found = world.rows("l3", "epoch", "name", "value", dataset=f"urn:{data}", measure=measure)
        assert [(epoch, value) for epoch, name, value in found if name == measure] == rows


@pytest.mark.parametrize("question", ["h4", "h5"])
def test_the_best_of_a_measure_is_what_its_direction_says(trainings: World, question: str):
    asked = {"model": "alexnet-20", "run": run("twenty")}
    assert trainings.rows(question, "epoch", "value", **asked, measure="accuracy") == near([(20, 0.9402299)])
    assert trainings.rows(question, "epoch", "value", **asked, measure="loss") == near([(20, 0.1954)])


def test_two_runs_differ_in_their_last_measures_adaptations_and_what_one_does_not_have(tmp_path: Path):
    for name, last, changed in (("x", 0.5, {}), ("y", 0.25, {1: 0.05, 10: 0.01})):
        tale = Tale(name, "e", 1e9, model="m")
        training = tale.begin("training", learning_rate=0.1, **({} if changed else {"note": ""}))
        twin = tale.begin("validation")
        for index in range(1, 12):
            at = tale.epoch(training, index, 1.0, loss=1.0 if index < 11 else last, **({"lag": 3} if index < 9 else {}))
            tale.measured(tale.section(twin, index, during=at), loss=2 * last, top=1.0)
            if index in changed:
                tale.adapted(at, technique="decay", learning_rate=changed[index])
        tale.measured(training, best=last)
        tale.write(tmp_path)
    world = World(tmp_path)
    assert world.rows("b6", one=run("x"), other=run("y")) == [
        ("adaptation", "learning_rate", None, "0.05 at epoch 1 by decay, 0.01 at epoch 10 by decay"),
        ("hyperparameter", "note", '""', None),
        ("measure of the last epoch", "loss", "0.5", "0.25"),
        ("measure of the last validation", "loss", "1", "0.5"),
        ("measure of the training", "best", "0.5", "0.25"),
    ]
    assert world.rows("b6", one=run("x"), other=run("x")) == []


def test_environments_differ_in_what_only_some_have(tmp_path: Path):
    said: list[dict[str, str] | None] = [{"numpy": "1", "@a/b": "2"}, {"numpy": "1"}, {"numpy": "1", "@a/b": "3"}, None]
    for number, software in enumerate(said):
        tale = Tale(f"r{number}", "e", 1e9, model="m")
        if software is not None:  # of a run that tells nothing of its environment, nothing is known to be missing
            tale.environment({"hostname": "h"}, {"user_name": "alice"} if number else {}, software)
        tale.write(tmp_path)
    world = World(tmp_path)
    for asked in ({}, {"model": "m"}):
        assert world.rows("b9", **asked) == [
            ("environment", "userName", "alice", 2, run("r1")),
            ("environment", "userName", None, 1, None),
            ("software", "@a/b", None, 1, None),
            ("software", "@a/b", "2", 1, run("r0")),
            ("software", "@a/b", "3", 1, run("r2")),
        ]


def test_every_section_of_a_training_is_told_once(tmp_path: Path):
    for number, kind in enumerate(("epoch", "round", "fold", "island")):
        tale = Tale(f"a-{kind}", "e", 1e9 - number, model="m")
        training = tale.begin("training", learning_rate=0.1)
        for index in (1, 2):
            at = tale.section(training, index, kind=kind)
            for loss, accuracy in ((0.5, 0.25), (1.0, 0.125)):
                tale.measured(at, loss=loss / index, accuracy=accuracy)
            tale.end(at, 2.0)
        tale.section(training, 3, kind=kind)
        tale.write(tmp_path)
    world = World(tmp_path)
    assert world.rows("e1") == [
        row
        for kind in ("island", "fold", "round", "epoch")
        for row in [
            (f"{RUN}a-{kind}/training", 1, 2.0, 0.1, 1.0, 0.25),
            (f"{RUN}a-{kind}/training", 2, 2.0, 0.1, 0.5, 0.25),
            (f"{RUN}a-{kind}/training", 3, None, 0.1, None, None),
        ]
    ]


def test_an_epoch_without_the_measure_is_told_with_its_time(tmp_path: Path):
    tale = Tale("r", "e", 1e9, model="m")
    training = tale.begin("training", learning_rate=0.1)
    tale.epoch(training, 1, 2.0, loss=0.5, accuracy=0.25)
    tale.epoch(training, 2, 3.0)
    tale.epoch(training, 3, 4.0, accuracy=0.75)
    tale.section(training, 4)
    tale.write(tmp_path)
    world = World(tmp_path)
    losses = [(1, 2.0, 0.5), (2, 3.0, None), (3, 4.0, None), (4, None, None)]
    assert world.rows("q3", "epoch", "seconds", "value", model="m") == losses
    accuracies = [(1, 2.0, 0.25), (2, 3.0, None), (3, 4.0, 0.75)]
    assert world.rows("q3", "epoch", "seconds", "value", model="m", measure="accuracy", first=3) == accuracies


def test_a_model_that_nobody_trained_gives_no_rows(trainings: World):
    for name, query in CATALOG.items():
        one = query.params.get("model")
        if one is not None and one.type == "string":
            needed = {key: 1.0 if p.type == "double" else "x" for key, p in query.params.items() if p.required}
            assert trainings.rows(name, **{**needed, "model": "nobody's"}) == [], name


def test_what_a_run_made_itself_is_behind_its_model_and_no_later_step_that_made_the_same(tmp_path: Path):
    def prepare(run: Recorder, name: str, noise: float) -> Data:
        raw = run.dataset(f"{name}'s raw data".encode(), name=f"raw of {name}", role="raw", latitude=noise)
        return run.prepared(b"tiles", name="tiles", by=f"cut by {name}", using=raw, noise=noise)

    def train(run: Recorder, tiles: Data, weights: bytes) -> None:
        with run.training(using=tiles, learning_rate=0.1) as training:
            training.produced(weights)

    with record("one", home=tmp_path, model="net", run="ann", strict=True) as run:
        train(run, prepare(run, "ann", 0.1), b"1")
    with record("one", home=tmp_path, model="net", run="taker", strict=True) as run:
        train(run, run.dataset(b"tiles", name="tiles"), b"2")
    with record("two", home=tmp_path, model="net", run="bob", strict=True) as run:
        train(run, prepare(run, "bob", 0.2), b"3")
    world = World(tmp_path)
    behind = {"ann": ["cut by ann", "training"], "taker": ["cut by ann", "training"], "bob": ["cut by bob", "training"]}
    for name, steps in behind.items():
        model = f"{RUN}{name}/data/net"
        assert [step for (step,) in world.rows("b3", "name", model=model)] == steps
        noise = [value for (value,) in world.rows("l2", "value", model=model)]
        assert noise == [0.2 if name == "bob" else 0.1]
        assert [value for (value,) in world.rows("l1", "latitude", model=model)] == noise
    tiles = f"urn:sha256:{sha256('tiles')}"
    assert {row[0] for row in world.rows("b5", "training", dataset=tiles)} == {f"{RUN}{n}/training" for n in behind}


def test_raw_data_that_is_no_file_is_told_by_its_name(tmp_path: Path):
    (tmp_path / "a-cube.sgy").write_bytes(b"a file")
    with record("salt", home=tmp_path / "home", run="r", strict=True) as run:
        file = run.dataset(tmp_path / "a-cube.sgy", name="z", role="raw", slices=7)  # its path counts, not its name
        held = run.dataset(b"in memory", name="a cube", role="raw")
        tiles = run.prepared(b"tiles", name="tiles", by="cut", using=[file, held], first_slice=1, last_slice=2)
        with run.training(using=tiles) as training:
            training.produced(b"weights")
    world = World(tmp_path / "home")
    told = {("a cube", None), ((tmp_path / "a-cube.sgy").as_posix(), 7)}
    assert set(world.rows("l1", "file", "slices", model=f"{RUN}r/data/salt")) == told
    assert set(world.rows("l6", "file", "slices", **{"from": 1, "to": 2})) == told


def test_the_best_is_the_training_that_made_what_was_tested(tmp_path: Path):
    with record("two in one", home=tmp_path, model="net", run="two", strict=True) as run:
        for rate, weights, accuracy in ((0.1, b"poor", 0.3), (0.5, b"good", 0.9)):
            with run.training(learning_rate=rate) as training:
                for epoch in training.epochs(2):
                    epoch.measured(loss=1.0)
                if rate == 0.1:
                    training.adapted(learning_rate=0.05, technique="decay")
                model = training.produced(weights)
            with run.evaluation(of=model) as test:
                test.measured(accuracy=accuracy)
    world = World(tmp_path)
    best = f"{RUN}two/training-2"
    assert world.rows("q4", model="net") == [(best, 0.5, 0.9)]
    pairs = [(best, 0.9, "learning_rate=0.5"), (f"{RUN}two/training", 0.3, "learning_rate=0.1")]
    assert world.rows("q5", model="net") == pairs
    assert world.rows("q6", model="net") == [(best, 0.9, None, None, None, None)]
    assert world.rows("q8", model="net") == [(best, "none", 0.9, 2), (f"{RUN}two/training", "none", 0.3, 2)]


def test_combinations_that_share_the_last_place_are_all_given(tmp_path: Path):
    reached = {"a": 1.0, "b": 0.5, "c": 0.25, "d": 0.5, "e": 0.5, "f": 1}
    for name, accuracy in reached.items():
        tale = Tale(name, "e", 1e9, model="m")
        training = tale.begin("training", rate=name)
        model = tale.produced(training, tale.data("m", f"weights of {name}", kind="model"))
        for value in (accuracy, 0.125):  # its best decides
            test = tale.begin("evaluation")
            tale.used(test, model, "model")
            tale.measured(test, accuracy=value, loss=value)
        tale.write(tmp_path)
    world = World(tmp_path)

    def found(**values: Any) -> str:
        rows = world.rows("q5", "value", "hyperparameters", model="m", **values)
        names = [pairs.removeprefix("rate=") for _, pairs in rows]
        if "measure" not in values:
            assert [value for value, _ in rows] == [reached[name] for name in names]
        return "".join(names)

    assert [found(top=top) for top in range(7)] == ["", "af", "af", "afbde", "afbde", "afbde", "afbdec"]
    assert found() == "afbde"
    assert found(measure="loss", top=1) == "abcdef"


def test_adaptations_within_an_epoch_are_told_in_the_order_in_which_they_were_made(tmp_path: Path):
    rates = [0.05, 0.025, 0.0125, 0.025, 0.0125]
    with record("halves", home=tmp_path, model="net", run="halves", strict=True) as run:
        with run.training(learning_rate=0.1) as training:
            for _ in training.epochs(2):
                for rate in rates:
                    training.adapted(learning_rate=rate, technique="halving")
            model = training.produced(b"weights")
        with run.evaluation(of=model) as test:
            test.measured(accuracy=0.9)
    world = World(tmp_path)
    changes = list(pairwise([0.1, *rates, *rates]))
    assert world.rows("h6", "old", "new", model="net") == changes
    assert world.rows("q6", "old", "new", model="net") == changes
    assert [epoch for (epoch,) in world.rows("q6", "epoch", model="net")] == [1] * 5 + [2] * 5


def test_a_model_tested_in_another_run_is_known_by_its_file(tmp_path: Path):
    weights = tmp_path / "net.pt"
    weights.write_bytes(b"weights")
    said: dict[str, Any] = {"home": tmp_path / "home", "model": "net", "strict": True}
    with record("trains", run="trains", **said) as run, run.training(learning_rate=0.1) as training:
        training.produced(weights)
    with record("tests", run="tests", **said) as run, run.evaluation(of=run.dataset(weights)) as test:
        test.measured(accuracy=0.77)
    assert World(tmp_path / "home").rows("q4", model="net") == [(f"{RUN}trains/training", 0.1, 0.77)]


def test_an_endless_hyperparameter_is_only_like_itself(tmp_path: Path):
    for name, clip in (("one", 1.0), ("endless", math.inf)):
        with record(name, home=tmp_path, model="net", run=name, strict=True) as run, run.training(clip=clip):
            pass
    world = World(tmp_path)
    for value, name in ((1.0, "one"), (math.inf, "endless"), (1.0 + 1e-9, "one")):
        assert world.rows("q7", "training", model="net", hyperparameter="clip", value=value) == [
            (f"{RUN}{name}/training",)
        ]
    assert world.rows("q7", model="net", hyperparameter="clip", value=math.nan) == []


def test_what_goes_on_from_the_file_of_a_model_has_its_training_behind_it(tmp_path: Path):
    weights = tmp_path / "net.pt"
    weights.write_bytes(b"weights")
    said: dict[str, Any] = {"home": tmp_path / "home", "strict": True}
    with record("trains", run="first", model="net", **said) as run:
        raw = run.dataset(b"raw", name="raw", role="raw")
        with run.training(using=raw) as training:
            training.produced(weights)
    with record("tunes", run="second", model="tuned", **said) as run:
        known = run.dataset(weights, role="pretrained")
        with run.training(name="tuning", using=known) as training:
            training.produced(b"tuned weights")
    world = World(tmp_path / "home")
    tuned, net = f"{RUN}second/data/tuned", f"{RUN}first/data/net"
    assert [step for (step,) in world.rows("b3", "name", model=tuned)] == ["training", "tuning"]
    assert "raw" in [name for (name,) in world.rows("b1", "name", start=tuned)]
    assert tuned in [thing for (thing,) in world.rows("b2", "thing", start=net)]
