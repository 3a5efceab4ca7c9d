"""Lake: compare Parquet and DuckDB with the index, and show Spark with one, two and four executors.

    python tests/bench/lake.py [--scale 0.1 1] [--repeat 9] [--spark 1 2 4] [--keep FOLDER]

The data is that of `index.py`. Building runs in a process of its own for the index and for the lake, which reports its
CPU time (all threads). Questions are asked of both in one process, by turns; the first call of each is not counted.
`ask` is what users call; `engine` is the query alone, its rows read into Python. `all` asks about all workflows. Sizes
are compared with the N-Triples of the same journals. Nothing is asserted.

`--spark` starts a standalone cluster on this machine, with one core per executor: more executors than cores share them,
so the figures say what distribution costs, not what a cluster gains. `10 times` has ten copies of the measures of
batches, under other names.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from index import record, write_ntriples

TESTS = Path(__file__).parents[1]
RUN = "https://w3id.org/provml/run/"
ONE, ALL = {"from": 300, "to": 399}, {"from": 0, "to": 1_000_000}
QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "l4": ("l4", {"dataset": "tiling"}),
    "l5": ("l5", ONE),
    "l5 all": ("l5", ALL),
    "l7": ("l7", ONE),
    "l7 all": ("l7", ALL),
    "q3": ("q3", {"model": "seismic"}),
    "q5": ("q5", {"model": "seismic"}),
    "b10": ("b10", {}),
    "b12": ("b12", {}),
}
SCAN = """SELECT section, name, count(*) AS batches, min(number) AS least, max(number) AS greatest, avg(number) AS mean
FROM batch_measures GROUP BY section, name ORDER BY section, name"""


def contender(name: str, home: Path, folder: Path) -> None:
    """Build the index or the lake in this process; print CPU time, wall time and peak memory, without imports."""
    import fsspec.implementations.local  # noqa: F401  # imported before the measurement, as all that follows
    import pyarrow.compute
    import pyarrow.parquet  # noqa: F401

    import provml.lake.writing
    import provml.mapping.mapper
    import provml.store

    began, cpu = time.perf_counter(), time.process_time()
    if name == "index":
        with provml.store.Store(home) as store:
            store.sync()
    else:
        provml.lake.writing.build(home, folder)
    figures = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - began}
    print(json.dumps({**figures, "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


def measure_build(name: str, home: Path, folder: Path) -> dict[str, float]:
    """Build in a separate process."""
    command = [sys.executable, __file__, "--contender", name, str(home), str(folder)]
    figures: dict[str, float] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return figures


def size(folder: Path) -> int:
    """Return the bytes of a folder; files with several hard links count once."""
    sizes = {path.stat().st_ino: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    return sum(sizes.values())


def in_turns(calls: dict[str, Callable[[], Any]], repeat: int) -> dict[str, tuple[float, float, int]]:
    """Return the median CPU and wall milliseconds of each call, and the number of rows that it gave."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    rows = {name: len(call()) for name, call in calls.items()}
    for _ in range(repeat):
        for name, call in calls.items():
            wall, cpu = time.perf_counter(), time.process_time()
            call()
            times[name].append(((time.process_time() - cpu) * 1000, (time.perf_counter() - wall) * 1000))
    median = statistics.median
    return {
        name: (median(c for c, _ in pairs), median(w for _, w in pairs), rows[name]) for name, pairs in times.items()
    }


def compare_questions(home: Path, folder: Path, repeat: int) -> None:
    """Print the times of the questions on the index and on the lake."""
    import provml.lake
    from provml.catalog import rewrite
    from provml.lake.twins import twins
    from provml.store import Store

    with Store(home) as store, provml.lake.open(folder) as lake:
        dataset = store.query(
            "SELECT ?d { ?t a provml:TrainingExecution ; provml:learnedFrom/prov:specializationOf? ?d "
            f"FILTER(STRSTARTS(STR(?t), '{RUN}workflow-3/')) FILTER(STRSTARTS(STR(?d), 'urn:')) }}"
        )
        questions = {**QUESTIONS, "l4": ("l4", {"dataset": dataset[0][0]})}
        calls: dict[str, Callable[[], Any]] = {}
        for name, (question, values) in questions.items():
            query = store.catalog[question]
            params = {key: values.get(key, param.default) for key, param in query.params.items()}
            params = {key: str(value) if isinstance(value, str) else value for key, value in params.items()}
            sparql = rewrite(query.bind(values))
            calls[f"{name} ask index"] = partial(store.ask, question, **values)
            calls[f"{name} ask lake"] = partial(lake.ask, question, **values)
            calls[f"{name} engine index"] = partial(_rows, store.graph(), sparql)
            calls[f"{name} engine lake"] = partial(_lake_rows, lake, twins()[query.name], params)
        times = in_turns(calls, repeat)
    titles = ("CPU ms of ask: index, lake, ratio", "wall ms of ask", "CPU ms of the engine alone")
    print(f"\n{'':8}{'rows':>7}  " + "  ".join(f"{title:>36}" for title in titles))
    for name in questions:
        columns = [(f"{name} ask", 0), (f"{name} ask", 1), (f"{name} engine", 0)]
        pairs = [[times[f"{call} {engine}"][kind] for engine in ("index", "lake")] for call, kind in columns]
        cells = "".join(f"{a:14.1f}{b:12.1f}{a / b:10.1f}  " for a, b in pairs)
        print(f"{name:8}{times[f'{name} ask lake'][2]:7}  {cells}")


