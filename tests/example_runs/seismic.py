"""A life cycle: raw seismic files are curated, prepared in several ways, and used by several trainings.

There are two preparations of one raw file, runs that tie for the least loss, runs that failed, are active or were lost,
trainings with a validation, one that trains on two sets, and one run that does everything itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from example_runs.journal import JournalBuilder

KG = "http://example.org/kg/"
HOUR = 3600.0
MAY = 1777593600.0  # 2026-05-01


class Seismic:
    """The runs of the life cycle in chronological order."""

    def __init__(self) -> None:
        self.journals: list[JournalBuilder] = []

    def _journal(self, run: str, name: str, hour: float, **fields: Any) -> JournalBuilder:
        journal = JournalBuilder(run, name, MAY + hour * HOUR, **fields)
        self.journals.append(journal)
        return journal

    def curation(
        self, run: str, hour: float, file: str, survey: str, *, slices: int, latitude: float, longitude: float
    ) -> None:
        """Curate a raw file, with the fields of its header."""
        journal = self._journal(run, "curation", hour, by="geoscientist")
        raw = self.raw(journal, file, survey, slices=slices, latitude=latitude, longitude=longitude)
        curated = journal.data(f"{file}.h5")
        at = journal.begin("curation", "read-segy", using=[raw], role="raw", by="geoscientist", byte_order="big")
        journal.produced(at, curated)
        journal.end(at, 120.0)
        journal.finish()

    def raw(self, journal: JournalBuilder, file: str, survey: str, **fields: Any) -> str:
        """Add a raw file, linked to a survey in the domain graph."""
        return journal.data(file, path=f"raw/{file}", about=f"{KG}{survey}" if survey else "", **fields)

    def preparation(
        self,
        run: str,
        hour: float,
        file: str,
        name: str,
        *,
        slices: tuple[int, int],
        tile: int,
        noise: float,
        **more: Any,
    ) -> None:
        """Prepare a training set and a validation set from tiles of some slices."""
        journal = self._journal(run, "preparation", hour, by="engineer")
        self.prepare(journal, journal.data(f"{file}.h5"), name, slices=slices, tile=tile, noise=noise, **more)
        journal.finish()

    def prepare(
        self,
        journal: JournalBuilder,
        source: str,
        name: str,
        *,
        slices: tuple[int, int],
        tile: int,
        noise: float,
        **more: Any,
    ) -> list[str]:
        """Remove noise, then cut tiles."""
        clean = journal.data(f"{name}-clean.h5")
        journal.step("filter", "denoise", using=[source], makes=clean, filter_name="denoise", noise_threshold=noise)
        sets = [journal.data(f"{name}-train.h5"), journal.data(f"{name}-validation.h5")]
        at = journal.begin("preparation", "tiles", using=[clean], tile_size=tile)
        journal.add_parameters(at, first_slice=slices[0], last_slice=slices[1], **more)
        for ref in sets:
            journal.produced(at, ref)
        journal.end(at, 60.0)
        return sets

    def learning(
        self,
        run: str,
        hour: float,
        sets: list[str],
        *,
        losses: list[list[float]],
        recalls: list[float] | None = None,
        validation: str = "",
        learning_rate: float = 0.01,
        adapted: dict[int, float] | None = None,
        models: bool = True,
        evaluated: bool = True,
        ends: str = "finished",
        journal: JournalBuilder | None = None,
        **more: Any,
    ) -> None:
        """Train on some sets: the losses of each batch of each epoch; the measure of an epoch is their mean.

        A batch also has an accuracy, and a drift without a direction.
        """
        journal = journal or self._journal(run, "salt", hour, model="salt", by="trainer")
        rates = adapted or {}
        using = [journal.data(name) for name in sets]
        training = journal.begin("training", using=using, learning_rate=learning_rate, optimizer="Adam", **more)
        validating, held_out = _begin_validation(journal, training, validation)
        model = ""
        for index, batches in enumerate(losses, 1):
            epoch = journal.section(training, index)
            for number, loss in enumerate(batches, 1):
                journal.batch(epoch, number, 0.5 + 0.125 * number + 0.25 * index, **batch_measures(loss, number))
            is_last = index == len(losses)
            if is_last and ends == "running":
                return
            if is_last and ends == "failed":
                _fail(journal, epoch, validating, training)
                return
            mean = sum(batches) / len(batches)
            journal.measured(
                epoch, loss=mean, accuracy=1.0 - mean / 2, **({"recall": recalls[index - 1]} if recalls else {})
            )
            if validating:
                _validate(journal, journal.section(validating, index, during=epoch), mean)
            if models:
                model = journal.data("salt", f"{run} {index}", kind="model", path=f"models/{run}-{index}.pt")
                journal.produced(epoch, model, dice=0.5 + index / 16)
            journal.end(epoch)
            if index in rates:
                journal.adapted(epoch, technique="step decay", why="plateau", by="trainer", learning_rate=rates[index])
        if ends == "lost":
            return
        if not models:
            model = journal.produced(training, journal.data("salt", run, kind="model", path=f"models/{run}.pt"))
        if validating:
            journal.end(validating)
        journal.end(training)
        if evaluated:
            self._evaluate(journal, model, held_out)
        journal.finish()

    def _evaluate(self, journal: JournalBuilder, model: str, data: str) -> None:
        """Add an evaluation of a model."""
        test = journal.begin("evaluation", by="trainer", using=[data] if data else [])
        journal.used(test, model, "model")
        journal.measured(test, accuracy=0.75 + 0.01 * len(self.journals))
        journal.end(test, 5.0)

    def write(self, home: Path) -> None:
        """Write all journals; a run named `lost` has been silent for long."""
        for journal in self.journals:
            journal.write(home, silent_for=10_000_000.0 if "lost" in journal.run else 0.0)


def _begin_validation(journal: JournalBuilder, training: str, name: str) -> tuple[str, str]:
    """Begin the validation of a training on some data, if it has a name; return its location and the data."""
    if not name:
        return "", ""
    data = journal.data(name)
    journal.used(training, data, "validation")
    return journal.begin("validation", using=[data], threshold=0.5), data


def _fail(journal: JournalBuilder, epoch: str, validation: str, training: str) -> None:
    """End a run with an error in an epoch."""
    error = ("FloatingPointError", "loss is nan")
    journal.measured(epoch, loss=float("nan"))
    for location in filter(None, (epoch, validation, training)):
        journal.end(location, error=error)
    journal.finish(error=error)


def _validate(journal: JournalBuilder, section: str, mean: float) -> None:
    """Add the validation of an epoch with some mean loss."""
    journal.batch(section, 1, 0.25, **batch_measures(mean + 0.0625, 1))
    journal.measured(section, loss=mean + 0.0625, accuracy=0.9 - mean / 2)
    journal.end(section)


def batch_measures(loss: float, number: int) -> dict[str, float]:
    """Return the measures of a batch; each of them has another best batch."""
    return {"loss": loss, "accuracy": 1.0 - loss * number / 4, "drift": number if loss > 0.3 else -loss}


def life_cycle() -> Seismic:
    """Return the complete life cycle."""
    cycle = Seismic()
    cycle.curation("c-f3", 0, "f3.sgy", "NetherlandsF3", slices=951, latitude=54.8, longitude=4.75)
    cycle.curation("c-penobscot", 1, "penobscot.sgy", "Penobscot3D", slices=601, latitude=44.1, longitude=-60.1)
    cycle.curation("c-parihaka", 2, "parihaka.sgy", "Parihaka3D", slices=922, latitude=-39.2, longitude=173.5)
    cycle.preparation("p-f3-a", 3, "f3.sgy", "f3-a", slices=(100, 300), tile=64, noise=0.25)
    cycle.preparation("p-f3-b", 4, "f3.sgy", "f3-b", slices=(100, 200), tile=32, noise=0.5)
    cycle.preparation("p-penobscot", 5, "penobscot.sgy", "penobscot", slices=(1, 50), tile=64, noise=0.25)
    lines = {"first_inline": 520, "last_inline": 640}  # by either name, another range
    cycle.preparation("p-parihaka", 6, "parihaka.sgy", "parihaka", slices=(500, 700), tile=64, noise=0.125, **lines)
    first = [[1.0, 0.875, 0.75], [0.5, 0.375, 0.4375], [0.25, 0.3125, 0.1875]]
    tied = [[0.75, 0.5], [0.25, 0.25]]
    cycle.learning("l-1", 10, ["f3-a-train.h5"], losses=first, validation="f3-a-validation.h5", batch_size=16)
    cycle.learning("l-2", 11, ["f3-a-train.h5"], losses=tied, learning_rate=0.001, adapted={1: 0.0005}, models=False)
    cycle.learning("l-3", 12, ["f3-b-train.h5"], losses=[[0.5, 0.5, 0.25], [0.5, 0.125, 0.25]], evaluated=False)
    cycle.learning("l-4", 13, ["f3-a-train.h5"], losses=[[0.9, 0.8], [0.7]], learning_rate=10.0, ends="failed")
    cycle.learning("l-5", 14, ["f3-b-train.h5"], losses=[[0.25, 0.375], [0.25]], ends="running")
    both = ["f3-a-train.h5", "penobscot-train.h5"]
    cycle.learning("l-6", 15, both, losses=[[0.6, 0.4], [0.4, 0.3]], validation="penobscot-validation.h5", dropout=0.4)
    cycle.learning("l-7-lost", 16, ["penobscot-train.h5"], losses=[[0.8, 0.7], [0.6, 0.5]], models=False, ends="lost")
    cycle.learning("l-8", 17, ["parihaka-train.h5"], losses=[[0.8, 0.7], [0.7, 0.5]], recalls=[0.75, 0.5])
    alone = JournalBuilder("l-9-alone", "salt", MAY + 18 * HOUR, model="salt", by="student")
    cycle.journals.append(alone)
    source = cycle.raw(alone, "f3.sgy", "NetherlandsF3", slices=951, latitude=54.8, longitude=4.75)
    cycle.prepare(alone, source, "mine", slices=(120, 180), tile=16, noise=0.25)
    cycle.learning(
        "l-9-alone", 18, ["mine-train.h5"], losses=[[0.4, 0.3]], validation="mine-validation.h5", journal=alone
    )
    return cycle
