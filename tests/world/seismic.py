"""A life cycle: raw seismic files are curated, prepared in several ways, and learnt from by several runs.

There are two preparations of one raw file, runs that tie for the least loss, a run that failed, one that still goes on,
one that was lost, trainings with validation twins, one that trains on two sets, and one run that does all by itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from world.journal import Tale

KG = "http://example.org/kg/"
HOUR = 3600.0
MAY = 1777593600.0  # 2026-05-01


class Seismic:
    """The runs of the life cycle, told one after the other."""

    def __init__(self) -> None:
        self.tales: list[Tale] = []

    def _tale(self, run: str, name: str, hour: float, **said: Any) -> Tale:
        tale = Tale(run, name, MAY + hour * HOUR, **said)
        self.tales.append(tale)
        return tale

    def curation(
        self, run: str, hour: float, file: str, survey: str, *, slices: int, latitude: float, longitude: float
    ) -> None:
        """A raw file becomes a curated one; what its header says is taken along."""
        tale = self._tale(run, "curation", hour, by="geoscientist")
        raw = self.raw(tale, file, survey, slices=slices, latitude=latitude, longitude=longitude)
        curated = tale.data(f"{file}.h5")
        at = tale.begin("curation", "read-segy", using=[raw], role="raw", by="geoscientist", byte_order="big")
        tale.produced(at, curated)
        tale.end(at, 120.0)
        tale.finish()

    def raw(self, tale: Tale, file: str, survey: str, **known: Any) -> str:
        """A raw file, linked to the survey in the domain graph."""
        return tale.data(file, path=f"raw/{file}", about=f"{KG}{survey}" if survey else "", **known)

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
        """A curated file becomes a training set and a validation set of tiles of some slices."""
        tale = self._tale(run, "preparation", hour, by="engineer")
        self.prepare(tale, tale.data(f"{file}.h5"), name, slices=slices, tile=tile, noise=noise, **more)
        tale.finish()

    def prepare(
        self, tale: Tale, source: str, name: str, *, slices: tuple[int, int], tile: int, noise: float, **more: Any
    ) -> list[str]:
        """First without noise, then cut."""
        clean = tale.data(f"{name}-clean.h5")
        tale.step("filter", "denoise", using=[source], makes=clean, filter_name="denoise", noise_threshold=noise)
        sets = [tale.data(f"{name}-train.h5"), tale.data(f"{name}-validation.h5")]
        at = tale.begin("preparation", "tiles", using=[clean], tile_size=tile)
        tale.tell_parameters(at, first_slice=slices[0], last_slice=slices[1], **more)
        for one in sets:
            tale.produced(at, one)
        tale.end(at, 60.0)
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
        tale: Tale | None = None,
        **more: Any,
    ) -> None:
        """A training on some sets: the losses of each batch of each epoch; a measure of an epoch is their mean.

        A batch is also measured by its accuracy, and by a drift, of which no one says whether it is better high.
        """
        tale = tale or self._tale(run, "salt", hour, model="salt", by="trainer")
        using = [tale.data(name) for name in sets]
        training = tale.begin("training", using=using, learning_rate=learning_rate, optimizer="Adam", **more)
        twin, held_out = "", ""
        if validation:
            held_out = tale.data(validation)
            tale.used(training, held_out, "validation")
            twin = tale.begin("validation", using=[held_out], threshold=0.5)
        model = ""
        for index, batches in enumerate(losses, 1):
            epoch = tale.section(training, index)
            for number, loss in enumerate(batches, 1):
                tale.batch(epoch, number, 0.5 + 0.125 * number + 0.25 * index, **batch_measures(loss, number))
            is_last = index == len(losses)
            if is_last and ends == "running":
                return
            if is_last and ends == "failed":
                error = ("FloatingPointError", "loss is nan")
                tale.measured(epoch, loss=float("nan"))
                for at in [epoch, *([twin] if twin else []), training]:
                    tale.end(at, error=error)
                tale.finish(error=error)
                return
            mean = sum(batches) / len(batches)
            tale.measured(
                epoch, loss=mean, accuracy=1.0 - mean / 2, **({"recall": recalls[index - 1]} if recalls else {})
            )
            if twin:
                section = tale.section(twin, index, during=epoch)
                tale.batch(section, 1, 0.25, **batch_measures(mean + 0.0625, 1))
                tale.measured(section, loss=mean + 0.0625, accuracy=0.9 - mean / 2)
                tale.end(section)
            if models:
                model = tale.data("salt", f"{run} {index}", kind="model", path=f"models/{run}-{index}.pt")
                tale.produced(epoch, model, dice=0.5 + index / 16)
            tale.end(epoch)
            if index in (adapted or {}):
                tale.adapted(
                    epoch, technique="step decay", why="plateau", by="trainer", learning_rate=(adapted or {})[index]
                )
        if ends == "lost":
            return
        if not models:
            model = tale.produced(training, tale.data("salt", run, kind="model", path=f"models/{run}.pt"))
        if twin:
            tale.end(twin)
        tale.end(training)
        if evaluated:
            test = tale.begin("evaluation", by="trainer", using=[held_out] if held_out else [])
            tale.used(test, model, "model")
            tale.measured(test, accuracy=0.75 + 0.01 * len(self.tales))
            tale.end(test, 5.0)
        tale.finish()

    def write(self, home: Path) -> None:
        """Write all journals; the writer of a run called `lost` gave its last sign long ago."""
        for tale in self.tales:
            tale.write(home, silent_for=10_000_000.0 if "lost" in tale.run else 0.0)


def batch_measures(loss: float, number: int) -> dict[str, float]:
    """The measures of a batch. The best by one of them is not the best by another."""
    return {"loss": loss, "accuracy": 1.0 - loss * number / 4, "drift": number if loss > 0.3 else -loss}


def life_cycle() -> Seismic:
    """All of it."""
    world = Seismic()
    world.curation("c-f3", 0, "f3.sgy", "NetherlandsF3", slices=951, latitude=54.8, longitude=4.75)
    world.curation("c-penobscot", 1, "penobscot.sgy", "Penobscot3D", slices=601, latitude=44.1, longitude=-60.1)
    world.curation("c-parihaka", 2, "parihaka.sgy", "Parihaka3D", slices=922, latitude=-39.2, longitude=173.5)
    world.preparation("p-f3-a", 3, "f3.sgy", "f3-a", slices=(100, 300), tile=64, noise=0.25)
    world.preparation("p-f3-b", 4, "f3.sgy", "f3-b", slices=(100, 200), tile=32, noise=0.5)
    world.preparation("p-penobscot", 5, "penobscot.sgy", "penobscot", slices=(1, 50), tile=64, noise=0.25)
    lines = {"first_inline": 520, "last_inline": 640}  # by either name, another range
    world.preparation("p-parihaka", 6, "parihaka.sgy", "parihaka", slices=(500, 700), tile=64, noise=0.125, **lines)
    first = [[1.0, 0.875, 0.75], [0.5, 0.375, 0.4375], [0.25, 0.3125, 0.1875]]
    tied = [[0.75, 0.5], [0.25, 0.25]]
    world.learning("l-1", 10, ["f3-a-train.h5"], losses=first, validation="f3-a-validation.h5", batch_size=16)
    world.learning("l-2", 11, ["f3-a-train.h5"], losses=tied, learning_rate=0.001, adapted={1: 0.0005}, models=False)
    world.learning("l-3", 12, ["f3-b-train.h5"], losses=[[0.5, 0.5, 0.25], [0.5, 0.125, 0.25]], evaluated=False)
    world.learning("l-4", 13, ["f3-a-train.h5"], losses=[[0.9, 0.8], [0.7]], learning_rate=10.0, ends="failed")
    world.learning("l-5", 14, ["f3-b-train.h5"], losses=[[0.25, 0.375], [0.25]], ends="running")
    both = ["f3-a-train.h5", "penobscot-train.h5"]
    world.learning("l-6", 15, both, losses=[[0.6, 0.4], [0.4, 0.3]], validation="penobscot-validation.h5", dropout=0.4)
    world.learning("l-7-lost", 16, ["penobscot-train.h5"], losses=[[0.8, 0.7], [0.6, 0.5]], models=False, ends="lost")
    world.learning("l-8", 17, ["parihaka-train.h5"], losses=[[0.8, 0.7], [0.7, 0.5]], recalls=[0.75, 0.5])
    alone = Tale("l-9-alone", "salt", MAY + 18 * HOUR, model="salt", by="student")
    world.tales.append(alone)
    source = world.raw(alone, "f3.sgy", "NetherlandsF3", slices=951, latitude=54.8, longitude=4.75)
    world.prepare(alone, source, "mine", slices=(120, 180), tile=16, noise=0.25)
    world.learning("l-9-alone", 18, ["mine-train.h5"], losses=[[0.4, 0.3]], validation="mine-validation.h5", tale=alone)
    return world
