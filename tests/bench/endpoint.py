"""Sending journals to an endpoint: compare `provml sync` with the engine's own bulk load of the same N-Triples.

    python tests/bench/endpoint.py [--scale 0.01 0.1] [--chunk 50000]

The data is that of `index.py`. The contenders are the bulk loader of Oxigraph (`oxigraph load`), one Graph Store POST
of all N-Triples to `oxigraph serve`, and a sync of the journals to `oxigraph serve`. CPU times are those of all
processes of a contender: for a sync, of the server, and of the client, which reads and maps the journals. Nothing is
asserted.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.index import record, write_ntriples
from engines import servers  # found by the path above


def cpu_of(process: int) -> float:
    """Return the CPU seconds of a running process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def bulk_load(ntriples: Path, folder: Path) -> tuple[float, float]:
    """Return the CPU and wall seconds of the bulk loader."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [servers.oxigraph_program(), "load", "--location", str(folder), "--file", str(ntriples)]
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.perf_counter() - start


def post(ntriples: Path, folder: Path) -> tuple[float, float]:
    """Return the CPU and wall seconds of one request with all N-Triples."""
    with servers.oxigraph(folder) as server:
        assert server.process is not None
        before, start = cpu_of(server.process.pid) + time.process_time(), time.perf_counter()
        headers = {"Content-Type": "application/n-triples", "Content-Length": str(ntriples.stat().st_size)}
        with ntriples.open("rb") as file:
            request = urllib.request.Request(f"{server.url}/store?default", file, headers, method="POST")  # type: ignore[arg-type]
            urllib.request.urlopen(request).close()
        return cpu_of(server.process.pid) + time.process_time() - before, time.perf_counter() - start


def sync(home: Path, folder: Path, chunk: int) -> tuple[float, float, float]:
    """Return the CPU seconds of server and client, and the wall seconds, of a sync."""
    from provml.store.endpoint.address import parse_endpoint
    from provml.store.endpoint.client import Endpoint
    from provml.store.endpoint.sync import HomeSync

    with servers.oxigraph(folder) as server, Endpoint(parse_endpoint(f"sparql+{server.url}")) as endpoint:
        assert server.process is not None
        server_before, client_before, start = cpu_of(server.process.pid), time.process_time(), time.perf_counter()
        report = HomeSync(home, endpoint, chunk_triples=chunk).send()
        assert not report.problems
        wall = time.perf_counter() - start
        return cpu_of(server.process.pid) - server_before, time.process_time() - client_before, wall


def main() -> None:
    """Print the times of all contenders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, nargs="+", default=[0.01, 0.1])
    parser.add_argument("--chunk", type=int, default=50_000)
    options = parser.parse_args()
    for scale in options.scale:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            record(folder / "home", scale)
            triples = write_ntriples(folder / "home", folder / "all.nt")
            print(f"scale {scale}: {triples:,} triples")
            loaded, loaded_wall = bulk_load(folder / "all.nt", folder / "loaded")
            posted, posted_wall = post(folder / "all.nt", folder / "posted")
            server, client, wall = sync(folder / "home", folder / "synced", options.chunk)
            print(f"  bulk loader       {loaded:6.2f} CPU s {loaded_wall:6.2f} s")
            print(f"  one POST          {posted:6.2f} CPU s {posted_wall:6.2f} s")
            print(f"  sync of journals  {server + client:6.2f} CPU s {wall:6.2f} s (client {client:.2f} CPU s)")
            ratio, ratio_wall = loaded / (server + client), loaded_wall / wall
            print(f"  speed of sync / bulk loader: {ratio:.2f} by CPU time, {ratio_wall:.2f} by wall time")


if __name__ == "__main__":
    main()
