"""The compiled SHACL engine next to pySHACL and pyrudof on the same shapes and graphs, with memory and growth.

    python tests/bench/validate.py [--scale 0.0001 0.01 0.1] [--workflows 8] [--slow 200000] [--disk] [--keep FOLDER]

The graphs are those of `index.py`, made through the recorder (10 k, 100 k and 1 M triples at these scales), in a memory
store that is loaded before the clock starts; the shapes are provml's own, read before it too. Each engine runs in a
process of its own, which tells its CPU and wall time, how many results there are, and its peak memory, the store
included. pySHACL has the remedy that keeps it from counting the graph for each result. The others are run up to
`--slow` triples only, since they take long beyond: nothing is extrapolated. `--disk` adds the compiled engine on a
store on disk. pyrudof is measured where it is installed. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

NAMES = {"compiled": "compiled", "disk": "compiled, on disk", "pyshacl": "pySHACL", "pyrudof": "pyrudof"}


def load(ntriples: Path, folder: Path | None) -> Any:
    import pyoxigraph as ox

    store = ox.Store() if folder is None else ox.Store(str(folder))
    store.bulk_load(path=str(ntriples), format=ox.RdfFormat.N_TRIPLES)
    return store


def by_compiled(ntriples: Path, folder: Path | None) -> Any:
    from provml.validation.compiled import compile_shapes, validate
    from provml.validation.reference import own_shapes

    began = time.process_time()
    shapes = compile_shapes(own_shapes())
    read = time.process_time() - began
    store = load(ntriples, folder)
    return lambda: (len(validate(store, shapes)), read)


def by_pyshacl(ntriples: Path) -> Any:
    import pyshacl
    from pyshacl.graph_abstraction import OxigraphDataGraph

    from provml.validation.reference import load_shapes, own_shapes

    class Graph(OxigraphDataGraph):
        def __bool__(self) -> bool:
            return True

    began = time.process_time()
    shapes = load_shapes(own_shapes())
    read = time.process_time() - began
    store = load(ntriples, None)

    def run() -> tuple[int, float]:
        _, report, _ = pyshacl.validate(Graph(store), shacl_graph=shapes, inplace=True)
        told = "SELECT (COUNT(*) AS ?n) { ?r a sh:ValidationResult FILTER NOT EXISTS { ?x sh:detail ?r } }"
        return int(next(iter(report.query(told, initNs={"sh": "http://www.w3.org/ns/shacl#"})))[0]), read

    return run


def by_pyrudof(ntriples: Path) -> Any:
    import pyrudof

    from provml.validation.reference import own_shapes

    rudof = pyrudof.Rudof(pyrudof.RudofConfig())
    began = time.process_time()
    shapes = "\n".join(path.read_text() for path in own_shapes())
    rudof.read_shacl(shapes, pyrudof.ShaclFormat.Turtle)
    read = time.process_time() - began
    rudof.read_data(ntriples.read_text(), pyrudof.RDFFormat.NTriples)

    return lambda: (len(rudof.validate_shacl(pyrudof.ShaclValidationMode.Native)), read)


def contender(name: str, ntriples: Path, folder: Path) -> None:
    """Run one engine in this process and print what it took."""
    if name in ("compiled", "disk"):
        run = by_compiled(ntriples, folder if name == "disk" else None)
    else:
        run = by_pyshacl(ntriples) if name == "pyshacl" else by_pyrudof(ntriples)
    loaded = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, cpu = time.perf_counter(), time.process_time()
    results, read = run()
    took = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - began, "read": read, "results": results}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({**took, "rss": peak * 1024, "more": (peak - loaded) * 1024}))


def measure(name: str, ntriples: Path, folder: Path) -> dict[str, float] | str:
    """Run one engine in a process of its own; where it fails, what it said last."""
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, __file__, "--contender", name, str(ntriples), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1][:100]
    took: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return took


def show(triples: int, figures: dict[str, dict[str, float] | str], before: tuple[int, Any] | None) -> None:
    """Print the figures of one graph."""
    print(f"\n{triples:,} triples")
    print(f"{'':20}{'CPU s':>9}{'wall s':>9}{'results':>9}{'peak MB':>9}{'grown MB':>9}{'CPU, compiled = 1':>19}")
    ours = figures["compiled"]
    for name, took in figures.items():
        if isinstance(took, str) or isinstance(ours, str):
            print(f"{NAMES[name]:20}{took}")
            continue
        memory = f"{took['rss'] / 1e6:9.0f}{took['more'] / 1e6:9.0f}"
        row = f"{took['cpu']:9.2f}{took['wall']:9.2f}{took['results']:9.0f}{memory}{took['cpu'] / ours['cpu']:19.1f}"
        print(f"{NAMES[name]:20}{row}")
    if not isinstance(ours, str):
        print(f"reading and compiling the shapes took {ours['read']:.2f} s of CPU more")
        if before is not None and not isinstance(before[1], str):
            cost = ours["cpu"] / before[1]["cpu"]
            print(f"{triples / before[0]:.1f} times the triples cost the compiled engine {cost:.1f} times the CPU time")


def main() -> None:
    if sys.argv[1:2] == ["--contender"]:
        name, *paths = sys.argv[2:]
        contender(name, *map(Path, paths))
        return
    import index

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", type=float, nargs="+", default=[0.0001, 0.01, 0.1])
    parser.add_argument("--workflows", type=int, default=index.WORKFLOWS, help="how many are recorded")
    parser.add_argument("--slow", type=int, default=200_000, help="up to how many triples the other engines are run")
    parser.add_argument("--disk", action="store_true", help="the compiled engine on a store on disk too")
    parser.add_argument("--keep", type=Path, help="a folder for the data; without it, it is removed at the end")
    options = parser.parse_args()
    index.WORKFLOWS = options.workflows
    with tempfile.TemporaryDirectory() as temporary:
        before: tuple[int, Any] | None = None
        for scale in options.scale:
            folder = (options.keep or Path(temporary)) / f"{scale:g}"
            index.record(folder / "home", scale)
            triples = index.lift(folder / "home", folder / "all.nt")
            names = ["compiled", *(["disk"] if options.disk else [])]
            if triples <= options.slow:
                names += ["pyshacl", *(["pyrudof"] if importlib.util.find_spec("pyrudof") else [])]
            figures = {name: measure(name, folder / "all.nt", folder / "store") for name in names}
            show(triples, figures, before)
            if triples > options.slow:
                print(f"pySHACL and pyrudof are not run beyond {options.slow:,} triples (--slow)")
            before = triples, figures["compiled"]


if __name__ == "__main__":
    main()
