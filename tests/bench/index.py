"""Indexing: compare the path from journals to the index with a raw `bulk_load` of the same N-Triples.

    python tests/bench/index.py [--scale 0.01 0.1 1] [--repeat 1] [--memory] [--keep FOLDER]

The data is that of section 5.4 of the PROV-ML paper, recorded by provml: 8 workflows with a training, a validation and
an evaluation each. At scale 1, a training has 300 epochs with 200 batches; smaller scales reduce both alike. A batch
has a loss; an epoch has measures, a model and a validation. The N-Triples are written before the measurement. Each
contender runs in a separate process, which reports its CPU time (all threads, and the process that maps journals), its
wall time, from before the store is opened, and the peak memory of both processes together. provml indexes all journals
and then compacts the index, which the raw load does not do: questions are answered meanwhile, and closing the store
waits for it. So there are two wall times: until everything can be asked, and until the store is closed. Rounds
alternate, and the best round counts. Nothing is asserted.

The sum of two peaks counts the pages of libraries that both processes use twice, and peaks at different times.
`--memory` samples both processes in one more round of provml, of which the times do not count (Linux).
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

WORKFLOWS, EPOCHS, BATCHES = 8, 300, 200
SAMPLE_SECONDS = 0.05


def record(home: Path, scale: float) -> int:
    """Record the workflows; return the number of journal lines."""
    from provml.recording.run import Run

    epochs, batches = max(1, round(EPOCHS * scale**0.5)), max(1, round(BATCHES * scale**0.5))
    for number in range(WORKFLOWS):
        with Run(f"workflow {number}", home=home, model="seismic", strict=True, run=f"workflow-{number}") as run:
            location = {"latitude": 54.0 + number, "longitude": 4.0 + number, "slices": 900 + number}
            survey = f"http://example.org/kg/survey-{number}"
            raw = run.dataset(f"seismic cube {number}".encode(), name="cube", role="raw", about=survey, **location)
            with run.filter("denoise", using=raw, noise_threshold=0.25) as step:
                clean = step.produced(f"clean cube {number}".encode(), name="clean cube")
            slices = {"first_slice": 100 * number, "last_slice": 100 * number + 99}
            tiles = run.prepared(f"tiles {number}".encode(), step="tiling", using=clean, tile=224, **slices)
            settings = {"learning_rate": 0.001 * (number + 1), "momentum": 0.9, "batch_size": 32, "optimizer": "Adam"}
            with run.training(using=tiles, **settings) as training:
                training.layers([{"name": f"dense {depth}", "type": "Dense", "units": 64} for depth in range(5)])
                for epoch in training.epochs(epochs):
                    for batch in epoch.batches(range(batches)):
                        batch.measured(loss=1.0 / (1.0 + epoch.index + batch.index / 1000))
                    epoch.measured(loss=1.0 / epoch.index, accuracy=1.0 - 1.0 / (1 + epoch.index))
                    with epoch.validation() as validation:
                        validation.measured(loss=1.1 / epoch.index)
                    model = epoch.produced(f"weights {number} {epoch.index}".encode())
                    if epoch.index == (epochs + 1) // 2:
                        training.adapted(learning_rate=settings["learning_rate"] / 2, technique="step decay")
            with run.evaluation(of=model) as test:
                test.measured(accuracy=0.9 - number / 100)
    return sum(path.read_bytes().count(b"\n") for path in home.glob("runs/*/*.jsonl"))


def write_ntriples(home: Path, out: Path) -> int:
    """Write the N-Triples of all journals, each line once per journal, and return their number."""
    from provml.store.checkpoint import JournalCheckpoint
    from provml.store.journal_mapping import JournalSource, map_events
    from provml.store.siblings import FirstJournalCache

    first_journals, count = FirstJournalCache(), 0
    with out.open("wb") as file:
        for path in sorted(home.glob("runs/*/*.jsonl")):
            written: set[int] = set()
            for _, text in map_events(JournalSource(path.name, path, first_journals), JournalCheckpoint()):
                for line in text.splitlines(keepends=True):
                    key = hash(line)
                    if key not in written:
                        written.add(key)
                        file.write(line)
            count += len(written)
    return count


def load_raw(ntriples: Path, folder: Path) -> float:
    """Load the file at once with the loader of Oxigraph: the limit. Return the time at which it can be asked."""
    import pyoxigraph as ox

    store = ox.Store(str(folder))
    store.bulk_load(path=str(ntriples), format=ox.RdfFormat.N_TRIPLES)
    loaded = time.perf_counter()
    del store
    return loaded


def load_journals(home: Path) -> float:
    """Index the journals as users do, with ontology, checkpoints and snapshot. Return the time at which they can be
    asked.
    """
    from provml.store import Store

    with Store(home) as store:
        store.sync()
        return time.perf_counter()


def contender(name: str, home: Path, ntriples: Path, folder: Path) -> None:
    """Run a contender in this process and print its times and memory, without imports."""
    import provml.store  # noqa: F401  # imported before the measurement of both contenders

    began, cpu = time.perf_counter(), time.process_time()
    ready = load_raw(ntriples, folder) - began if name == "raw" else load_journals(home) - began
    own, wall = time.process_time() - cpu, time.perf_counter() - began
    child = resource.getrusage(resource.RUSAGE_CHILDREN)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + child.ru_maxrss
    mapping = child.ru_utime + child.ru_stime
    print(json.dumps({"cpu": own + mapping, "mapping": mapping, "ready": ready, "wall": wall, "rss": memory * 1024}))


def measure(name: str, home: Path, ntriples: Path, folder: Path) -> dict[str, float]:
    """Run a contender in a separate process."""
    shutil.rmtree(folder if name == "raw" else home / "index", ignore_errors=True)
    command = [sys.executable, __file__, "--contender", name, str(home), str(ntriples), str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"{name} failed:\n{result.stderr}")
    measured: dict[str, float] = json.loads(result.stdout)
    return measured


def sample_memory(home: Path, ntriples: Path, folder: Path) -> int:
    """Return the peak memory of both processes at one time in bytes, each page counted once."""
    shutil.rmtree(home / "index", ignore_errors=True)
    command = [sys.executable, __file__, "--contender", "journals", str(home), str(ntriples), str(folder)]
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            peak = max(peak, sum(map(proportional_bytes, [process.pid, *children(process.pid)])))
            time.sleep(SAMPLE_SECONDS)
    return peak


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    try:
        lists = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:  # it has ended
        return []
    return [int(child) for text in lists for child in text.split()]


def proportional_bytes(pid: int) -> int:
    """Return the memory of a process; a page that several processes use counts in parts."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def size(folder: Path) -> int:
    """Return the bytes of a folder; files with several hard links count once."""
    sizes = {path.stat().st_ino: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    return sum(sizes.values())


def run(scale: float, repeat: int, folder: Path) -> dict[str, Any]:
    """Return all figures of a scale."""
    home, ntriples, raw = folder / "home", folder / "all.nt", folder / "raw"
    shutil.rmtree(folder, ignore_errors=True)
    lines = record(home, scale)
    triples = write_ntriples(home, ntriples)
    best: dict[str, dict[str, float]] = {}
    for _ in range(repeat):
        for name in ("raw", "journals"):
            measured = measure(name, home, ntriples, raw)
            best[name] = {key: min(measured[key], best.get(name, measured)[key]) for key in measured}
    return {
        "scale": scale,
        "lines": lines,
        "triples": triples,
        "written": size(home / "runs"),
        "ntriples": ntriples.stat().st_size,
        "index": size(home / "index"),
        "raw index": size(raw),
        **best,
    }


def show(figures: dict[str, Any], before: dict[str, Any] | None) -> None:
    """Print the figures of a scale."""
    raw, indexed, triples = figures["raw"], figures["journals"], figures["triples"]
    print(f"\nscale {figures['scale']:g}: {triples:,} triples from {figures['lines']:,} journal lines")
    columns = f"{'CPU s':>9}{'ready s':>9}{'wall s':>9}{'triples/CPU s':>15}{'peak MB':>9}{'disk MB':>9}"
    print(f"{'':22}{columns}")
    for label, row, disk in (
        ("raw bulk_load", raw, figures["raw index"]),
        ("journals to index", indexed, figures["index"]),
    ):
        speed = triples / row["cpu"]
        times = f"{row['cpu']:9.1f}{row['ready']:9.1f}{row['wall']:9.1f}"
        print(f"{label:22}{times}{speed:15,.0f}{row['rss'] / 1e6:9.0f}{disk / 1e6:9.0f}")
    by_cpu, by_ready, by_wall = (raw[key] / indexed[key] for key in ("cpu", "ready", "wall"))
    print(f"speed, raw bulk_load = 1: {by_ready:.2f} by wall time until everything can be asked (target: 0.8),")
    print(f"{by_wall:.2f} by wall time with compaction, {by_cpu:.2f} by CPU time with compaction")
    mapping = indexed["mapping"]
    by_loader = raw["cpu"] / (indexed["cpu"] - mapping)
    print(f"{mapping:.1f} CPU s are in the process that maps; without it, the speed by CPU is {by_loader:.2f}")
    print(f"bytes of the index: {figures['index'] / figures['raw index']:.2f} times those of the raw load")
    written, ntriples = figures["written"] / 1e6, figures["ntriples"] / 1e6
    print(f"journals {written:.1f} MB, N-Triples {ntriples:.0f} MB: 1/{ntriples / written:.1f} (target: 1/20)")
    if before is not None:
        grown = triples / before["triples"]
        cost = indexed["cpu"] / before["journals"]["cpu"]
        print(f"{grown:.1f} times the triples of scale {before['scale']:g} cost {cost:.1f} times the CPU time")


def main() -> None:
    if sys.argv[1:2] == ["--contender"]:
        name, *paths = sys.argv[2:]
        contender(name, *map(Path, paths))
        return
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", type=float, nargs="+", default=[0.01, 0.1])
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--memory", action="store_true", help="one more round that samples the memory of provml")
    parser.add_argument("--keep", type=Path, help="a folder that keeps the data (default: removed at the end)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        before: dict[str, Any] | None = None
        for scale in options.scale:
            folder = (options.keep or Path(temporary)) / f"{scale:g}"
            figures = run(scale, options.repeat, folder)
            show(figures, before)
            if options.memory:
                peak = sample_memory(folder / "home", folder / "all.nt", folder / "raw")
                print(f"peak memory of both processes at one time, each page counted once: {peak / 1e6:.0f} MB")
            if not options.keep:
                shutil.rmtree(Path(temporary) / f"{scale:g}")
            before = figures


if __name__ == "__main__":
    main()
