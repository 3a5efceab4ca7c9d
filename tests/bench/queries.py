"""Questions: compare the catalog on an index on disk with DuckDB on flat tables and with SPARQL over batches.

    python tests/bench/queries.py [--scale 0.01 0.1 1] [--runs 200 2000] [--repeat 15] [--keep FOLDER]

The data is that of `index.py`. Each question runs as SPARQL with bound values on the open index, and its rows are read
into Python. There are five rounds over all questions, since the speed of the machine varies. The first call in a round
warms the caches and is not counted; the figures are the median wall and CPU time of the others, and the least CPU time.
l5, l6 and l7 ask for the slices of one of the eight workflows, with `all` for those of all workflows; `l7 high` is all
with a measure that is better high. The limit is DuckDB on flat tables of the same data in memory. The naive queries are
those of the paper: they aggregate batches, while the catalog reads the aggregates that were recorded at the end of an
epoch. `growth` compares with the previous scale. `--runs` adds a number of small runs; a twentieth of them have the
same model. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from index import load_journals, record

ROUNDS = 5
RUN = "https://w3id.org/provml/run/"
MODEL = {"model": "seismic"}
ONE_WORKFLOW, ALL_WORKFLOWS = {"from": 300, "to": 399}, {"from": 0, "to": 1_000_000}
TARGETS_MS = {"l1": 2, "l4": 100, "l5": 100, "l7 all": 2000, **{f"q{number}": 50 for number in range(1, 9)}}
PREFIXES = """
PREFIX prov:     <http://www.w3.org/ns/prov#>
PREFIX provlake: <https://w3id.org/provlake#>
PREFIX provml:   <https://w3id.org/provml#>
PREFIX rdfs:     <http://www.w3.org/2000/01/rdf-schema#>
"""
NAIVE = {
    "l4": """
SELECT ?training ?epoch (COUNT(?batch) AS ?batches) (AVG(?s) AS ?mean) (MIN(?s) AS ?least) (MAX(?s) AS ?most) WHERE {
  ?training a provml:TrainingExecution ; prov:used <DATASET> .
  ?section provml:wasSectionOf ?training ; provml:sectionIndex ?epoch .
  ?batch provml:wasSectionOf ?section ; provml:elapsedSeconds ?s .
} GROUP BY ?training ?epoch ORDER BY ?training ?epoch""",
    "l5": """
SELECT ?training ?epoch ?measure (MIN(?v) AS ?value) (AVG(?s) AS ?mean) WHERE {
  ?step prov:used ?low , ?high .
  ?low prov:value ?begins ; provlake:wasDerivedFromAttribute/rdfs:label "first_slice" .
  ?high prov:value ?ends ; provlake:wasDerivedFromAttribute/rdfs:label "last_slice" .
  FILTER(?begins >= 300 && ?ends <= 399)
  ?dataset prov:wasGeneratedBy ?step .
  ?training a provml:TrainingExecution ; prov:used ?dataset .
  ?section provml:wasSectionOf ?training ; provml:sectionIndex ?epoch .
  ?evaluation prov:wasGeneratedBy ?section ; a provml:ModelEvaluation ; prov:value ?v ;
              provlake:wasDerivedFromAttribute/rdfs:label ?measure .
  ?batch provml:wasSectionOf ?section ; provml:elapsedSeconds ?s .
} GROUP BY ?training ?epoch ?measure ORDER BY ?training ?epoch ?measure""",
}
TABLES = {
    "epochs": """
SELECT ?training ?dataset ?begins ?ends ?section ?epoch WHERE {
  ?low prov:value ?begins ; provlake:wasDerivedFromAttribute/rdfs:label "first_slice" .
  ?step prov:used ?low , ?high .
  ?high prov:value ?ends ; provlake:wasDerivedFromAttribute/rdfs:label "last_slice" .
  ?dataset prov:wasGeneratedBy ?step .
  ?training prov:used ?dataset ; a provml:TrainingExecution .
  ?section provml:wasSectionOf ?training ; provml:sectionIndex ?epoch .
}""",
    "measures": """
SELECT ?section ?name ?value WHERE {
  ?section a provml:TrainingSectionExecution .
  ?evaluation prov:wasGeneratedBy ?section ; a provml:ModelEvaluation ; prov:value ?value ;
        provlake:wasDerivedFromAttribute/rdfs:label ?name .
}""",
    "validations": """
