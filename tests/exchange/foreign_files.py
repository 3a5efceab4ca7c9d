"""Small writers of other tools' formats, for variants that the suites do not have."""

from __future__ import annotations

import json
import sqlite3
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from provml.exchange.tensorboard import masked_crc

# ---- protobuf


def varint(number: int) -> bytes:
    data = b""
    number &= (1 << 64) - 1
    while number > 127:
        data += bytes([number & 127 | 128])
        number >>= 7
    return data + bytes([number])


def field(number: int, value: bytes | str | float) -> bytes:
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


# ---- W&B


def wandb_file(path: Path, records: Iterable[bytes]) -> Path:
    """Write a file of W&B: records of any length in blocks of 32 KiB."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = bytearray(b":W&B" + struct.pack("<HB", 0xBEE1, 0))
    for record in records:
        is_first = True
        while True:
            room = (32 << 10) - len(data) % (32 << 10)
            if room < 7:
                data += bytes(room)
                continue
            piece, record = record[: room - 7], record[room - 7 :]
            kind = (1 if not record else 2) if is_first else (4 if not record else 3)
            data += struct.pack("<IHB", zlib.crc32(bytes([kind]) + piece), len(piece), kind) + piece
            is_first = False
            if not record:
                break
    path.write_bytes(bytes(data))
    return path


def wandb_run(run_id: str, *, config: dict[str, Any] | None = None, seconds: int = 1_700_000_000) -> bytes:
    items = [field(1, field(1, name) + field(16, json.dumps(value))) for name, value in (config or {}).items()]
    start = field(17, field(1, seconds))
    return field(17, field(1, run_id) + field(3, "lab") + field(8, f"run {run_id}") + field(4, b"".join(items)) + start)


def wandb_row(step: int, seconds: float = 1_700_000_000.0, **values: Any) -> bytes:
    row = {"_step": step, "_timestamp": seconds + step, **values}
    items = [field(1, field(1, name) + field(16, json.dumps(value))) for name, value in row.items()]
    return field(2, b"".join(items) + field(2, field(1, step)))


def wandb_exit(code: int) -> bytes:
    return field(18, field(1, code) + field(2, 10))


# ---- TensorBoard


def tb_file(path: Path, events: Iterable[bytes]) -> Path:
    """Write an event file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for event in [field(1, 1_700_000_000.0) + field(3, "brain.Event:2"), *events]:
            length = struct.pack("<Q", len(event))
            file.write(length + struct.pack("<I", masked_crc(length)) + event + struct.pack("<I", masked_crc(event)))
    return path


def tb_scalar(tag: str, step: int, value: float, seconds: float = 1_700_000_000.0) -> bytes:
    content = field(1, tag) + b"\x15" + struct.pack("<f", value)
    return field(1, seconds + step) + (field(2, step) if step else b"") + field(5, field(1, content))


def tb_tensor(tag: str, step: int, value: float, *, plugin: str = "scalars") -> bytes:
    """A scalar of TF2: a tensor, with the plugin only at the first step."""
    tensor = field(1, 1) + field(2, b"") + field(4, struct.pack("<f", value))
    content = field(1, tag) + field(8, tensor)
    if plugin:
        content += field(9, field(1, field(1, plugin)))
    return field(1, 1_700_000_000.0 + step) + field(2, step) + field(5, field(1, content))


# ---- MLflow


def mlflow_database(path: Path, runs: list[dict[str, Any]], script: str = "") -> Path:
    """Write a database with the tables that every version has."""
    connection = sqlite3.connect(path)
    connection.executescript(
        """CREATE TABLE experiments (experiment_id INTEGER, name TEXT);
        CREATE TABLE runs (run_uuid TEXT, name TEXT, user_id TEXT, status TEXT, start_time INTEGER, end_time INTEGER,
          lifecycle_stage TEXT, artifact_uri TEXT, experiment_id INTEGER);
        CREATE TABLE params (key TEXT, value TEXT, run_uuid TEXT);
        CREATE TABLE tags (key TEXT, value TEXT, run_uuid TEXT);
        CREATE TABLE metrics (key TEXT, value DOUBLE, timestamp BIGINT, run_uuid TEXT, step BIGINT, is_nan BOOLEAN);
        INSERT INTO experiments VALUES (1, 'étude');"""
    )
    start = 1_700_000_000_000
    for number, run in enumerate(runs):
        run_id = run.get("id", f"{number:032x}")
        end = start + 10_000 if run.get("status", "FINISHED") != "RUNNING" else None
        row = (run_id, run.get("name", "r"), "me", run.get("status", "FINISHED"), start + number, end)
        stage = run.get("stage", "active")
        connection.execute("INSERT INTO runs VALUES (?,?,?,?,?,?,?,?,1)", (*row, stage, run.get("artifacts", "")))
        for table in ("params", "tags"):
            items = [(key, value, run_id) for key, value in run.get(table, {}).items()]
            connection.executemany(f"INSERT INTO {table} VALUES (?,?,?)", items)
        points = [
            (key, value, start + index, run_id, step, 0)
            for index, (key, step, value) in enumerate(run.get("points", []))
        ]
        connection.executemany("INSERT INTO metrics VALUES (?,?,?,?,?,?)", points)
    connection.executescript(script)
    connection.commit()
    connection.close()
    return path
