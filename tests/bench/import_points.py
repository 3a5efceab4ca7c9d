"""Import of a million metric points: CPU seconds and memory, from MLflow's SQLite and from TensorBoard.

Run `python tests/bench/import_points.py [--points 1000000]`. It prints figures and asserts nothing.
"""

from __future__ import annotations

import argparse
import resource
import sqlite3
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

METRICS = ("loss", "accuracy", "lr", "grad_norm")


def value_at(i: int) -> float:
    """Return the value of a point; the rate does not change."""
    return 1.0 / (i + 1) if i % 4 != 2 else 0.1


def write_mlflow(path: Path, points: int) -> None:
    """Write a database of one run with a number of points."""
    connection = sqlite3.connect(path)
    connection.executescript(
        """CREATE TABLE experiments (experiment_id INTEGER, name TEXT);
        CREATE TABLE runs (run_uuid TEXT, name TEXT, user_id TEXT, status TEXT, start_time INTEGER, end_time INTEGER,
          lifecycle_stage TEXT, artifact_uri TEXT, experiment_id INTEGER);
        CREATE TABLE params (key TEXT, value TEXT, run_uuid TEXT);
        CREATE TABLE tags (key TEXT, value TEXT, run_uuid TEXT);
        CREATE TABLE metrics (key TEXT, value DOUBLE, timestamp BIGINT, run_uuid TEXT, step BIGINT, is_nan BOOLEAN);"""
    )
    connection.execute("INSERT INTO experiments VALUES (1, 'bench')")
    start = 1_700_000_000_000
    row = ("a" * 32, "big", "me", "FINISHED", start, start + points, "active", "", 1)
    connection.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    rows = (
        (METRICS[i % 4], 1.0 / (i + 1) if i % 4 != 2 else 0.1, start + i, "a" * 32, i // 4 + 1, 0)
        for i in range(points)
    )
    connection.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", rows)
    connection.commit()
    connection.close()


def write_tensorboard(path: Path, points: int) -> None:
    """Write an event file with a number of scalars."""
    from provml.exchange.tensorboard import masked_crc

    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2, len(data)]) + data

    def varint(number: int) -> bytes:
        data = b""
        while number > 127:
            data += bytes([number & 127 | 128])
            number >>= 7
        return data + bytes([number])

    with path.open("wb") as file:
        for i in range(points):
            value = field(1, METRICS[i % 4].encode()) + b"\x15" + struct.pack("<f", value_at(i))
            event = b"\x09" + struct.pack("<d", 1.7e9 + i / 1000) + b"\x10" + varint(i // 4 + 1)
            event += field(5, field(1, value))
            length = struct.pack("<Q", len(event))
            file.write(length + struct.pack("<I", masked_crc(length)) + event + b"\0\0\0\0")


def import_in_process(source: Path, home: Path) -> tuple[float, float]:
    """Return CPU seconds and peak memory in MiB of an import in a process of its own."""
    code = "import sys; from provml.exchange import read; read(sys.argv[1], sys.argv[2])"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    script = f"{code}; import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    output = subprocess.run(
        [sys.executable, "-c", script, str(source), str(home)], check=True, capture_output=True, text=True
    ).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, int(output) / 1024


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--scale", type=float, default=1.0)
    arguments = parser.parse_args()
    points = int(arguments.points * arguments.scale)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_mlflow(folder / "mlflow.db", points)
        (folder / "logs").mkdir()
        write_tensorboard(folder / "logs" / "events.out.tfevents.1.host", points)
        print(f"{'source':12} {'points':>10} {'CPU s':>8} {'peak MiB':>9}")
        for label, source in (("mlflow", folder / "mlflow.db"), ("tensorboard", folder / "logs")):
            seconds, memory = import_in_process(source, folder / "home")
            print(f"{label:12} {points:10,} {seconds:8.1f} {memory:9.0f}")


if __name__ == "__main__":
    main()
