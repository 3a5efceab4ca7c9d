"""Run each benchmark at a small scale: it must end without an error and print all contenders."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parent / "bench"


def run_benchmark(script: str, *options: str) -> str:
    """Return what a benchmark prints."""
    command = [sys.executable, str(BENCH / script), *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_emission_benchmark_prints_all_contenders():
    output = run_benchmark("emit.py", "--epochs", "20", "--repeat", "1")
    for contender in ("provml", "rdflib", "owlready2", "raw f-strings"):
        assert contender in output
    assert "times as fast as rdflib" in output


def test_the_capture_benchmark_compares_provml_with_the_baseline():
    output = run_benchmark("capture.py", "--batches", "50", "--epochs", "2", "--repeat", "1")
    for contender in ("provml, mapped", "provml, write(2)", "json, flushed (baseline)", "not sealed"):
        assert contender in output


def test_the_index_benchmark_compares_journals_with_raw_bulk_load():
    output = run_benchmark("index.py", "--scale", "0.001", "--memory")
    assert "bulk_load" in output


def test_the_validation_benchmark_compares_the_sparql_engine_with_pyshacl():
    output = run_benchmark("validate.py", "--scale", "0.0001", "--workflows", "1")
    figures = {line[:20].strip(): line[20:].split() for line in output.splitlines()}
    assert figures["SPARQL"][2] == figures["pySHACL"][2], "both engines have the same number of results"
    assert float(figures["SPARQL"][5]) == 1


def test_the_queries_benchmark_compares_questions_with_duckdb_and_naive_queries():
    output = run_benchmark("queries.py", "--scale", "0.001", "--runs", "20", "--repeat", "1")
    for text in ("l7 all", "DuckDB", "naive", "20 runs"):
        assert text in output


def test_the_overhead_benchmark_prints_the_contenders():
    """Rivals, and recording by hand, are run by the benchmark of captures; shipping by its own benchmark."""
    options = ("--epochs", "1", "--repeat", "1", "--batch", "512", "--only", "captured")
    output = run_benchmark("overhead.py", *options, "--only", "provml, autolog")
    for contender in ("no-op (control)", "provml, captured", "provml, autolog"):
        assert contender in output


def test_the_batch_benchmark_compares_both_designs():
    output = run_benchmark("batches.py", "--batches", "20", "--repeat", "1", "--only", "loop,single")
    for case in ("loop", "single"):
        for design in ("buffer", "line"):
            assert f"{case:<12}{design}" in output


def test_the_service_benchmark_prints_answers_per_cpu_second_and_holds():
    output = run_benchmark("serve.py", "--runs", "5", "--seconds", "0.5", "--without-mlflow")
    for text in ("provml search", "provml query", "per CPU s"):
        assert text in output
    holding = run_benchmark(
        "serve.py", "--hold", "--runs", "5", "--seconds", "1.5", "--readers", "5", "--recorders", "2"
    )
    assert "answers by status {200:" in holding


def test_the_shipping_benchmark_prints_all_settings_and_the_delay():
    output = run_benchmark("ship.py", "--batches", "70", "--repeat", "1", "--writers", "1,2", "--step", "0.001")
    for setting in "ABCDEF":
        assert f"provml {setting}: queue" in output
    assert "weak scaling" in output


def test_the_benchmark_of_many_runs_measures_commands_before_and_after_packing():
    output = run_benchmark("many_runs.py", "--runs", "12")
    for text in ("first index", "provml ask q5", "provml remove", "provml pack", "an event is visible after"):
        assert text in output


def test_the_endpoint_benchmark_compares_a_sync_with_the_bulk_loader():
    output = run_benchmark("endpoint.py", "--scale", "0.0005")
    for text in ("bulk loader", "one POST", "sync of journals", "by CPU time"):
        assert text in output


def test_the_import_benchmark_prints_all_sources():
    output = run_benchmark("import_points.py", "--points", "400")
    assert "mlflow" in output
    assert "tensorboard" in output


def test_the_benchmark_of_many_writers_says_that_all_journals_arrived():
    output = run_benchmark("writers.py", "--writers", "6", "--epochs", "2", "--interval", "0.2", "--processes", "2")
    assert "arrived whole: 6 of 6" in output
    assert "6 runs listed" in output
    assert "slowest epochs of all 12 from the lake: 10 rows" in output


def test_the_energy_benchmark_prints_the_added_time():
    assert "% of CPU time" in run_benchmark("energy.py", "--seconds", "0.2", "--epochs", "2", "--rounds", "1")
