"""Validation: compare the SPARQL engine of provml with pySHACL and pyrudof on the same shapes and graphs.

    python tests/bench/validate.py [--scale 0.0001 0.01 0.1] [--workflows 8] [--slow 200000] [--disk] [--keep FOLDER]

The graphs are those of `index.py` (10 k, 100 k and 1 M triples at these scales) in a store in memory, the shapes are
those of provml; both are loaded before the measurement. Each engine runs in a separate process, which reports its CPU
and wall time, the number of results, and its peak memory with the store. A workaround keeps pySHACL from counting the
graph for each result. pySHACL and pyrudof are slow and run only up to `--slow` triples; nothing is extrapolated.
`--disk` adds the SPARQL engine on a store on disk. pyrudof is measured if it is installed. Nothing is asserted.

    python tests/bench/validate.py --foreign [--size 2000] [--limit 300] [--dcat-ap FOLDER] [--keep FOLDER]

measures shapes of others (see `foreign_shapes.py`) against pySHACL on an rdflib graph in memory, in one run. Both
engines apply the rules of the shapes. Data and shapes are loaded before; compiling the shapes is shown separately. An
engine that needs more CPU seconds than the limit is ended, and its ratio is a lower bound.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

NAMES = {"sparql": "SPARQL", "disk": "SPARQL, on disk", "pyshacl": "pySHACL", "pyrudof": "pyrudof"}


def load(ntriples: Path, folder: Path | None) -> Any:
    import pyoxigraph as ox

    store = ox.Store() if folder is None else ox.Store(str(folder))
    store.bulk_load(path=str(ntriples), format=ox.RdfFormat.N_TRIPLES)
    return store


def by_sparql(ntriples: Path, folder: Path | None) -> Any:
    from provml.validation.shacl import compile_shapes, validate
    from provml.validation.shape_files import builtin_shapes

    began = time.process_time()
    shapes = compile_shapes(builtin_shapes())
    read = time.process_time() - began
    store = load(ntriples, folder)
    return lambda: (len(validate(store, shapes)), read)


def by_pyshacl(ntriples: Path) -> Any:
    import pyshacl
    import rdflib
    from pyshacl.graph_abstraction import OxigraphDataGraph

    from provml.validation.shape_files import builtin_shapes

    class Graph(OxigraphDataGraph):
        def __bool__(self) -> bool:
            return True

    began = time.process_time()
    parsed = rdflib.Graph()
    for path in builtin_shapes():
        parsed.parse(path)
    shapes = rdflib.Graph()
    for subject, predicate, node in parsed:  # pySHACL reads texts of Oxigraph with their datatype
        is_text = isinstance(node, rdflib.Literal) and node.datatype is None and node.language is None
        shapes.add((subject, predicate, rdflib.Literal(str(node), datatype=rdflib.XSD.string) if is_text else node))
    read = time.process_time() - began
    store = load(ntriples, None)

    def run() -> tuple[int, float]:
        _, report, _ = pyshacl.validate(Graph(store), shacl_graph=shapes, inplace=True)
        count = "SELECT (COUNT(*) AS ?n) { ?r a sh:ValidationResult FILTER NOT EXISTS { ?x sh:detail ?r } }"
        return int(next(iter(report.query(count, initNs={"sh": "http://www.w3.org/ns/shacl#"})))[0]), read

    return run


def by_pyrudof(ntriples: Path) -> Any:
    import pyrudof

    from provml.validation.shape_files import builtin_shapes

    rudof = pyrudof.Rudof(pyrudof.RudofConfig())
    began = time.process_time()
    shapes = "\n".join(path.read_text() for path in builtin_shapes())
    rudof.read_shacl(shapes, pyrudof.ShaclFormat.Turtle)
    read = time.process_time() - began
    rudof.read_data(ntriples.read_text(), pyrudof.RDFFormat.NTriples)

    return lambda: (len(rudof.validate_shacl(pyrudof.ShaclValidationMode.Native)), read)


def foreign_by_sparql(data: Path, files: list[Path]) -> tuple[float, float, int]:
    """Return the CPU seconds of compiling and validating, and the number of results."""
    from provml.validation.graph import load_graph
    from provml.validation.shacl import compile_shapes, validate

    began = time.process_time()
    shapes = compile_shapes(files)
    compiled = time.process_time()
    graph = load_graph(data, "none")
    loaded = time.process_time()
    count = len(validate(graph, shapes))
    return compiled - began, time.process_time() - loaded, count


def foreign_by_pyshacl(data: Path, files: list[Path]) -> tuple[float, float, int]:
    import logging

    import pyshacl
    import rdflib

    logging.disable(logging.WARNING)  # rdflib logs each literal that is not well-formed
    began = time.process_time()
    shapes = rdflib.Graph()
    for path in files:
        shapes.parse(path, format="turtle")
    compiled = time.process_time()
    graph = rdflib.Graph()
    graph.parse(data, format="nt")
    loaded = time.process_time()
    _, report, _ = pyshacl.validate(graph, shacl_graph=shapes, advanced=True, inplace=True)
    took = time.process_time() - loaded
    query = "SELECT (COUNT(*) AS ?n) { ?r a sh:ValidationResult FILTER NOT EXISTS { ?x sh:detail ?r } }"
    (row,) = report.query(query, initNs={"sh": "http://www.w3.org/ns/shacl#"})
    return compiled - began, took, int(row[0])


def foreign(options: argparse.Namespace, folder: Path) -> None:
    """Measure the shapes of others, both engines one after the other in separate processes."""
    import foreign_shapes

    foreign_shapes.download(folder)
    print(f"{'':28}{'triples':>9}{'SPARQL CPU s':>14}{'compiling':>11}{'pySHACL':>9}{'ratio':>7}{'results':>18}")
    for name, files, data in foreign_shapes.cases(folder, options.dcat_ap, options.size):
        rows = []
        for engine in ("sparql", "pyshacl"):
            command = [
                sys.executable,
                "-W",
                "ignore",
                __file__,
                "--foreign-contender",
                engine,
                str(data),
                *map(str, files),
            ]
            result = subprocess.run(
                command,
                capture_output=True,
                text=True,
                check=False,
                preexec_fn=partial(resource.setrlimit, resource.RLIMIT_CPU, (options.limit, options.limit)),
            )
            last = (result.stdout if result.returncode == 0 else result.stderr).strip().splitlines() or ["?"]
            rows.append(json.loads(last[-1]) if result.returncode == 0 else last[-1][:60])
            if result.returncode == -signal.SIGKILL:  # by the limit
                rows[-1] = None
        with data.open("rb") as lines:
            triples = sum(1 for _ in lines)
        if any(isinstance(row, str) for row in rows):
            print(f"{name:28}{triples:9,}  {rows}")
            continue
        if rows[0] is not None and rows[1] is None:
            compiling, own, count = rows[0]
            limit, ratio = f">{options.limit}", f">{options.limit / own:.0f}"
            print(f"{name:28}{triples:9,}{own:14.2f}{compiling:11.2f}{limit:>9}{ratio:>7}{f'{count} / ?':>18}")
            continue
        (compiling, own, count), (_, other, others) = rows
        figures = f"{own:14.2f}{compiling:11.2f}{other:9.2f}{other / own:7.0f}"
        print(f"{name:28}{triples:9,}{figures}{f'{count} / {others}':>18}")


def contender(name: str, ntriples: Path, folder: Path) -> None:
    """Run an engine in this process and print its times, memory and number of results."""
    if name in ("sparql", "disk"):
        run = by_sparql(ntriples, folder if name == "disk" else None)
    else:
        run = by_pyshacl(ntriples) if name == "pyshacl" else by_pyrudof(ntriples)
    loaded = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, cpu = time.perf_counter(), time.process_time()
    results, read = run()
    measured = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - began, "read": read, "results": results}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({**measured, "rss": peak * 1024, "more": (peak - loaded) * 1024}))


def measure(name: str, ntriples: Path, folder: Path) -> dict[str, float] | str:
    """Run an engine in a separate process; return its figures, or its last line of output if it fails."""
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, __file__, "--contender", name, str(ntriples), str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        return (result.stderr.strip().splitlines() or [f"exited with {result.returncode}"])[-1][:100]
    measured: dict[str, float] = json.loads(result.stdout.splitlines()[-1])
    return measured


def show(triples: int, figures: dict[str, dict[str, float] | str], before: tuple[int, Any] | None) -> None:
    """Print the figures of a graph."""
    print(f"\n{triples:,} triples")
    print(f"{'':20}{'CPU s':>9}{'wall s':>9}{'results':>9}{'peak MB':>9}{'grown MB':>9}{'CPU, SPARQL = 1':>19}")
    sparql = figures["sparql"]
    for name, row in figures.items():
        if isinstance(row, str) or isinstance(sparql, str):
            print(f"{NAMES[name]:20}{row}")
            continue
        memory = f"{row['rss'] / 1e6:9.0f}{row['more'] / 1e6:9.0f}"
        figures_text = (
            f"{row['cpu']:9.2f}{row['wall']:9.2f}{row['results']:9.0f}{memory}{row['cpu'] / sparql['cpu']:19.1f}"
        )
        print(f"{NAMES[name]:20}{figures_text}")
    if not isinstance(sparql, str):
        print(f"reading and compiling the shapes took {sparql['read']:.2f} s of CPU more")
        if before is not None and not isinstance(before[1], str):
            cost = sparql["cpu"] / before[1]["cpu"]
            print(f"{triples / before[0]:.1f} times the triples cost the SPARQL engine {cost:.1f} times the CPU time")


def main() -> None:
    if sys.argv[1:2] == ["--contender"]:
        name, *paths = sys.argv[2:]
        contender(name, *map(Path, paths))
        return
    if sys.argv[1:2] == ["--foreign-contender"]:
        run = foreign_by_sparql if sys.argv[2] == "sparql" else foreign_by_pyshacl
        print(json.dumps(run(Path(sys.argv[3]), list(map(Path, sys.argv[4:])))))
        return
    import index

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", type=float, nargs="+", default=[0.0001, 0.01, 0.1])
    parser.add_argument("--workflows", type=int, default=index.WORKFLOWS, help="the number of recorded workflows")
    parser.add_argument("--slow", type=int, default=200_000, help="the largest number of triples for the other engines")
    parser.add_argument("--disk", action="store_true", help="also measure the SPARQL engine on a store on disk")
    parser.add_argument("--keep", type=Path, help="a folder that keeps the data (default: removed at the end)")
    parser.add_argument("--foreign", action="store_true", help="measure shapes of others instead")
    parser.add_argument("--size", type=int, default=2000, help="with --foreign: rooms, files and datasets")
    parser.add_argument("--limit", type=int, default=300, help="with --foreign: CPU seconds of an engine for a case")
    parser.add_argument("--dcat-ap", type=Path, help="with --foreign: the folder of the shapes of DCAT-AP")
    options = parser.parse_args()
    index.WORKFLOWS = options.workflows
    with tempfile.TemporaryDirectory() as temporary:
        if options.foreign:
            foreign(options, options.keep or Path(temporary))
            return
        before: tuple[int, Any] | None = None
        for scale in options.scale:
            folder = (options.keep or Path(temporary)) / f"{scale:g}"
            index.record(folder / "home", scale)
            triples = index.write_ntriples(folder / "home", folder / "all.nt")
            names = ["sparql", *(["disk"] if options.disk else [])]
            if triples <= options.slow:
                names += ["pyshacl", *(["pyrudof"] if importlib.util.find_spec("pyrudof") else [])]
            figures = {name: measure(name, folder / "all.nt", folder / "store") for name in names}
            show(triples, figures, before)
            if triples > options.slow:
                print(f"pySHACL and pyrudof are not run beyond {options.slow:,} triples (--slow)")
            before = triples, figures["sparql"]


if __name__ == "__main__":
    main()