SELECT ?section ?name ?value WHERE {
  ?validation a provml:ValidationSectionExecution ; prov:wasInformedBy ?section .
  ?evaluation prov:wasGeneratedBy ?validation ; a provml:ModelEvaluation ; prov:value ?value ;
        provlake:wasDerivedFromAttribute/rdfs:label ?name .
}""",
    "settings": """
SELECT ?section ?name ?value WHERE {
  ?section provml:hyperparameterInForce ?hyperparameter .
  ?hyperparameter provlake:wasDerivedFromAttribute/rdfs:label ?name ; prov:value ?v .
  BIND(STR(?v) AS ?value)
}""",
    "batches": """
SELECT ?section ?seconds ?loss WHERE {
  ?section a provml:TrainingSectionExecution .
  ?batch provml:wasSectionOf ?section ; provml:elapsedSeconds ?seconds .
  ?evaluation prov:wasGeneratedBy ?batch ; prov:value ?loss .
}""",
}
SQL = {
    "l4": """
SELECT training, epoch, count(*), avg(seconds), min(seconds), max(seconds)
FROM epochs JOIN batches USING (section) WHERE dataset = 'DATASET' GROUP BY ALL ORDER BY ALL""",
    "l5": """
SELECT dataset, training, epoch, mean, name, value
FROM epochs JOIN measures USING (section)
LEFT JOIN (SELECT section, avg(seconds) AS mean FROM batches GROUP BY section) USING (section)
WHERE begins >= FROM AND ends <= TO ORDER BY ALL""",
    "l7": """
WITH pairs AS (
  SELECT section, 'h' AS kind, name || '=' || value AS pair FROM settings
  UNION SELECT section, 'm', name || '=' || value FROM measures
  UNION SELECT section, 'v', name || '=' || value FROM validations
)
SELECT training, epoch, (SELECT min(loss) FROM batches b WHERE b.section = e.section) AS least,
       string_agg(pair, ', ' ORDER BY pair) FILTER (kind = 'h'),
       string_agg(pair, ', ' ORDER BY pair) FILTER (kind = 'm'),
       string_agg(pair, ', ' ORDER BY pair) FILTER (kind = 'v')
FROM epochs e JOIN pairs USING (section)
WHERE begins >= FROM AND ends <= TO GROUP BY training, epoch, e.section ORDER BY least""",
}


def questions_about(store: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the questions with their values, by the name that is printed."""
    model = f"{RUN}workflow-3/data/"
    models = store.query(PREFIXES + "SELECT ?model { ?model a provml:Model ; prov:wasGeneratedBy ?epoch }")
    first = min(str(row[0].value) for row in models if row[0].value.startswith(model))
    dataset = next(iter(store.query(PREFIXES + data_of("workflow-3"))))[0].value
    run = {"run": f"{RUN}workflow-3"}
    questions: dict[str, tuple[str, dict[str, Any]]] = {"q1": ("q1", {**MODEL, "epoch": 2})}
    questions |= {f"q{number}": (f"q{number}", MODEL) for number in range(2, 9)}
    questions["q7"] = ("q7", {**MODEL, "hyperparameter": "learning_rate", "value": 0.004})
    questions |= {"l1": ("l1", {"model": first}), "l2": ("l2", {"model": first})}
    questions |= {"l3": ("l3", {"dataset": dataset}), "l4": ("l4", {"dataset": dataset})}
    for name in ("l5", "l6", "l7"):
        questions |= {name: (name, ONE_WORKFLOW), f"{name} all": (name, ALL_WORKFLOWS)}
    questions |= {f"h{number}": (f"h{number}", {**MODEL, **run}) for number in range(1, 7)}
    questions |= {"b1": ("b1", {"start": first}), "b2": ("b2", {"start": dataset})}
    questions |= {"b3": ("b3", {"model": first}), "b5": ("b5", {"dataset": dataset}), "b10": ("b10", {})}
    questions |= {"l7 high": ("l7", {**ALL_WORKFLOWS, "measure": "accuracy"}), "b12": ("b12", {})}
    return questions


