"""Which processes are ranks of one launch, and so record one run, by the variables of their launcher."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from provml.recording import inherit
from provml.recording.inherit import RANK_VARIABLES
from provml.recording.run import Run

LAUNCH = {
    "WORLD_SIZE": "2",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "36143",
    "TORCHELASTIC_RUN_ID": "0a9d90aa",
    "TORCHELASTIC_RESTART_COUNT": "0",
}


def record_as_rank(
    home: Path, rank: int, names: list[str], monkeypatch: pytest.MonkeyPatch, **variables: str
) -> list[str]:
    """Record a run for each name as a new process with this rank would; return the ids."""
    monkeypatch.setattr(inherit, "_LAUNCHED", type(inherit._LAUNCHED)())
    ids = []
    with monkeypatch.context() as context:
        for name, value in {**LAUNCH, "RANK": str(rank), **variables}.items():
            context.setenv(name, value)
        for name in names:
            with Run(name, home=home, strict=True, capture_environment=False) as run, run.training() as training:
                training.measured(loss=1.0)
            ids.append(run.id)
    return ids


def error_file(rank: int, launch: str) -> str:
    return f"/tmp/torchelastic_1/{launch}/attempt_0/{rank}/error.json"


def test_ranks_share_the_runs_of_each_experiment_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first = record_as_rank(tmp_path, 0, ["prepare", "fit", "fit"], monkeypatch)
    second = record_as_rank(tmp_path, 1, ["fit", "fit"], monkeypatch)
    assert second == first[1:]
    assert len(set(first)) == 3
    assert {path.name for path in (tmp_path / "runs" / second[0]).glob("*.jsonl")} == {"main.jsonl", "rank-1.jsonl"}


@pytest.mark.parametrize(
    ("mine", "other"),
    [
        ({}, {"TORCHELASTIC_RUN_ID": "another"}),
        ({}, {"TORCHELASTIC_RESTART_COUNT": "1"}),
        ({"TORCHELASTIC_RUN_ID": "100"}, {"TORCHELASTIC_RUN_ID": "100", "MASTER_PORT": "1"}),
        (
            {"TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_ERROR_FILE": error_file(0, "none_a")},
            {"TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_ERROR_FILE": error_file(0, "none_b")},
        ),
    ],
)
def test_launches_do_not_share_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mine: dict[str, str], other: dict[str, str]
):
    ids = [record_as_rank(tmp_path, 0, ["fit"], monkeypatch, **variables) for variables in (mine, other)]
    assert ids[0] != ids[1]


def test_a_launch_without_an_id_is_known_by_its_folder_on_one_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ids = [
        record_as_rank(
            tmp_path,
            rank,
            ["fit"],
            monkeypatch,
            TORCHELASTIC_RUN_ID="none",
            TORCHELASTIC_ERROR_FILE=error_file(rank, "none_a"),
        )
        for rank in (0, 1)
    ]
    assert ids[0] == ids[1]


@pytest.mark.parametrize(
    "variables",
    [
        {"WORLD_SIZE": "1"},
        {"WORLD_SIZE": ""},
        {"WORLD_SIZE": "two"},
        {"TORCHELASTIC_RUN_ID": ""},
        {"TORCHELASTIC_RUN_ID": "none"},
        {"TORCHELASTIC_RUN_ID": "none", "LOCAL_WORLD_SIZE": "1", "TORCHELASTIC_ERROR_FILE": error_file(0, "none_a")},
    ],
)
def test_processes_that_nothing_joins_record_runs_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
):
    ids = [record_as_rank(tmp_path, 0, ["fit"], monkeypatch, **variables) for _ in range(2)]
    assert ids[0] != ids[1]
    assert not ids[0][0].startswith("torchrun")


def test_an_explicit_id_comes_before_that_of_the_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert record_as_rank(tmp_path, 0, ["fit"], monkeypatch, PROVML_RUN="mine") == ["mine"]


def test_the_first_rank_begins_a_run_that_the_process_before_it_did_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """`provml run` chose the id for a launcher, which records nothing and starts the ranks twice."""
    for rank in (1, 0, 0, 1):
        assert record_as_rank(tmp_path, rank, ["fit"], monkeypatch, PROVML_RUN="chosen@1@") == ["chosen"]
    journals = {path.stem: path.read_text() for path in (tmp_path / "runs" / "chosen").glob("*.jsonl")}
    begun = {name for name, text in journals.items() if '"main":false' not in text.partition("\n")[0]}
    assert len(journals) == 4
    assert begun == {"main"}
    assert {"rank-0", "rank-1"} < journals.keys()


SLURM = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}
OPEN_MPI = {"PMIX_NAMESPACE": "prterun-node-1@1", "OMPI_COMM_WORLD_SIZE": "2"}


@pytest.mark.parametrize(
    ("variable", "launch", "other"),
    [
        ("SLURM_PROCID", SLURM, {**SLURM, "SLURM_STEP_ID": "1"}),
        ("OMPI_COMM_WORLD_RANK", OPEN_MPI, {**OPEN_MPI, "PMIX_NAMESPACE": "prterun-node-2@1"}),
        ("PMI_RANK", {"PMI_SIZE": "2", "PMI_PORT": "node:1"}, {"PMI_SIZE": "2", "PMI_PORT": "node:2"}),
    ],
)
def test_ranks_of_slurm_and_mpi_are_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, launch: dict[str, str], other: dict[str, str]
):
    def record(rank: int, variables: dict[str, str]) -> tuple[str, int | None]:
        monkeypatch.setattr(inherit, "_LAUNCHED", type(inherit._LAUNCHED)())
        with monkeypatch.context() as context:
            for name, value in {**variables, variable: str(rank)}.items():
                context.setenv(name, value)
            size = inherit.world_size()
            with Run("fit", home=tmp_path, strict=True, capture_environment=False) as run, run.training() as training:
                training.measured(loss=1.0)
        return run.id, size

    (first, size), (second, _), (separate, _) = record(0, launch), record(1, launch), record(0, other)
    assert first == second != separate
    assert size == 2
    assert {path.name for path in (tmp_path / "runs" / first).glob("*.jsonl")} == {"main.jsonl", "rank-1.jsonl"}


def test_a_job_of_slurm_without_several_tasks_is_a_run_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, value in {**SLURM, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}.items():
        monkeypatch.setenv(name, value)
    ids = set()
    for _ in range(2):
        with Run("fit", home=tmp_path, strict=True, capture_environment=False) as run:
            ids.add(run.id)
    assert len(ids) == 2


def test_ranks_that_one_process_of_this_machine_starts_are_one_run(monkeypatch: pytest.MonkeyPatch):
    """MPICH gives its ranks nothing in common but their launcher; `provml run` leaves the id of the run to them."""
    program = "from provml.recording import inherit; print(*inherit._launch(), inherit.is_launched())"
    command = [sys.executable, "-c", program]
    shell = ["sh", "-c", f"{shlex.join(command)}; true"]
    for name in RANK_VARIABLES:
        monkeypatch.delenv(name, raising=False)

    def launch(rank: int, command: list[str], size: int = 2) -> str:
        variables = {"PMI_RANK": str(rank), "PMI_SIZE": str(size), "MPI_LOCALNRANKS": "2", "PMI_FD": "9"}
        environment = {**os.environ, **variables}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    assert launch(0, command) == launch(1, shell)
    assert launch(0, command).startswith("mpi ")
    assert str(os.getpid()) in launch(0, command)
    assert [launch(rank, command, size=4) for rank in (0, 1)] == ["[] False", "[] True"], "on several machines"
