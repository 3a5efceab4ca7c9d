"""Questions on an index of the disk, next to DuckDB over flat tables and to SPARQL that adds up batches, in one run.

    python tests/bench/queries.py [--scale 0.01 0.1 1] [--runs 200 2000] [--repeat 15] [--keep FOLDER]

The data is that of `index.py`. Each question runs as bound SPARQL on the opened index, rows taken into Python. All are
asked in five rounds, since the machine is quicker at one time than at another; the first time in a round, which warms
the caches, is not counted, and the median of the others is shown, by wall and by CPU, with the least. l5, l6 and l7 are
asked for the slices of one workflow of the eight, and `all` for those of all. The limit is DuckDB over tables of
the same data, flat and in memory. The naive way is the paper's: it adds up batches, where the catalog reads what was
rolled up when an epoch ended. Growth compares with the scale before. With `--runs` the questions are also asked of so
many small runs, a twentieth of which are of one model. Nothing is asserted.
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
ONE, ALL = {"from": 300, "to": 399}, {"from": 0, "to": 1_000_000}
TO_REACH = {"l1": 2, "l4": 100, "l5": 100, "l7 all": 2000, **{f"q{number}": 50 for number in range(1, 9)}}
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
  ?held prov:wasGeneratedBy ?section ; a provml:ModelEvaluation ; prov:value ?value ;
        provlake:wasDerivedFromAttribute/rdfs:label ?name .
}""",
    "validations": """
SELECT ?section ?name ?value WHERE {
  ?twin a provml:ValidationSectionExecution ; prov:wasInformedBy ?section .
  ?held prov:wasGeneratedBy ?twin ; a provml:ModelEvaluation ; prov:value ?value ;
        provlake:wasDerivedFromAttribute/rdfs:label ?name .
}""",
    "settings": """
SELECT ?section ?name ?value WHERE {
  ?section provml:hyperparameterInForce ?held .
  ?held provlake:wasDerivedFromAttribute/rdfs:label ?name ; prov:value ?v .
  BIND(STR(?v) AS ?value)
}""",
    "batches": """
SELECT ?section ?seconds ?loss WHERE {
  ?section a provml:TrainingSectionExecution .
  ?batch provml:wasSectionOf ?section ; provml:elapsedSeconds ?seconds .
  ?held prov:wasGeneratedBy ?batch ; prov:value ?loss .
}""",
}
FLAT = {
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


def cases(store: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """What is asked, by the name that it is shown under."""
    model = f"{RUN}workflow-3/data/"
    models = store.query(PREFIXES + "SELECT ?model { ?model a provml:Model ; prov:wasGeneratedBy ?epoch }")
    one = min(str(row[0].value) for row in models if row[0].value.startswith(model))
    dataset = next(iter(store.query(PREFIXES + data_of("workflow-3"))))[0].value
    run = {"run": f"{RUN}workflow-3"}
    asked: dict[str, tuple[str, dict[str, Any]]] = {"q1": ("q1", {**MODEL, "epoch": 2})}
    asked |= {f"q{number}": (f"q{number}", MODEL) for number in range(2, 9)}
    asked["q7"] = ("q7", {**MODEL, "hyperparameter": "learning_rate", "value": 0.004})
    asked |= {"l1": ("l1", {"model": one}), "l2": ("l2", {"model": one})}
    asked |= {"l3": ("l3", {"dataset": dataset}), "l4": ("l4", {"dataset": dataset})}
    for name in ("l5", "l6", "l7"):
        asked |= {name: (name, ONE), f"{name} all": (name, ALL)}
    asked |= {f"h{number}": (f"h{number}", {**MODEL, **run}) for number in range(1, 7)}
    asked |= {"b1": ("b1", {"start": one}), "b2": ("b2", {"start": dataset})}
    asked |= {"b3": ("b3", {"model": one}), "b5": ("b5", {"dataset": dataset}), "b10": ("b10", {})}
    return asked


def record_many(home: Path, runs: int) -> None:
    """Many small runs: twenty models, and preparations that several of them repeat."""
    from provml.recorder import Recorder

    for number in range(runs):
        name = f"small-{number:05}"
        with Recorder("small", home=home, model=f"net {number % 20}", strict=True, run=name) as run:
            raw = run.dataset(f"raw {number % 50}".encode(), name="raw", role="raw")
            with run.filter("gray", using=raw, filter_name="gray" if number % 2 else "color") as step:
                clean = step.produced(f"clean {number % 100}".encode(), name="clean")
            slices = {"first_slice": number % 500, "last_slice": number % 500 + 99}
            tiles = run.prepared(f"tiles {number % 200}".encode(), by="tiling", using=clean, **slices)
            settings = {"learning_rate": 0.001 * (number % 10 + 1), "dropout": 0.1 * (number % 5), "optimizer": "Adam"}
            with run.training(using=tiles, **settings) as training:
                training.layers([{"name": f"dense {depth}", "type": "Dense", "units": 64} for depth in range(5)])
                for epoch in training.epochs(10):
                    epoch.measured(loss=1.0 / (epoch.index + number % 7), accuracy=1.0 - 1.0 / (1 + epoch.index))
                    with epoch.validation() as validation:
                        validation.measured(loss=1.1 / epoch.index)
                    if epoch.index == 5:
                        training.adapted(learning_rate=0.0005, technique="step decay")
                model = training.produced(f"weights {number}".encode())
            with run.evaluation(of=model) as test:
                test.measured(accuracy=0.5 + number * 7919 % 1000 / 2000)


def cases_of_many(runs: int) -> dict[str, tuple[str, dict[str, Any]]]:
    """What is asked of many small runs."""
    number = runs // 2 - runs // 2 % 20 + 3
    run, model = f"{RUN}small-{number:05}", {"model": "net 3"}
    made = {"model": f"{run}/data/net-3"}
    asked: dict[str, tuple[str, dict[str, Any]]] = {f"q{one}": (f"q{one}", model) for one in range(1, 9)}
    asked["q1"], asked["q7"] = ("q1", {**model, "epoch": 5}), ("q7", {**model, "value": 0.3})
    asked |= {f"h{one}": (f"h{one}", {**model, "run": run}) for one in range(1, 7)}
    asked |= {"l1": ("l1", made), "l2": ("l2", made), "b3": ("b3", made)}
    asked |= {one: (one, {"from": 100, "to": 220}) for one in ("l5", "l6", "l7")}
    asked |= {one: (one, {}) for one in ("b8", "b9", "b10")}
    return asked


def data_of(run: str) -> str:
    """A query for the training set of a run."""
    return (
        "SELECT ?dataset { ?training a provml:TrainingExecution ; prov:qualifiedUsage/prov:entity ?dataset "
        f"FILTER(STRSTARTS(STR(?training), '{RUN}{run}/')) }}"
    )


class Took(NamedTuple):
    """Milliseconds that a question took, the median of wall and CPU and the least of CPU, and how many rows it has."""

    wall: float
    cpu: float
    least: float
    rows: int


def in_rounds(asks: dict[str, Callable[[], list[Any]]], repeat: int) -> dict[str, Took]:
    """What each question takes, all of them asked in turns."""
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
    middle = statistics.median
    return {name: Took(middle(walls[name]), middle(cpus[name]), min(cpus[name]), rows[name]) for name in asks}


def flat(store: Any) -> Any:
    """The same data as flat tables of DuckDB, in memory."""
    import duckdb
    import pandas

    tables = duckdb.connect()
    for name, query in TABLES.items():
        found = store.query(PREFIXES + query)
        columns = [variable.value for variable in found.variables]
        rows = [[_plain(node) for node in row] for row in found]
        frame = pandas.DataFrame(rows, columns=columns)
        tables.register("frame", frame)
        tables.execute(f"CREATE TABLE {name} AS SELECT * FROM frame")
        tables.unregister("frame")
    return tables


def _plain(node: Any) -> Any:
    kind = getattr(getattr(node, "datatype", None), "value", "").rpartition("#")[2]
    return float(node.value) if kind == "double" else int(node.value) if kind == "integer" else node.value


def opened(home: Path, make: Callable[[Path], Any]) -> Any:
    """The index of some data, which is made where it is not there."""
    import pyoxigraph as ox

    if not (home / "runs").is_dir():
        make(home)
    load_journals(home)
    return ox.Store.read_only(str(home / "index" / "store"))


def show(
    store: Any,
    title: str,
    asked: dict[str, tuple[str, dict[str, Any]]],
    repeat: int,
    before: dict[str, float],
    sql: Callable[[str], Callable[[], list[Any]] | None] = lambda name: None,
    naive: Callable[[str], Callable[[], list[Any]] | None] = lambda name: None,
) -> dict[str, float]:
    """Print the figures of one store; the CPU milliseconds of each question."""
    from provml.catalog import Catalog

    catalog = Catalog()
    asks: dict[str, Callable[[], list[Any]]] = {}
    for name, (question, values) in asked.items():
        asks[name] = partial(_rows, store, catalog[question].bind(values))
        if (flatly := sql(name)) is not None:
            asks[f"{name} DuckDB"] = flatly
    found = in_rounds(asks, repeat)
    took: dict[str, float] = {"triples": float(len(store))}
    print(f"\n{title}: {len(store):,} triples")
    print(f"{'':8}{'rows':>7}{'wall ms':>10}{'CPU ms':>10}{'least':>10}{'to reach':>10}{'growth':>8}  next to")
    for name in asked:
        wall, cpu, least, rows = found[name]
        took[name] = cpu
        grown = f"{cpu / before[name]:.1f}" if name in before else ""
        others = []
        if (limit := found.get(f"{name} DuckDB")) is not None:
            others.append(f"DuckDB {limit.cpu:.1f} ms CPU ({limit.rows} rows): {cpu / limit.cpu:.1f} times that")
        if (ask := naive(name)) is not None:
            slow = in_rounds({name: ask}, 1)[name]
            others.append(f"naive {slow.cpu:,.0f} ms CPU ({slow.rows} rows): {slow.cpu / cpu:.0f} times slower")
        reach = TO_REACH.get(name, "")
        print(f"{name:8}{rows:7}{wall:10.2f}{cpu:10.2f}{least:10.2f}{reach:>10}{grown:>8}  {'; '.join(others)}")
    if before:
        print(f"triples  {took['triples'] / before['triples']:.1f} times those of the one before")
    return took


def _rows(store: Any, sparql: str) -> list[Any]:
    return list(store.query(sparql))


def beside(store: Any, asked: dict[str, tuple[str, dict[str, Any]]]) -> tuple[Callable[[str], Any], ...]:
    """What asks DuckDB and what asks in the naive way, for the questions that have them."""
    tables = flat(store)
    dataset = asked["l4"][1]["dataset"]

    def sql(name: str) -> Callable[[], list[Any]] | None:
        question, slices = asked[name][0], ALL if name.endswith(" all") else ONE
        if question not in FLAT:
            return None
        text = FLAT[question].replace("FROM AND", f"{slices['from']} AND").replace("<= TO", f"<= {slices['to']}")
        return lambda: tables.execute(text.replace("DATASET", dataset)).fetchall()

    def naive(name: str) -> Callable[[], list[Any]] | None:
        return partial(_rows, store, PREFIXES + NAIVE[name].replace("DATASET", dataset)) if name in NAIVE else None

    return sql, naive


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", type=float, nargs="+", default=[0.01, 0.1])
    parser.add_argument("--runs", type=int, nargs="*", default=[], help="ask also of so many small runs")
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--keep", type=Path, help="a folder for the data, taken up again if it is there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        kept = options.keep or Path(temporary)
        before: dict[str, float] = {}
        for scale in options.scale:
            store = opened(kept / f"{scale:g}" / "home", partial(record, scale=scale))
            asked = cases(store)
            before = show(store, f"scale {scale:g}", asked, options.repeat, before, *beside(store, asked))
        before = {}
        for runs in options.runs:
            store = opened(kept / f"{runs} runs" / "home", partial(record_many, runs=runs))
            before = show(store, f"{runs} runs", cases_of_many(runs), options.repeat, before)


if __name__ == "__main__":
    main()