def record_many(home: Path, runs: int, epochs: int = 10, first: int = 0) -> None:
    """Record many small runs, from number `first` on: twenty models, with preparations that several runs share."""
    from provml.recording.run import Run

    for number in range(first, runs):
        name = f"small-{number:05}"
        with Run("small", home=home, model=f"net {number % 20}", strict=True, run=name) as run:
            raw = run.dataset(f"raw {number % 50}".encode(), name="raw", role="raw")
            with run.filter("gray", using=raw, filter_name="gray" if number % 2 else "color") as step:
                clean = step.produced(f"clean {number % 100}".encode(), name="clean")
            slices = {"first_slice": number % 500, "last_slice": number % 500 + 99}
            tiles = run.prepared(f"tiles {number % 200}".encode(), step="tiling", using=clean, **slices)
            settings = {"learning_rate": 0.001 * (number % 10 + 1), "dropout": 0.1 * (number % 5), "optimizer": "Adam"}
            with run.training(using=tiles, **settings) as training:
                training.layers([{"name": f"dense {depth}", "type": "Dense", "units": 64} for depth in range(5)])
                for epoch in training.epochs(epochs):
                    epoch.measured(loss=1.0 / (epoch.index + number % 7), accuracy=1.0 - 1.0 / (1 + epoch.index))
                    with epoch.validation() as validation:
                        validation.measured(loss=1.1 / epoch.index)
                    if epoch.index == 5:
                        training.adapted(learning_rate=0.0005, technique="step decay")
                model = training.produced(f"weights {number}".encode())
            with run.evaluation(of=model) as test:
                test.measured(accuracy=0.5 + number * 7919 % 1000 / 2000)