def _rows(graph: Any, sparql: str) -> list[Any]:
    return list(graph.query(sparql))


def _lake_rows(lake: Any, sql: str, params: dict[str, Any]) -> list[Any]:
    return lake.engine.rows_without_times(sql, params)[1]


def run_scale(scale: float, repeat: int, folder: Path) -> Path:
    """Print all figures of a scale; return the folder of the lake."""
    home, lake, ntriples = folder / "home", folder / "lake", folder / "all.nt"
    if not (home / "runs").is_dir():
        record(home, scale)
    triples = write_ntriples(home, ntriples)
    nt_bytes = ntriples.stat().st_size
    ntriples.unlink()
    shutil.rmtree(home / "index", ignore_errors=True)
    shutil.rmtree(lake, ignore_errors=True)
    built = {name: measure_build(name, home, lake) for name in ("lake", "index")}
    print(f"\nscale {scale:g}: {triples:,} triples, journals {size(home / 'runs') / 1e6:.1f} MB")
    sizes = {"index": size(home / "index"), "lake": size(lake)}
    for name, figures in built.items():
        print(
            f"{name:8} built in {figures['cpu']:8.2f} CPU s, {figures['wall']:8.2f} s of wall time, peak "
            f"{figures['rss'] / 1e6:6.0f} MB; {sizes[name] / 1e6:8.2f} MB"
        )
    print(f"the lake takes 1/{built['index']['cpu'] / built['lake']['cpu']:.1f} of the CPU time (target: 1/10)")
    print(f"N-Triples {nt_bytes / 1e6:,.0f} MB: the lake has 1/{nt_bytes / sizes['lake']:.0f} of that (target: 1/100)")
    compare_questions(home, lake, repeat)
    return lake


def multiply(folder: Path, out: Path, times: int) -> Path:
    """Write a copy of a lake with several copies of the measures of batches, under other names of sections."""
    import msgspec
    import pyarrow.compute as pc

    from provml.lake.folder import LakeFolder, Manifest

    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(folder, out)
    files = LakeFolder(out)
    manifest = files.require()
    parts = dict(manifest.parts)
    for part in manifest.parts.values():
        rows = files.read_table("batch_measures", part)
        for number in range(1, times):
            section = pc.binary_join_element_wise(rows.column("section"), str(number), "~")
            copy = rows.set_column(rows.column_names.index("section"), "section", section)
            new = files.write_part({"batch_measures": copy})
            parts[new.name] = new
    changed: Manifest = msgspec.structs.replace(manifest, parts=parts)
    files.commit(changed, manifest)
    return out


def compare_spark(folder: Path, executors: list[int], repeat: int) -> None:
    """Print the wall times of Spark by the number of executors, and those of DuckDB."""
    import os

    import provml.lake

    sys.path.insert(0, str(TESTS))
    from lake.spark_cluster import cluster, session

    ten = multiply(folder, folder.with_name("lake-10"), 10)
    print(f"\nwall s on this machine ({os.cpu_count()} cores), median of {repeat} after a first call")
    print(f"{'':22}{'l5 all':>10}{'l7 all':>10}{'scan':>10}{'scan 10 times':>15}{'growth':>8}")
    with provml.lake.open(folder) as lake, provml.lake.open(ten) as large:
        _show_engine("DuckDB", lake, large, repeat)
    for count in executors:
        with tempfile.TemporaryDirectory() as temporary, cluster(Path(temporary), count) as url:
            spark = session(url)
            try:
                lake = provml.lake.open(folder, engine="spark", session=spark)
                calls = _calls(lake)
                times = in_turns(calls, repeat)
                large = provml.lake.open(ten, engine="spark", session=spark)
                times |= in_turns({"ten": partial(_scan, large)}, repeat)
                _print_engine(f"Spark, {count} executor(s)", times)
            finally:
                spark.stop()


def _calls(lake: Any) -> dict[str, Callable[[], Any]]:
    return {
        "l5": partial(lake.ask, "l5", **ALL),
        "l7": partial(lake.ask, "l7", **ALL),
        "scan": partial(_scan, lake),
    }


def _scan(lake: Any) -> list[Any]:
    return list(lake.rows(SCAN)[1])


def _show_engine(title: str, lake: Any, large: Any, repeat: int) -> None:
    _print_engine(title, in_turns({**_calls(lake), "ten": partial(_scan, large)}, repeat))


def _print_engine(title: str, times: dict[str, tuple[float, float, int]]) -> None:
    l5, l7, scan, ten = (times[name][1] / 1000 for name in ("l5", "l7", "scan", "ten"))
    print(f"{title:22}{l5:10.2f}{l7:10.2f}{scan:10.2f}{ten:15.2f}{ten / scan:8.1f}", flush=True)


def main() -> None:
    if sys.argv[1:2] == ["--contender"]:
        name, *paths = sys.argv[2:]
        contender(name, *map(Path, paths))
        return
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", type=float, nargs="+", default=[0.1])
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--spark", type=int, nargs="*", default=[], help="numbers of executors")
    parser.add_argument("--keep", type=Path, help="a folder that keeps the data (default: removed at the end)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        for scale in options.scale:
            lake = run_scale(scale, options.repeat, (options.keep or Path(temporary)) / f"{scale:g}")
        if options.spark:
            compare_spark(lake, options.spark, min(options.repeat, 3))


if __name__ == "__main__":
    main()
