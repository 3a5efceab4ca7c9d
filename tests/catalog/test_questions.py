"""Answers of the catalog, compared with the tables of the papers, plain Python over the events, and golden files."""

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
from example_runs import alexnet, seismic
from example_runs.asking import CATALOG, ExampleGraph, Row
from example_runs.cases import ALEXNET, CASES, RUN, SEISMIC
from example_runs.expected_values import ExpectedAnswers, as_text
from example_runs.journal import JournalBuilder, sha256
from examples_count import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from provml import paths
from provml.answers import Answer
from provml.recording.data import Data
from provml.recording.run import Run, record

HERE = Path(__file__).parents[1]
GOLDEN = HERE / "golden"
DOMAIN = HERE / "example_runs" / "domain.ttl"
PLACES: dict[str, dict[str, str]] = {
    f"{seismic.KG}NetherlandsF3": {"basin": "North Sea", "field": "F3", "well": "F03-02", "country": "Netherlands"},
    f"{seismic.KG}Penobscot3D": {"basin": "Scotian", "field": "Penobscot", "well": "L-30", "country": "Canada"},
    f"{seismic.KG}Parihaka3D": {"basin": "Taranaki", "well": "Arawa-1", "country": "New Zealand"},
}
"""What the domain graph relates each survey to."""


@pytest.fixture(scope="session")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> ExampleGraph:
    home = tmp_path_factory.mktemp("trainings")
    alexnet.write(home)
    return ExampleGraph(home)


@pytest.fixture(scope="session")
def cycle(tmp_path_factory: pytest.TempPathFactory) -> ExampleGraph:
    home = tmp_path_factory.mktemp("cycle")
    seismic.life_cycle().write(home)
    return ExampleGraph(home, DOMAIN)


def run(name: str) -> str:
    return f"{RUN}{name}"


class near(list[Row]):  # noqa: N801  # as pytest.approx
    """Rows that are equal if numbers agree in nine digits, also as text."""

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, list)
        return [tuple(map(as_text, row)) for row in self] == [tuple(map(as_text, row)) for row in other]

    __hash__ = None  # type: ignore[assignment]


# ---- the tables of the papers

