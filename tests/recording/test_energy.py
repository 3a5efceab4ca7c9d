"""Energy and emissions of a run and its stages, from counters and from CodeCarbon."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import provml
import provml.lake
from provml.recording import energy
from provml.recording.energy import Amount, Counters, chosen_mode, make_meter

SCRIPT = """
import socket, sys, time
calls = []
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = lambda *arguments: calls.append(arguments)
import provml
with provml.record("flowers", model="net", home=sys.argv[1], energy="codecarbon", country="DEU", strict=True) as run:
    with run.training(rate=0.1) as training:
        for epoch in training.epochs(2):
            begin = time.perf_counter()
            while time.perf_counter() - begin < 0.5:  # the model needs some load of the processor
                loss = sum(range(100_000))
            epoch.measured(loss=loss)
assert not calls, calls
"""


def make_domain(folder: Path, number: int, name: str, value: int) -> Path:
    """Make the files of a domain of RAPL, as the kernel has them."""
    domain = folder / f"intel-rapl:{number}"
    domain.mkdir(parents=True)
    (domain / "name").write_text(f"{name}\n")
    (domain / "max_energy_range_uj").write_text("999999\n")
    (domain / "energy_uj").write_text(f"{value}\n")
    return domain / "energy_uj"


@pytest.fixture
def powercap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "powercap"
    monkeypatch.setattr(energy, "POWERCAP", folder)
    monkeypatch.setattr(Counters.__init__, "__kwdefaults__", {"folder": folder})
    return folder


def test_counters_are_added_and_may_start_again_from_zero(powercap: Path):
    packages = [make_domain(powercap, number, f"package-{number}", 900_000) for number in range(2)]
    memory = make_domain(powercap, 2, "dram", 0)
    make_domain(powercap, 3, "core", 0)  # a part of a package
    meter = Counters()
    for package in packages:
        package.write_text("100000\n")  # 0.2 J later
    memory.write_text("500000\n")
    amounts = {name: (amount.value * 3.6e6, amount.is_metered) for name, amount in meter.read().items()}
    assert {name: round(value, 9) for name, (value, _) in amounts.items()} == {"": 0.9, "cpu": 0.4, "ram": 0.5}
    assert all(is_metered for _, is_metered in amounts.values())


def test_a_run_records_what_it_and_its_stages_took(powercap: Path, tmp_path: Path):
    counter = make_domain(powercap, 0, "package-0", 0)
    with provml.record("flowers", home=tmp_path / "home", run="first", energy=True, strict=True) as run:
        counter.write_text("100000\n")
        with run.training(rate=0.1):
            counter.write_text("400000\n")
        counter.write_text("900000\n")
    with provml.open_store(tmp_path / "home") as store:
        rows = [row for row in store.ask("energy").to_dicts() if row["quantity"] == "energy"]
        assert [(row["at"].endswith("/training"), round(row["value"] * 3.6e6, 9)) for row in rows] == [
            (False, 0.9),
            (True, 0.3),
        ]
        assert {(row["unit"], row["metered"], row["method"]) for row in rows} == {("kW.h", True, "RAPL")}
        assert store.table().to_dicts()[0]["energy_kwh"] == pytest.approx(0.3 / 3.6e6)
        assert "| energy | 2.5e-07 kWh, metered (RAPL) |" in store.report("first").to_markdown()
        assert store.validate("first").conforms


def test_nvidia_gpus_are_read_through_pynvml(tmp_path: Path):
    """The library is a stand-in: nothing here says that the counters of a real GPU are read."""
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(Path(__file__).with_name("nvml.c"))], check=True)
    code = "from provml.recording.energy import Counters; print(Counters().read())"
    variables = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    amounts = eval(done.stdout, {"Amount": Amount})
    assert amounts["gpu"] == Amount(1.5 / 3.6e6, "NVML of 1 of 2 GPUs", True)
    assert amounts[""].value >= amounts["gpu"].value
    assert amounts[""].method.endswith("NVML of 1 of 2 GPUs")


def test_the_energy_of_a_resumed_run_is_added_up(powercap: Path, tmp_path: Path):
    counter, home = make_domain(powercap, 0, "package-0", 0), tmp_path / "home"
    for amount in (100_000, 200_000):
        with provml.record("flowers", home=home, run="first", energy=True, strict=True):
            counter.write_text(f"{int(counter.read_text()) + amount}\n")
    provml.lake.build(home, tmp_path / "lake")
    with provml.open_store(home) as store, provml.lake.open(tmp_path / "lake") as lake:
        assert store.table().to_dicts()[0]["energy_kwh"] == pytest.approx(0.3 / 3.6e6)
        assert lake.table().rows == store.table().rows
        assert "| energy | 8.33333e-08 kWh, metered (RAPL) |" in store.report("first").to_markdown()


def test_codecarbon_is_a_model_and_calls_no_network(tmp_path: Path):
    source = os.pathsep.join([str(Path(provml.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "home")]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": source}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with provml.open_store(tmp_path / "home") as store:
        rows = store.ask("energy").to_dicts()
    assert {row["quantity"] for row in rows} >= {"energy", "emissions", "energy of cpu"}
    assert {row["unit"] for row in rows} == {"kW.h", "kg"}
    assert not any(row["metered"] for row in rows if row["quantity"] in ("energy", "emissions"))
    assert all(row["value"] > 0 for row in rows)
    assert any("grid of DEU" in row["method"] for row in rows)


def test_energy_is_off_by_default(powercap: Path, tmp_path: Path):
    make_domain(powercap, 0, "package-0", 0)
    with provml.record("flowers", home=tmp_path, strict=True) as run:
        assert run._energy is None
    assert chosen_mode(False) == ""


def test_a_setting_that_is_not_available_is_an_error_of_recording_only(powercap: Path, tmp_path: Path):
    with provml.record("flowers", home=tmp_path, energy="counters") as run:
        run.training().done()
    assert run.capture_errors == 1
    with pytest.raises(OSError, match="No energy counter of this machine can be read"):
        make_meter("counters")
    with pytest.raises(ValueError, match="energy must be True, False, 'counters' or 'codecarbon', not 'solar'"):
        chosen_mode("solar")
    with pytest.raises(ValueError, match="country must be a code of three letters"):
        make_meter("auto", "Germany")


def test_the_variable_switches_it_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PROVML_ENERGY", "1")
    assert chosen_mode(False) == "auto"
    assert Amount(1.0, "RAPL", True).is_metered
