"""The benchmarks run; what they measure is for people to read, on a quiet machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parent / "bench"


def test_the_emission_benchmark_compares_all_contenders_in_one_run():
    command = [sys.executable, str(BENCH / "emit.py"), "--epochs", "20", "--repeat", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for contender in ("provml", "rdflib", "owlready2", "raw f-strings"):
        assert contender in done.stdout
    assert "times as fast as rdflib" in done.stdout


def test_the_capture_benchmark_sets_provml_beside_the_kill_safe_floor():
    command = [sys.executable, str(BENCH / "capture.py"), "--batches", "50", "--epochs", "2", "--repeat", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for contender in ("provml, mapped", "provml, write(2)", "json, flushed (the floor)"):
        assert contender in done.stdout


def test_the_index_benchmark_sets_the_way_from_journals_beside_raw_bulk_load():
    command = [sys.executable, str(BENCH / "index.py"), "--scale", "0.001"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "bulk_load" in done.stdout


def test_the_validation_benchmark_sets_the_compiled_engine_beside_pyshacl():
    command = [sys.executable, str(BENCH / "validate.py"), "--scale", "0.0001", "--workflows", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    figures = {line[:20].strip(): line[20:].split() for line in done.stdout.splitlines()}
    assert figures["compiled"][2] == figures["pySHACL"][2], "both find as many results"
    assert float(figures["compiled"][5]) == 1


def test_the_queries_benchmark_sets_questions_beside_duckdb_and_the_naive_way():
    command = [sys.executable, str(BENCH / "queries.py"), "--scale", "0.001", "--runs", "20", "--repeat", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for word in ("l7 all", "DuckDB", "naive", "20 runs"):
        assert word in done.stdout


def test_the_overhead_benchmark_sets_recorded_epochs_beside_plain_ones():
    command = [sys.executable, str(BENCH / "overhead.py"), "--epochs", "1", "--repeat", "1", "--batch", "512"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for contender in ("no-op (control)", "provml, captured", "provml, by hand", "json, flushed"):
        assert contender in done.stdout