TABLES: dict[str, tuple[str, dict[str, Any], list[str], list[Row]]] = {
    "pina-2021, Table 3": (
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
    "pina-2021, Table 4": (
        "q6",
        {"model": "alexnet"},
        ["epoch", "new", "technique"],
        [(10, 0.001, "LRS"), (30, 0.00025, "LRS")],
    ),
    "pina-2021, Table 5": (
        "q8",
        {"model": "alexnet"},
        ["filter", "value", "epochs"],
        [("none", 0.59, 100), ("Gray-scale", 0.37, 100)],
    ),
    "pina-2020, Table 1.1": (
        "h1",
        {"model": "alice"},
        ["epoch", "value", "seconds"],
        [(1, 0.903, 102.86), (2, 0.916, 107.59), (3, 0.920, 106.22), (4, 0.922, 107.72), (5, 0.924, 101.20)],
    ),
    "pina-2020, Table 3.1": (
        "h2",
        {"model": "example", "descending": False, "first": 5},
        ["epoch", "seconds", "value"],
        [(20, 106.55, 0.50), (19, 110.92, 0.53), (18, 113.86, 0.66), (17, 100.06, 0.71), (16, 109.21, 0.73)],
    ),
    "pina-2020, Table 4.1": (
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
    "pina-2020, Table 4.2": ("h4", {"model": "alexnet-20"}, ["epoch", "seconds", "value"], [(20, 10.889, 0.1954)]),
    "pina-2020, Table 4.3": ("h5", {"model": "alexnet-20"}, ["epoch", "setting", "value"], [(20, 0.00025, 0.9402299)]),
    "pina-2020, Table 4.4": (
        "h6",
        {"model": "alexnet-20"},
        ["number", "new", "epoch"],
        [(1, 0.0005, 10), (2, 0.00025, 20)],
    ),
    "pina-2020, Table 4.5": (
        "h3",
        {"model": "densed", "run": run("densed-20"), "first": 5},
        ["epoch", "seconds"],
        [(1, 48.398), (2, 14.896), (3, 15.332), (4, 15.413), (5, 14.885)],
    ),
    "pina-2020, Table 4.6": (
        "h4",
        {"model": "densed", "run": run("densed-20")},
        ["epoch", "seconds", "value"],
        [(20, 15.103, 0.004)],
    ),
    "pina-2020, Table 4.8": (
        "h7",
        {"model": "densed", "k": 32, "l": 4, "last": 1},
        ["epoch", "value"],
        [(200, 0.0184)],
    ),
    "pina-2020, Table 4.9": (
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
    "pina-2020, Table 4.10": (
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
def test_the_answer_is_the_table_of_the_paper(trainings: ExampleGraph, table: str):
    question, values, columns, printed = TABLES[table]
    assert table.split(", ")[0] in CATALOG[question].metadata["source"]
    assert trainings.rows(question, *columns, **values) == near(printed)


def test_a_later_answer_during_the_training_is_the_next_table(tmp_path: Path):
    losses = alexnet.filled([loss for _, loss in TABLE_4_7], 200, 0.0184)
    whole = alexnet.densed("k32-l4", 1, 32, 4, losses)
    begun = alexnet.densed("k32-l4", 1, 32, 4, losses[:10], finished=False)
    path = begun.write(tmp_path)
    graph = ExampleGraph(tmp_path)
    assert graph.rows("h7", "epoch", "value", model="densed", k=32, l=4) == near(TABLE_4_7)
    before = path.read_bytes()
    whole.write(tmp_path)
    assert path.read_bytes().startswith(before)
    graph.sync()
    last = graph.rows("h7", "epoch", "value", model="densed", k=32, l=4, last=1)
    assert last == near([(200, 0.0184)])


# ---- golden answers


def test_every_question_has_cases_with_and_without_optional_parameters():
    for name, query in CATALOG.items():
        cases = [values for case, values in CASES.items() if CATALOG[case.partition("-")[0]] is query]
        free = {key for key, param in query.params.items() if not param.required}
        assert any(not free & values.keys() for values in cases), f"{name} is not asked without its optional parameters"
        assert free <= {key for values in cases for key in values}, f"{name} is not asked with all its parameters"
    assert {path.stem for path in GOLDEN.iterdir()} == set(CASES), "golden files and cases differ"


MAY_TELL_NOTHING: dict[tuple[str, str], str] = {}
"""Cases with a parameter that does not change the answer, and why; there are none so far."""


@pytest.mark.parametrize("case", [*ALEXNET, *SEISMIC])
def test_a_value_other_than_the_default_changes_the_answer(trainings: ExampleGraph, cycle: ExampleGraph, case: str):
    name = case.partition("-")[0]
    graph, values = (trainings, ALEXNET[case]) if case in ALEXNET else (cycle, SEISMIC[case])
    answer = graph.rows(name, **values)
    for key in values:
        if CATALOG[name].params[key].default is not None and (case, key) not in MAY_TELL_NOTHING:
            without = graph.rows(name, **{other: value for other, value in values.items() if other != key})
            assert without != answer, f"{name} gives the same, whether {key} is {values[key]!r} or left out"


@pytest.mark.parametrize("case", list(ALEXNET))
def test_answers_for_trainings_are_golden(trainings: ExampleGraph, case: str, update_golden: bool):
    compare(trainings, case, ALEXNET[case], update_golden)


@pytest.mark.parametrize("case", list(SEISMIC))
def test_answers_for_the_life_cycle_are_golden(cycle: ExampleGraph, case: str, update_golden: bool):
    compare(cycle, case, SEISMIC[case], update_golden)


def compare(graph: ExampleGraph, case: str, values: dict[str, Any], update: bool) -> None:
    columns, rows = graph.ask(case.partition("-")[0], **values)
    actual = Answer(columns, rows).to_csv()
    path = GOLDEN / f"{case}.csv"
    if update:
        path.write_text(actual, encoding="utf-8")
    assert rows, "a golden answer without rows tells nothing"
    assert list(csv.reader(io.StringIO(actual))) == near(
        list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"))))
    )


# ---- the life cycle, in plain Python


def expected_answers(journals: list[JournalBuilder]) -> ExpectedAnswers:
    return ExpectedAnswers({journal.run: journal.events for journal in journals})


def alike(asked: list[Row], counted: list[Row]) -> None:
    """Compare rows in any order, with rounded floats."""
    actual, expected = (Counter(tuple(map(as_cell, row)) for row in rows) for rows in (asked, counted))
    assert actual == expected


def as_cell(value: Any) -> Any:
    if isinstance(value, frozenset) or value is None:
        return value
    if isinstance(value, float):
        return as_text(value)
    return as_text(value) if isinstance(value, int) else str(value)


def paired(row: Row, *columns: int) -> Row:
    """Return a row with its lists of settings as sets of pairs."""
    return tuple(_pairs(cell) if index in columns else cell for index, cell in enumerate(row))


def _pairs(cell: str) -> frozenset[tuple[str, str]]:
    split = (pair.partition("=") for pair in cell.split(", ") if pair)
    return frozenset((name, as_text(value)) for name, _, value in split)


def agree(graph: ExampleGraph, journals: list[JournalBuilder]) -> None:
    """Compare the answers to l1 to l7 with those computed from the events."""
    expected = expected_answers(journals)
    for name, ref, _, _ in expected.models:
        model = f"{RUN}{name}/data/{ref}"
        alike([paired(row, 2, 3) for row in graph.rows("l1", model=model)], expected.l1(name, ref, PLACES))
        alike(graph.rows("l2", model=model), expected.l2(name, ref))
    for ref in sorted({ref for _, ref in expected.data if ref.startswith("sha256:")}):
        alike(graph.rows("l3", dataset=f"urn:{ref}"), expected.l3(ref))
        alike(graph.rows("l4", dataset=f"urn:{ref}"), expected.l4(ref))
    for low, high in ((0, 1000), (100, 200), (100, 300), (150, 160)):
        slices = {"from": low, "to": high}
        alike(graph.rows("l5", **slices), expected.l5(low, high))
        alike([paired(row, 2, 3) for row in graph.rows("l6", **slices)], expected.l6(low, high, PLACES))
        for measure, sign in (("loss", 1), ("accuracy", -1), ("drift", -1)):  # drift has no direction
            rows = [paired(row, 4, 5, 6, 7) for row in graph.rows("l7", **slices, measure=measure)]
            alike(rows, expected.l7(low, high, measure))
            places = [(row[3] is None, 0.0 if row[3] is None else sign * row[3]) for row in rows]
            assert places == sorted(places), "the best come first, and those without batches last"


def test_answers_for_the_life_cycle_agree_with_plain_python(cycle: ExampleGraph):
    agree(cycle, seismic.life_cycle().journals)


@st.composite
def cycles(draw: st.DrawFn) -> seismic.Seismic:
    graph = seismic.Seismic()
    names = st.sampled_from(["NetherlandsF3", "Penobscot3D", "Parihaka3D", ""])
    surveys = draw(st.lists(names, min_size=1, max_size=2))
    for number, survey in enumerate(surveys):
        where = {"latitude": float(number), "longitude": 0.5 * number}
        graph.curation(f"c{number}", number, f"raw{number}.sgy", survey, slices=100 + number, **where)
    names = []
    for number in range(draw(st.integers(1, 3))):
        low = draw(st.sampled_from([0, 100, 150]))
        source = f"raw{draw(st.integers(0, len(surveys) - 1))}.sgy"
        name = draw(st.sampled_from([f"p{number}", "same"]))
        slices = (low, low + draw(st.sampled_from([10, 100])))
        graph.preparation(f"p{number}", 10 + number, source, name, slices=slices, tile=64, noise=0.25)
        names.append(name)
    loss = st.integers(1, 8).map(lambda n: n / 8) | st.sampled_from([1, -1, math.inf, math.nan])
    for number in range(draw(st.integers(1, 3))):
        sets = draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
        graph.learning(
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
    return graph


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(graph=cycles())
def test_answers_agree_with_plain_python_for_any_life_cycle(
    tmp_path_factory: pytest.TempPathFactory, graph: seismic.Seismic
):
    home = tmp_path_factory.mktemp("any")
    graph.write(home)
    agree(ExampleGraph(home, DOMAIN), graph.journals)


def test_data_generated_again_after_its_use_has_both_origins(tmp_path: Path):
    graph = seismic.Seismic()
    graph.curation("c", 0, "f3.sgy", "NetherlandsF3", slices=951, latitude=54.8, longitude=4.75)
    journal = JournalBuilder("again", "salt", seismic.MAY + 7200.0, model="salt")
    graph.journals.append(journal)
    source = journal.data("f3.sgy.h5")
    train = journal.data("again-train.h5")
    models = []
    for number in (1, 2):
        training = journal.begin("training", using=[train], learning_rate=0.1)
        journal.epoch(training, 1, 2.0, loss=1.0 / number)
        models.append(journal.produced(training, journal.data("salt", f"weights {number}", kind="model")))
        journal.end(training)
        graph.prepare(journal, source, "again", slices=(1, 2), tile=8, noise=0.5)
    journal.finish()
    graph.write(tmp_path)
    asked = ExampleGraph(tmp_path, DOMAIN)
    only = {"characteristic": "slices", "relation": "http://example.org/geology#field"}
    for model in models:
        rows = asked.rows("l1", "file", "characteristics", "concepts", model=f"{RUN}again/data/{model}", **only)
        assert rows == [("raw/f3.sgy", "slices=951", "field=F3")]
    ref = f"urn:sha256:{sha256('again-train.h5')}"
    assert len({row[0] for row in asked.rows("b4", "user", sha256=sha256("again-train.h5"))}) == 2
    assert {row[0] for row in asked.rows("l3", "training", dataset=ref)} == {f"{RUN}again/training-2"}
    assert len(asked.rows("b5", dataset=f"urn:sha256:{sha256('f3.sgy')}")) == 2


# ---- the paper's listings


def parts(text: str) -> dict[str, int]:
    """Return the number of clauses of each part of a listing."""
    body = text[text.index("WHERE {") : text.rindex("}")]
    pieces = re.split(r"\n  # (.*)\n", body)[1:]
    named = zip(pieces[::2], pieces[1::2], strict=True)
    return {name: len(re.findall(r"\s[;.]\s", f"{clauses}\n")) for name, clauses in named}


def test_the_listings_of_the_paper_give_the_same_answers(cycle: ExampleGraph):
    first, second = ((HERE / "example_runs" / f"listing-{number}.rq").read_text() for number in (1, 2))
    names = ["Training stage", "Epoch iteration", "Model hyperparameters", "Model", "Model evaluation"]
    assert parts(first) == dict(zip(names, [1, 2, 6, 2, 3], strict=True))
    assert parts(second) == dict(zip(names, [4, 5, 7, 5, 6], strict=True))
    first_rows, second_rows = (sorted(cycle.query(text)[1], key=str) for text in (first, second))
    assert first_rows == second_rows
    assert len(first_rows) > 20


# ---- recorded runs


def test_recorded_runs_can_be_queried(tmp_path: Path):
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
    graph = ExampleGraph(tmp_path / "home", DOMAIN)
    iri = f"{RUN}{recorder.id}/data/{model.ref}"
    raw_data = [("slices=951", "basin=North Sea, country=Netherlands, field=F3, well=F03-02")]
    assert graph.rows("l1", "characteristics", "concepts", model=iri) == raw_data
    prepared = [("first_slice", 100), ("last_slice", 200), ("tile_size", 64)]
    assert graph.rows("l2", "parameter", "value", model=iri) == prepared
    best = [
        (2, "evaluation", "accuracy", 0.75),
        (2, "hyperparameter", "learning_rate", 0.05),
        (2, "training", "loss", 0.5),
        (2, "validation", "loss", 1.0),
    ]
    assert graph.rows("l3", "epoch", "kind", "name", "value", dataset=f"urn:{train.ref}") == best
    assert graph.rows("l4", "epoch", "batches", dataset=f"urn:{train.ref}") == [(1, 2), (2, 2)]
    slices = {"from": 100, "to": 200}
    assert graph.rows("l5", "epoch", "measure", "value", **slices) == [(1, "loss", 1.0), (2, "loss", 0.5)]
    assert graph.rows("l6", "characteristics", "concepts", **slices) == raw_data
    measured = ("epoch", "hyperparameters", "measures", "validation_hyperparameters", "validation_measures")
    assert graph.rows("l7", *measured, **slices) == [
        (2, "learning_rate=0.05", "loss=0.5", "threshold=0.5", "loss=1"),
        (1, "learning_rate=0.1", "loss=1", "threshold=0.5", "loss=2"),
    ]
    assert graph.rows("q4", "initial", "value", model="salt") == [(0.1, 0.75)]
    assert graph.rows("h5", "epoch", "setting", model="salt", measure="loss") == [(2, 0.05)]
    assert graph.rows("h6", "number", "epoch", "new", "technique", model="salt") == [(1, 1, 0.05, "step decay")]


def test_nan_is_never_the_best(tmp_path: Path):
    journal = alexnet.curve(
        "nan", 1, "m", seconds=[1.0] * 3, losses=[float("nan"), 0.5, 0.7], accuracies=[float("nan"), 0.2, 0.3]
    )
    journal.write(tmp_path)
    graph = ExampleGraph(tmp_path)
    assert graph.rows("h4", "epoch", "value", model="m") == [(2, 0.5)]
    assert graph.rows("h5", "epoch", "value", model="m") == [(3, 0.3)]
    assert math.isnan(graph.rows("q1", "value", model="m", epoch=1)[0][0])


@pytest.mark.parametrize(
    "path", sorted([*paths.queries().glob("*.rq"), *paths.shapes().glob("*.ttl")]), ids=lambda path: path.stem
)
def test_no_variable_is_compared_with_itself(path: Path):
    """As a test for NaN this depends on the engine: in Jena and RDF4J, NaN equals itself."""
    assert not re.search(r"\?(\w+)\s*!?=\s*\?\1\b", path.read_text(encoding="utf-8"))


def test_a_batch_of_infinite_length_is_in_the_answer(tmp_path: Path):
    for count, numbers in enumerate(([math.inf], [math.nan], [-math.inf, 1], [], [0.5, math.nan], [math.inf, 2]), 1):
        journal = JournalBuilder(f"r{count}", "salt", seismic.MAY + count * seismic.HOUR, model="salt")
        data = journal.data("train.h5")
        journal.step("preparation", "tiles", using=[], makes=data, first_slice=1, last_slice=2)
        training = journal.begin("training", using=[data])
        epoch = journal.section(training, count)
        for number, value in enumerate(numbers, 1):
            journal.batch(epoch, number, 1.0, loss=value, score=value)
        journal.end(epoch)
        journal.write(tmp_path)
    graph = ExampleGraph(tmp_path)
    slices = {"from": 1, "to": 2}
    least = [(3, -math.inf), (5, 0.5), (6, 2.0), (1, math.inf), (2, None), (4, None)]
    assert graph.rows("l7", "epoch", "least", **slices) == least
    greatest = [(1, math.inf), (6, math.inf), (3, 1.0), (5, 0.5), (2, None), (4, None)]
    assert graph.rows("l7", "epoch", "least", **slices, measure="score") == greatest


def test_an_infinite_hyperparameter_matches_only_itself(tmp_path: Path):
    infinite, huge = float("inf"), 1e308
    values = {"one": 1, "infinite": infinite, "below": -infinite, "huge": huge, "none": float("nan")}
    for day, (name, value) in enumerate(values.items()):
        journal = JournalBuilder(name, "e", 1e9 + day, model="net")
        training = journal.begin("training", K=value, L=4, learning_rate=value)
        journal.epoch(training, 1, 1.0, loss=0.5)
        journal.write(tmp_path)
    graph = ExampleGraph(tmp_path)
    asked = {1.0: ["one"], 1.0000001: ["one"], 32.0: [], infinite: ["infinite"], -infinite: ["below"]}
    for value, names in {**asked, huge: ["huge"], 1.7 * huge: [], float("nan"): []}.items():
        expected = [(f"{RUN}{name}/training",) for name in names]
        assert graph.rows("h7", "training", model="net", k=value, l=4) == expected
        assert graph.rows("h8", "training", model="net", k=value, l=4, learning_rate=value) == expected
    for value, names in {**asked, 1.0000001: []}.items():
        expected = [(f"{RUN}{name}/training",) for name in names]
        assert graph.rows("b7", "training", hyperparameter="K", least=value, most=value) == expected


def test_integers_and_doubles_of_equal_value_tie(tmp_path: Path):
    journal = JournalBuilder("ties", "ties", 1e9, model="m")
    data = journal.data("d.h5")
    training = journal.begin("training", using=[data], learning_rate=0.1, k=1, l=2)
    for index, (loss, accuracy) in enumerate([(1, 0.5), (1.0, 1), (2, 1.0), (1, 0.25)], 1):
        journal.epoch(training, index, 1.0, loss=loss, accuracy=accuracy)
    journal.write(tmp_path)
    graph = ExampleGraph(tmp_path)
    least, most = [(1, 1), (2, 1), (4, 1)], [(2, 1), (3, 1)]
    params = {"model": "m", "learning_rate": 0.1, "k": 1, "l": 2}
    for measure, rows in (("loss", least), ("accuracy", most)):
        for question in ("h4", "h5"):
            assert graph.rows(question, "epoch", "value", model="m", measure=measure) == rows, question
        assert graph.rows("h8", "epoch", "value", **params, measure=measure) == rows
        result = graph.rows("l3", "epoch", "name", "value", dataset=f"urn:{data}", measure=measure)
        assert [(epoch, value) for epoch, name, value in result if name == measure] == rows


@pytest.mark.parametrize("question", ["h4", "h5"])
def test_the_direction_of_a_measure_decides_the_best(trainings: ExampleGraph, question: str):
    asked = {"model": "alexnet-20", "run": run("twenty")}
    assert trainings.rows(question, "epoch", "value", **asked, measure="accuracy") == near([(20, 0.9402299)])
    assert trainings.rows(question, "epoch", "value", **asked, measure="loss") == near([(20, 0.1954)])


def test_the_difference_of_two_runs_has_measures_adaptations_and_missing_values(tmp_path: Path):
    for name, last, changed in (("x", 0.5, {}), ("y", 0.25, {1: 0.05, 10: 0.01})):
        journal = JournalBuilder(name, "e", 1e9, model="m")
        training = journal.begin("training", learning_rate=0.1, **({} if changed else {"note": ""}))
        twin = journal.begin("validation")
        for index in range(1, 12):
            at = journal.epoch(
                training, index, 1.0, loss=1.0 if index < 11 else last, **({"lag": 3} if index < 9 else {})
            )
            journal.measured(journal.section(twin, index, during=at), loss=2 * last, top=1.0)
            if index in changed:
                journal.adapted(at, technique="decay", learning_rate=changed[index])
        journal.measured(training, best=last)
        journal.write(tmp_path)
    graph = ExampleGraph(tmp_path)
    assert graph.rows("b6", one=run("x"), other=run("y")) == [
        ("adaptation", "learning_rate", None, "0.05 at epoch 1 by decay, 0.01 at epoch 10 by decay"),
        ("hyperparameter", "note", '""', None),
        ("measure of the training", "best", "0.5", "0.25"),
        ("measure of the training", "loss", "0.5", "0.25"),
        ("measure of the validation", "loss", "1", "0.5"),
    ]
    assert graph.rows("b6", one=run("x"), other=run("x")) == []


def test_environments_differ_in_packages_that_only_some_have(tmp_path: Path):
    packages: list[dict[str, str] | None] = [
        {"numpy": "1", "@a/b": "2"},
        {"numpy": "1"},
        {"numpy": "1", "@a/b": "3"},
        None,
    ]
    for number, software in enumerate(packages):
        journal = JournalBuilder(f"r{number}", "e", 1e9, model="m")
        if software is not None:  # without an environment, no package is missing
            journal.environment({"hostname": "h"}, {"user_name": "alice"} if number else {}, software)
        journal.write(tmp_path)
    graph = ExampleGraph(tmp_path)
    for asked in ({}, {"model": "m"}):
        assert graph.rows("b9", **asked) == [
            ("environment", "userName", "alice", 2, run("r1")),
            ("environment", "userName", None, 1, None),
            ("software", "@a/b", None, 1, None),
            ("software", "@a/b", "2", 1, run("r0")),
            ("software", "@a/b", "3", 1, run("r2")),
        ]


def test_every_section_of_a_training_is_in_the_answer_once(tmp_path: Path):
    for number, kind in enumerate(("epoch", "round", "fold", "island")):
        journal = JournalBuilder(f"a-{kind}", "e", 1e9 - number, model="m")
        training = journal.begin("training", learning_rate=0.1)
        for index in (1, 2):
            at = journal.section(training, index, kind=kind)
            for loss, accuracy in ((0.5, 0.25), (1.0, 0.125)):
                journal.measured(at, loss=loss / index, accuracy=accuracy)
            journal.end(at, 2.0)
        journal.section(training, 3, kind=kind)
        journal.write(tmp_path)
    graph = ExampleGraph(tmp_path)
    assert graph.rows("e1") == [
        row
        for kind in ("island", "fold", "round", "epoch")
        for row in [
            (f"{RUN}a-{kind}/training", 1, 2.0, 0.1, 1.0, 0.25),
            (f"{RUN}a-{kind}/training", 2, 2.0, 0.1, 0.5, 0.25),
            (f"{RUN}a-{kind}/training", 3, None, 0.1, None, None),
        ]
    ]


def test_an_epoch_without_the_measure_is_in_the_answer_with_its_time(tmp_path: Path):
    journal = JournalBuilder("r", "e", 1e9, model="m")
    training = journal.begin("training", learning_rate=0.1)
    journal.epoch(training, 1, 2.0, loss=0.5, accuracy=0.25)
    journal.epoch(training, 2, 3.0)
    journal.epoch(training, 3, 4.0, accuracy=0.75)
    journal.section(training, 4)
    journal.write(tmp_path)
    graph = ExampleGraph(tmp_path)
    losses = [(1, 2.0, 0.5), (2, 3.0, None), (3, 4.0, None), (4, None, None)]
    assert graph.rows("q3", "epoch", "seconds", "value", model="m") == losses
    accuracies = [(1, 2.0, 0.25), (2, 3.0, None), (3, 4.0, 0.75)]
    assert graph.rows("q3", "epoch", "seconds", "value", model="m", measure="accuracy", first=3) == accuracies


def test_a_model_without_a_training_gives_no_rows(trainings: ExampleGraph):
    for name, query in CATALOG.items():
        param = query.params.get("model")
        if param is not None and param.type == "string":
            needed = {key: 1.0 if p.type == "double" else "x" for key, p in query.params.items() if p.required}
            assert trainings.rows(name, **{**needed, "model": "nobody's"}) == [], name


def test_the_origin_of_a_model_has_steps_of_its_run_but_no_later_step_with_the_same_output(tmp_path: Path):
    def prepare(run: Run, name: str, noise: float) -> Data:
        raw = run.dataset(f"{name}'s raw data".encode(), name=f"raw of {name}", role="raw", latitude=noise)
        return run.prepared(b"tiles", name="tiles", step=f"cut by {name}", using=raw, noise=noise)

    def train(run: Run, tiles: Data, weights: bytes) -> None:
        with run.training(using=tiles, learning_rate=0.1) as training:
            training.produced(weights)

    with record("one", home=tmp_path, model="net", run="ann", strict=True) as run:
        train(run, prepare(run, "ann", 0.1), b"1")
    with record("one", home=tmp_path, model="net", run="taker", strict=True) as run:
        train(run, run.dataset(b"tiles", name="tiles"), b"2")
    with record("two", home=tmp_path, model="net", run="bob", strict=True) as run:
        train(run, prepare(run, "bob", 0.2), b"3")
    graph = ExampleGraph(tmp_path)
    behind = {"ann": ["cut by ann", "training"], "taker": ["cut by ann", "training"], "bob": ["cut by bob", "training"]}
    for name, steps in behind.items():
        model = f"{RUN}{name}/data/net"
        assert [step for (step,) in graph.rows("b3", "name", model=model)] == steps
        noise = [value for (value,) in graph.rows("l2", "value", model=model)]
        assert noise == [0.2 if name == "bob" else 0.1]
        assert graph.rows("l1", "characteristics", model=model) == [(f"latitude={noise[0]}",)]
    tiles = f"urn:sha256:{sha256('tiles')}"
    assert {row[0] for row in graph.rows("b5", "training", dataset=tiles)} == {f"{RUN}{n}/training" for n in behind}


def test_models_from_a_dataset_include_those_trained_on_test_data(tmp_path: Path):
    with record("leak", home=tmp_path, model="net", run="leak", strict=True, capture_environment=False) as run:
        train, held_out, test = (
            run.dataset(role.encode(), name=f"{role}.csv", role=role) for role in ("training", "validation", "test")
        )
        with run.training(using=[train, held_out, test]) as training:
            model = training.produced(b"weights")
        with run.evaluation(of=model, using=test) as evaluation:
            evaluation.measured(accuracy=0.5)
    graph = ExampleGraph(tmp_path)
    for role in ("training", "validation", "test"):
        rows = graph.rows("b5", "training", "role", "directly", dataset=f"urn:sha256:{sha256(role)}")
        assert rows == [(f"{RUN}leak/training", role, True)]


def test_models_from_a_dataset_include_data_that_only_an_epoch_used(tmp_path: Path):
    with record("leak", home=tmp_path, model="net", run="leak", strict=True, capture_environment=False) as run:
        test = run.dataset(b"test", name="test.csv", role="test")
        with run.training(using=run.dataset(b"training", name="training.csv")) as training:
            for epoch in training.epochs(2):
                epoch.used(test)
                epoch.measured(loss=0.5)
            training.produced(b"weights")
    rows = ExampleGraph(tmp_path).rows("b5", "training", "role", "directly", dataset=f"urn:sha256:{sha256('test')}")
    assert rows == [(f"{RUN}leak/training", "test", True)]


def test_models_from_a_dataset_include_a_training_that_produced_none(tmp_path: Path):
    with record("other", home=tmp_path, model="net", run="other", strict=True, capture_environment=False) as run:
        other = run.dataset(b"other", name="other.csv")
        with run.training(using=other) as training:
            training.produced(b"weights")
    with record("leak", home=tmp_path, model="net", run="leak", strict=True, capture_environment=False) as run:
        run.training(using=run.dataset(b"test", name="test.csv", role="test")).done()
    graph = ExampleGraph(tmp_path)
    rows = graph.rows("b5", "model", "training", "epoch", "role", dataset=f"urn:sha256:{sha256('test')}")
    assert rows == [(None, f"{RUN}leak/training", None, "test")]


def test_models_from_a_dataset_leave_out_those_that_were_only_evaluated_on_it(tmp_path: Path):
    with record("clean", home=tmp_path, model="net", run="clean", strict=True, capture_environment=False) as run:
        with run.training(using=run.dataset(b"training", name="training.csv")) as training:
            model = training.produced(b"weights")
        with run.evaluation(of=model, using=run.dataset(b"test", name="test.csv")) as evaluation:
            evaluation.measured(accuracy=0.5)
    assert ExampleGraph(tmp_path).rows("b5", dataset=f"urn:sha256:{sha256('test')}") == []


def test_raw_data_without_a_file_is_shown_by_its_name(tmp_path: Path):
    (tmp_path / "a-cube.sgy").write_bytes(b"a file")
    with record("salt", home=tmp_path / "home", run="r", strict=True) as run:
        file = run.dataset(
            tmp_path / "a-cube.sgy", name="z", role="raw", slices=7
        )  # shown by its path, not by its name
        cube = run.dataset(b"in memory", name="a cube", role="raw")
        tiles = run.prepared(b"tiles", name="tiles", step="cut", using=[file, cube], first_slice=1, last_slice=2)
        with run.training(using=tiles) as training:
            training.produced(b"weights")
    graph = ExampleGraph(tmp_path / "home")
    expected = {("a cube", ""), ((tmp_path / "a-cube.sgy").as_posix(), "slices=7")}
    assert set(graph.rows("l1", "file", "characteristics", model=f"{RUN}r/data/salt")) == expected
    assert set(graph.rows("l6", "file", "characteristics", **{"from": 1, "to": 2})) == expected


def test_the_best_training_is_the_one_that_generated_the_tested_model(tmp_path: Path):
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
    graph = ExampleGraph(tmp_path)
    best = f"{RUN}two/training-2"
    assert graph.rows("q4", model="net") == [(best, 0.5, 0.9)]
    pairs = [(best, 0.9, "learning_rate=0.5"), (f"{RUN}two/training", 0.3, "learning_rate=0.1")]
    assert graph.rows("q5", model="net") == pairs
    assert graph.rows("q6", model="net") == [(best, 0.9, None, None, None, None)]
    assert graph.rows("q8", model="net") == [(best, "none", 0.9, 2), (f"{RUN}two/training", "none", 0.3, 2)]


def test_ties_for_the_last_place_are_all_in_the_answer(tmp_path: Path):
    reached = {"a": 1.0, "b": 0.5, "c": 0.25, "d": 0.5, "e": 0.5, "f": 1}
    for name, accuracy in reached.items():
        journal = JournalBuilder(name, "e", 1e9, model="m")
        training = journal.begin("training", rate=name)
        model = journal.produced(training, journal.data("m", f"weights of {name}", kind="model"))
        for value in (accuracy, 0.125):  # the best value counts
            test = journal.begin("evaluation")
            journal.used(test, model, "model")
            journal.measured(test, accuracy=value, loss=value)
        journal.write(tmp_path)
    graph = ExampleGraph(tmp_path)

    def names_of(**values: Any) -> str:
        rows = graph.rows("q5", "value", "hyperparameters", model="m", **values)
        names = [pairs.removeprefix("rate=") for _, pairs in rows]
        if "measure" not in values:
            assert [value for value, _ in rows] == [reached[name] for name in names]
        return "".join(names)

    assert [names_of(top=top) for top in range(7)] == ["", "af", "af", "afbde", "afbde", "afbde", "afbdec"]
    assert names_of() == "afbde"
    assert names_of(measure="loss", top=1) == "abcdef"


def test_adaptations_within_an_epoch_are_in_chronological_order(tmp_path: Path):
    rates = [0.05, 0.025, 0.0125, 0.025, 0.0125]
    with record("halves", home=tmp_path, model="net", run="halves", strict=True) as run:
        with run.training(learning_rate=0.1) as training:
            for _ in training.epochs(2):
                for rate in rates:
                    training.adapted(learning_rate=rate, technique="halving")
            model = training.produced(b"weights")
        with run.evaluation(of=model) as test:
            test.measured(accuracy=0.9)
    graph = ExampleGraph(tmp_path)
    changes = list(pairwise([0.1, *rates, *rates]))
    assert graph.rows("h6", "old", "new", model="net") == changes
    assert graph.rows("q6", "old", "new", model="net") == changes
    assert [epoch for (epoch,) in graph.rows("q6", "epoch", model="net")] == [1] * 5 + [2] * 5


def test_a_model_tested_in_another_run_is_matched_by_its_file(tmp_path: Path):
    weights = tmp_path / "net.pt"
    weights.write_bytes(b"weights")
    options: dict[str, Any] = {"home": tmp_path / "home", "model": "net", "strict": True}
    with record("trains", run="trains", **options) as run, run.training(learning_rate=0.1) as training:
        training.produced(weights)
    with record("tests", run="tests", **options) as run, run.evaluation(of=run.dataset(weights)) as test:
        test.measured(accuracy=0.77)
    assert ExampleGraph(tmp_path / "home").rows("q4", model="net") == [(f"{RUN}trains/training", 0.1, 0.77)]


def test_an_infinite_hyperparameter_equals_only_itself(tmp_path: Path):
    for name, clip in (("one", 1.0), ("endless", math.inf)):
        with record(name, home=tmp_path, model="net", run=name, strict=True) as run, run.training(clip=clip):
            pass
    graph = ExampleGraph(tmp_path)
    for value, name in ((1.0, "one"), (math.inf, "endless"), (1.0 + 1e-9, "one")):
        assert graph.rows("q7", "training", model="net", hyperparameter="clip", value=value) == [
            (f"{RUN}{name}/training",)
        ]
    assert graph.rows("q7", model="net", hyperparameter="clip", value=math.nan) == []


def test_a_training_that_continues_from_a_model_file_has_the_earlier_training_in_its_lineage(tmp_path: Path):
    weights = tmp_path / "net.pt"
    weights.write_bytes(b"weights")
    options: dict[str, Any] = {"home": tmp_path / "home", "strict": True}
    with record("trains", run="first", model="net", **options) as run:
        raw = run.dataset(b"raw", name="raw", role="raw")
        with run.training(using=raw) as training:
            training.produced(weights)
    with record("tunes", run="second", model="tuned", **options) as run:
        pretrained = run.dataset(weights, role="pretrained")
        with run.training(name="tuning", using=pretrained) as training:
            training.produced(b"tuned weights")
    graph = ExampleGraph(tmp_path / "home")
    tuned, net = f"{RUN}second/data/tuned", f"{RUN}first/data/net"
    assert [step for (step,) in graph.rows("b3", "name", model=tuned)] == ["training", "tuning"]
    assert "raw" in [name for (name,) in graph.rows("b1", "name", start=tuned)]
    assert tuned in [thing for (thing,) in graph.rows("b2", "thing", start=net)]
