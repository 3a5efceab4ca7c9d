"""A home on a shared file system: several processes record into one folder while others ask."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from provml.store import Store

RECORD = """
import sys, time
import provml
home, machine = sys.argv[1:]
for number in range(3):
    with (
        provml.record("sweep", home=home, run=f"{machine}-{number}", capture_environment=False) as run,
        run.training(learning_rate=0.1) as training,
    ):
        for epoch in training.epochs(5):
            epoch.measured(loss=1 / epoch.index)
            time.sleep(0.01)
"""


def test_processes_record_into_one_folder_while_others_ask(tmp_path: Path):
    home = tmp_path / "home"
    (home / "runs").mkdir(parents=True)
    writers = [subprocess.Popen([sys.executable, "-c", RECORD, str(home), machine]) for machine in ("lab1", "lab2")]
    with Store(home) as store, Store(home) as other:
        while any(writer.poll() is None for writer in writers):
            store.sync()
            other.sync()
        assert [writer.wait() for writer in writers] == [0, 0]
        for reader in (store, other):
            assert {info.id for info in reader.runs()} == {f"lab{m}-{n}" for m in (1, 2) for n in range(3)}
            assert {info.status for info in reader.runs()} == {"FINISHED"}
            losses = reader.query("SELECT ?v { ?e provlake:wasDerivedFromAttribute/rdfs:label 'loss' ; prov:value ?v }")
            assert len(list(losses)) == 2 * 3 * 5
        assert store.verify() == []