def questions_about_many_runs(runs: int) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the questions about many small runs."""
    number = runs // 2 - runs // 2 % 20 + 3
    run, model = f"{RUN}small-{number:05}", {"model": "net 3"}
    produced = {"model": f"{run}/data/net-3"}
    questions: dict[str, tuple[str, dict[str, Any]]] = {f"q{index}": (f"q{index}", model) for index in range(1, 9)}
    questions["q1"], questions["q7"] = ("q1", {**model, "epoch": 5}), ("q7", {**model, "value": 0.3})
    questions |= {f"h{index}": (f"h{index}", {**model, "run": run}) for index in range(1, 7)}
    questions |= {"l1": ("l1", produced), "l2": ("l2", produced), "b3": ("b3", produced)}
    questions |= {name: (name, {"from": 100, "to": 220}) for name in ("l5", "l6", "l7")}
    questions |= {name: (name, {}) for name in ("b8", "b9", "b10", "b12")}
    return questions


def data_of(run: str) -> str:
    """Return a query for the training set of a run."""
    return (
        "SELECT ?dataset { ?training a provml:TrainingExecution ; prov:qualifiedUsage/prov:entity ?dataset "
        f"FILTER(STRSTARTS(STR(?training), '{RUN}{run}/')) }}"
    )


class Timing(NamedTuple):
    """Milliseconds of a question (median of wall and CPU time, least CPU time), and the number of its rows."""

    wall: float
    cpu: float
    least: float
    rows: int


def in_rounds(asks: dict[str, Callable[[], list[Any]]], repeat: int) -> dict[str, Timing]:
    """Return the timing of each question; the questions take turns."""
    walls: dict[str, list[float]] = {name: [] for name in asks}
    cpus: dict[str, list[float]] = {name: [] for name in asks}
    rows = {}
    for _ in range(min(ROUNDS, repeat)):
        for name, ask in asks.items():
            rows[name] = len(ask())
            for _ in range(-(-repeat // ROUNDS)):
                wall, cpu = time.perf_counter(), time.process_time()
                ask()
                walls[name].append((time.perf_counter() - wall) * 1000)
                cpus[name].append((time.process_time() - cpu) * 1000)
    median = statistics.median
    return {name: Timing(median(walls[name]), median(cpus[name]), min(cpus[name]), rows[name]) for name in asks}


def flat_tables(store: Any) -> Any:
    """Return the same data as flat tables of DuckDB in memory."""
    import duckdb
    import pandas

    tables = duckdb.connect()
    for name, query in TABLES.items():
        solutions = store.query(PREFIXES + query)
        columns = [variable.value for variable in solutions.variables]
        rows = [[_python_value(node) for node in row] for row in solutions]
        frame = pandas.DataFrame(rows, columns=columns)
        tables.register("frame", frame)
        tables.execute(f"CREATE TABLE {name} AS SELECT * FROM frame")
        tables.unregister("frame")
    return tables


def _python_value(node: Any) -> Any:
    kind = getattr(getattr(node, "datatype", None), "value", "").rpartition("#")[2]
    return float(node.value) if kind == "double" else int(node.value) if kind == "integer" else node.value


def open_index(home: Path, record_runs: Callable[[Path], Any]) -> Any:
    """Return the index of a home; record the runs first if there are none."""
    import pyoxigraph as ox

    if not (home / "runs").is_dir():
        record_runs(home)
    load_journals(home)
    return ox.Store.read_only(str(home / "index" / "store"))


def show(
    store: Any,
    title: str,
    questions: dict[str, tuple[str, dict[str, Any]]],
    repeat: int,
    before: dict[str, float],
    sql: Callable[[str], Callable[[], list[Any]] | None] = lambda name: None,
    naive: Callable[[str], Callable[[], list[Any]] | None] = lambda name: None,
) -> dict[str, float]:
    """Print the figures of a store; return the CPU milliseconds of each question."""
    from provml.catalog import Catalog, rewrite

    catalog = Catalog()
    asks: dict[str, Callable[[], list[Any]]] = {}
    for name, (question, values) in questions.items():
        asks[name] = partial(_rows, store, rewrite(catalog[question].bind(values)))
        if (sql_query := sql(name)) is not None:
            asks[f"{name} DuckDB"] = sql_query
    timings = in_rounds(asks, repeat)
    cpu_ms: dict[str, float] = {"triples": float(len(store))}
    print(f"\n{title}: {len(store):,} triples")
    print(f"{'':8}{'rows':>7}{'wall ms':>10}{'CPU ms':>10}{'least':>10}{'target':>10}{'growth':>8}  compared with")
    for name in questions:
        wall, cpu, least, rows = timings[name]
        cpu_ms[name] = cpu
        growth = f"{cpu / before[name]:.1f}" if name in before else ""
        comparisons = []
        if (limit := timings.get(f"{name} DuckDB")) is not None:
            comparisons.append(f"DuckDB {limit.cpu:.1f} ms CPU ({limit.rows} rows): {cpu / limit.cpu:.1f} times that")
        if (ask := naive(name)) is not None:
            slow = in_rounds({name: ask}, 1)[name]
            comparisons.append(f"naive {slow.cpu:,.0f} ms CPU ({slow.rows} rows): {slow.cpu / cpu:.0f} times slower")
        target = TARGETS_MS.get(name, "")
        print(f"{name:8}{rows:7}{wall:10.2f}{cpu:10.2f}{least:10.2f}{target:>10}{growth:>8}  {'; '.join(comparisons)}")
    if before:
        print(f"triples  {cpu_ms['triples'] / before['triples']:.1f} times those of the previous store")
    return cpu_ms


def _rows(store: Any, sparql: str) -> list[Any]:
    return list(store.query(sparql))


def alternatives(store: Any, questions: dict[str, tuple[str, dict[str, Any]]]) -> tuple[Callable[[str], Any], ...]:
    """Return functions that give the DuckDB query and the naive query of a question, or None."""
    tables = flat_tables(store)
    dataset = questions["l4"][1]["dataset"]

    def sql(name: str) -> Callable[[], list[Any]] | None:
        question, slices = questions[name][0], ALL_WORKFLOWS if name.endswith(" all") else ONE_WORKFLOW
        if question not in SQL or name.endswith(" high"):
            return None
        text = SQL[question].replace("FROM AND", f"{slices['from']} AND").replace("<= TO", f"<= {slices['to']}")
        return lambda: tables.execute(text.replace("DATASET", dataset)).fetchall()

    def naive(name: str) -> Callable[[], list[Any]] | None:
        return partial(_rows, store, PREFIXES + NAIVE[name].replace("DATASET", dataset)) if name in NAIVE else None

    return sql, naive


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", type=float, nargs="+", default=[0.01, 0.1])
    parser.add_argument(
        "--runs", type=int, nargs="*", default=[], help="also measure stores with these numbers of small runs"
    )
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--keep", type=Path, help="a folder that keeps the data and is used again")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        before: dict[str, float] = {}
        for scale in options.scale:
            store = open_index(folder / f"{scale:g}" / "home", partial(record, scale=scale))
            questions = questions_about(store)
            before = show(store, f"scale {scale:g}", questions, options.repeat, before, *alternatives(store, questions))
        before = {}
        for runs in options.runs:
            store = open_index(folder / f"{runs} runs" / "home", partial(record_many, runs=runs))
            before = show(store, f"{runs} runs", questions_about_many_runs(runs), options.repeat, before)


if __name__ == "__main__":
    main()
