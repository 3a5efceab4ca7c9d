"""Energy and emissions of a run and its stages: counters of the hardware where they are readable, else CodeCarbon.

A meter returns amounts since it was started; a stage gets the difference between its end and its begin. All amounts are
of the whole machine, not of this process alone. Nothing here calls the network.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from provml.errors import MissingDependency
from provml.journal import events

POWERCAP = Path("/sys/class/powercap")
JOULES_PER_KWH = 3.6e6
ENERGY_UNIT, EMISSIONS_UNIT = "kW.h", "kg"
"""UCUM codes; emissions are in kilograms of CO2 equivalents."""
TOTAL = ""
MODES = ("counters", "codecarbon")
MODE_VARIABLE, COUNTRY_VARIABLE = "PROVML_ENERGY", "PROVML_COUNTRY"
PLACEHOLDER_COUNTRY = "USA"
"""CodeCarbon needs a country; without one of the user, its emissions are not recorded."""


class Amount(NamedTuple):
    """An amount of energy in kWh: how it was determined, and whether a meter was read."""

    value: float
    method: str
    is_metered: bool


class Meter(Protocol):
    """Reads the energy since it was started, by component: cpu, gpu, ram; `TOTAL` is all of them."""

    def read(self) -> dict[str, Amount]:
        """Return the energy so far."""

    def emissions(self, energy: float) -> Amount | None:
        """Return the emissions in kg that energy in kWh causes; None if the country is not known."""

    def stop(self) -> None:
        """End the measurement."""


def chosen_mode(setting: bool | str) -> str:
    """Return the kind of meter that a setting or PROVML_ENERGY asks for: `auto`, a mode, or nothing."""
    text = os.environ.get(MODE_VARIABLE, "") if setting is False else str(setting)
    lower = text.strip().lower()
    if lower in ("", "0", "false", "no"):
        return ""
    if lower in ("1", "true", "yes", "auto"):
        return "auto"
    if lower not in MODES:
        raise ValueError(f"energy must be True, False, 'counters' or 'codecarbon', not {text!r}.")
    return lower


def make_meter(mode: str, country: str = "") -> Meter:
    """Return a meter that has started. Raise an error if the mode is not available on this machine."""
    country = (country or os.environ.get(COUNTRY_VARIABLE, "")).upper()
    if country and not re.fullmatch("[A-Z]{3}", country):
        raise ValueError(f"country must be a code of three letters, such as DEU, not {country!r}.")
    if mode != "codecarbon":
        counters = Counters(country)
        if counters.has_processor or (mode == "counters" and counters.sources):
            return counters
        counters.stop()
    if mode == "counters":
        advice = "Make /sys/class/powercap/*/energy_uj readable, or use energy='codecarbon'."
        raise OSError(f"No energy counter of this machine can be read. {advice}")
    return CodeCarbonMeter(country)


# ---- counters


class RaplDomain:
    """A counter of RAPL in microjoules, which starts again from 0 at its range."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "energy_uj"
        self._range = int((folder / "max_energy_range_uj").read_text())
        self._last = int(self._file.read_text())
        self._joules = 0.0

    def joules(self) -> float:
        """Return the energy since the counter was opened."""
        value = int(self._file.read_text())
        self._joules += ((value - self._last) % (self._range + 1)) / 1e6
        self._last = value
        return self._joules


def rapl_domains(folder: Path = POWERCAP) -> Iterator[tuple[str, RaplDomain]]:
    """Yield the readable domains of processor packages (cpu) and memory (ram)."""
    for domain in sorted(folder.glob("intel-rapl*:*")):
        try:
            name = (domain / "name").read_text().strip()
            if name.startswith("package"):
                yield "cpu", RaplDomain(domain)
            elif name == "dram":
                yield "ram", RaplDomain(domain)
        except (OSError, ValueError):  # only root may read it, or the system has no such counter
            continue


class Gpu:
    """The counter of an NVIDIA GPU in millijoules, which begins when its driver is loaded."""

    def __init__(self, pynvml: Any, index: int) -> None:
        self._handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        self._read = pynvml.nvmlDeviceGetTotalEnergyConsumption
        self._first = self._read(self._handle)

    def joules(self) -> float:
        """Return the energy since the counter was opened."""
        return float(self._read(self._handle) - self._first) / 1000.0


def open_gpus() -> tuple[list[Gpu], int]:
    """Return the NVIDIA GPUs whose counters can be read, and the number of all."""
    try:
        import pynvml  # type: ignore[import-untyped, unused-ignore]

        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
    except Exception:  # not installed, or no driver
        return [], 0
    gpus = []
    for index in range(count):
        with contextlib.suppress(pynvml.NVMLError):  # GPUs before Volta have no counter
            gpus.append(Gpu(pynvml, index))
    return gpus, count


class Counters:
    """Energy counters of the machine: RAPL for processors and memory, NVML for NVIDIA GPUs."""

    def __init__(self, country: str = "", *, folder: Path = POWERCAP) -> None:
        self._country = country
        self._domains = list(rapl_domains(folder))
        self._gpus, gpu_count = open_gpus()
        self.has_processor = any(component == "cpu" for component, _ in self._domains)
        self.sources = len(self._domains) + len(self._gpus)
        is_part = len(self._gpus) < gpu_count
        self._gpu_method = f"NVML of {len(self._gpus)} of {gpu_count} GPUs" if is_part else "NVML"
        parts = ["RAPL"] if self._domains else []
        self._method = ", ".join([*parts, *([self._gpu_method] if self._gpus else [])])

    def read(self) -> dict[str, Amount]:
        joules: dict[str, float] = {}
        for component, domain in self._domains:
            joules[component] = joules.get(component, 0.0) + domain.joules()
        if self._gpus:
            joules["gpu"] = sum(gpu.joules() for gpu in self._gpus)
        amounts = {
            component: Amount(value / JOULES_PER_KWH, self._gpu_method if component == "gpu" else "RAPL", True)
            for component, value in joules.items()
        }
        return {TOTAL: Amount(sum(joules.values()) / JOULES_PER_KWH, self._method, True), **amounts}

    def emissions(self, energy: float) -> Amount | None:
        return grid_emissions(energy, self._country)

    def stop(self) -> None:
        """Do nothing: a counter needs no end."""


def grid_emissions(energy: float, country: str) -> Amount | None:
    """Return the emissions of energy from the grid of a country, by the mean intensity in CodeCarbon's table."""
    if not country:
        return None
    from codecarbon.input import DataSource  # type: ignore[import-untyped, unused-ignore]

    source: Any = DataSource
    entry: Mapping[str, Any] = source().get_global_energy_mix_data().get(country, {})
    intensity = entry.get("carbon_intensity")
    if intensity is None:
        raise ValueError(f"CodeCarbon has no carbon intensity of {country!r}. Pass another code of three letters.")
    return Amount(energy * float(intensity) / 1000.0, f"grid of {country}, {intensity} g/kWh (CodeCarbon)", False)


# ---- CodeCarbon


class CodeCarbonMeter:
    """CodeCarbon's offline tracker: a model of the processor and the memory; GPUs are read through NVML."""

    def __init__(self, country: str = "") -> None:
        try:
            from codecarbon import OfflineEmissionsTracker
            from codecarbon._version import __version__
            from codecarbon.output_methods.base_output import BaseOutput
        except ImportError:
            raise MissingDependency("codecarbon", "energy") from None
        logging.getLogger("codecarbon").setLevel(logging.CRITICAL)  # it reports before it reads its own setting
        self._country = country
        self._method = f"CodeCarbon {__version__}"
        self._totals: Any = None
        meter = self

        class Output(BaseOutput):  # type: ignore[misc, unused-ignore]
            """Takes the totals in place of a file or a service."""

            def out(self, total: Any, delta: Any) -> None:
                meter._totals = total

        self._tracker = OfflineEmissionsTracker(  # explicit, since a file of the user could ask for network calls
            country_iso_code=country or PLACEHOLDER_COUNTRY,
            allow_multiple_runs=True,
            log_level="critical",
            output_methods=[],
            output_handlers=[Output()],
            emissions_endpoint=None,
            electricitymaps_api_token="",
            tracking_mode="machine",
        )
        self._tracker.start()

    def read(self) -> dict[str, Amount]:
        self._tracker.flush()
        if self._totals is None:
            raise OSError("CodeCarbon returned no measurement.")
        totals, method = self._totals, self._method
        values = {"cpu": totals.cpu_energy, "gpu": totals.gpu_energy, "ram": totals.ram_energy}
        amounts = {name: Amount(float(value), f"{method}, model", False) for name, value in values.items() if value}
        if "gpu" in amounts:
            amounts["gpu"] = amounts["gpu"]._replace(method=f"{method}, NVML", is_metered=True)
        return {TOTAL: Amount(float(totals.energy_consumed), f"{method}, model", False), **amounts}

    def emissions(self, energy: float) -> Amount | None:
        return grid_emissions(energy, self._country)

    def stop(self) -> None:
        self._tracker.stop()


# ---- a run


class EnergyRecorder:
    """Records the energy of a run, location "", and of its stages, through the function that emits events."""

    def __init__(self, meter: Meter, emit: Callable[[events.Event], bool]) -> None:
        self.meter = meter
        self._emit = emit
        self._pid = os.getpid()
        self._starts: dict[str, dict[str, Amount]] = {"": {}}

    def begin(self, location: str) -> None:
        """Note the amounts at the begin of a stage."""
        if self._pid == os.getpid():
            self._starts[location] = self.meter.read()

    def end(self, location: str) -> None:
        """Record what was consumed since the begin of a stage, or of the run."""
        start = self._starts.pop(location, None)
        if start is None or self._pid != os.getpid():
            return
        for component, amount in self.meter.read().items():
            used = max(amount.value - start[component].value, 0.0) if component in start else amount.value
            self._record(location, "energy", component, amount._replace(value=used))
            emissions = self.meter.emissions(used) if component == TOTAL else None
            if emissions is not None:
                self._record(location, "emissions", component, emissions)

    def _record(self, location: str, quantity: str, component: str, amount: Amount) -> None:
        unit = ENERGY_UNIT if quantity == "energy" else EMISSIONS_UNIT
        self._emit(
            events.Consumed(
                location, quantity, amount.value, unit, amount.method, is_metered=amount.is_metered, component=component
            )
        )

    def finish(self) -> None:
        """Record what the run consumed, and end the measurement."""
        if self._pid == os.getpid():
            try:
                self.end("")
            finally:
                self.meter.stop()
