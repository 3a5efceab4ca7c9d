"""The models of a capture: which recorded model an object or a file is."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provml.recording.data import Data
from provml.recording.data_registry import IdentityMap
from provml.recording.hashing import digest
from provml.recording.stages import Epoch, Stage

if TYPE_CHECKING:
    from provml.recording.run import Run


@dataclass
class TrainedModel:
    """A model that a training changes: the model it started from, and its latest recorded version.

    `progress` returns a value that is different after every change of the weights, or None if that is not known.
    """

    stage: Stage
    progress: Callable[[], object]
    initial: Data | None = None
    name: str = ""
    """The name of the model, if it has one of its own, such as one of several networks that a training changes."""
    latest: Data | None = None
    latest_location: str = ""
    latest_progress: object = None

    @property
    def location(self) -> str:
        """The location of the training's current or last section."""
        section = self.stage.current_epoch
        return section._location if section is not None else self.stage._location

    def set_latest(self, model: Data) -> None:
        """Set the model as it is now."""
        self.latest, self.latest_location, self.latest_progress = model, self.location, self.progress()

    def unchanged(self) -> Data | None:
        """Return the latest recorded version if it certainly has the weights that the model has now."""
        return self.latest if self.latest_progress is not None and self.latest_progress == self.progress() else None

    def current(self) -> Data | None:
        """Return the model as it is now, recorded if it changed since; the initial model before the first epoch."""
        section = self.stage.current_epoch
        if self.latest_location != self.location and self.unchanged() is None:
            if section is None:
                return self.initial
            self.set_latest(section.produced(None, name=self.name, epoch=section.index))
        return self.latest


class ModelFiles:
    """Models by the file or folder that contains them. A file that was changed since contains another model."""

    def __init__(self) -> None:
        self._models: dict[str, Data] = {}

    def set(self, path: str | os.PathLike[str], model: Data) -> None:
        """Set the model that a file contains now."""
        self._models[os.path.realpath(os.fspath(path))] = model

    def get(self, path: str | os.PathLike[str]) -> Data | None:
        """Return the model of a file, also if the file was deleted since."""
        model = self._models.get(os.path.realpath(os.fspath(path)))
        if model is None or not model.sha256 or not Path(path).is_file():
            return model
        content = digest(path)
        return model if content is not None and content.sha256 == model.sha256 else None


class CaptureModels:
    """The models that a capture knows, by object and by file, and the model of the last training."""

    def __init__(self, run: Run, provided: Any = None, progress: Callable[[], object] = lambda: None) -> None:
        self.last: Data | None = None
        """The model that was recorded last."""
        self._run = run
        self._provided = provided
        self._progress = progress
        self._training: TrainedModel | None = None
        self._parts: dict[str, TrainedModel] = {}
        """The networks of the last training by name, if it has several."""
        self._by_object: IdentityMap[TrainedModel | Data] = IdentityMap()
        self._files = ModelFiles()

    def begin_training(self, model: Any, stage: Stage, initial: Data | None) -> None:
        """Set the object that a training changes, and the model it continues from."""
        self._training, self._parts = TrainedModel(stage, self._progress, initial), {}
        self._by_object.set(model, self._training)

    def set_name(self, name: str) -> None:
        """Set the name of the model that the last training changes."""
        if self._training is not None:
            self._training.name = name

    def begin_part(self, name: str, model: Any, stage: Stage, initial: Data | None) -> None:
        """Set one of several networks that a training changes."""
        self._parts[name] = TrainedModel(stage, self._progress, initial, name)
        self._by_object.set(model, self._parts[name])

    def join_part(self, name: str, model: Any, stage: Stage) -> None:
        """Set one of several networks of a training that has begun, which may have changed this one before."""
        earlier = self._by_object.get(model)
        if isinstance(earlier, TrainedModel) and earlier.stage is stage:
            self._parts[name] = replace(earlier, name=name)
            self._by_object.set(model, self._parts[name])
        else:
            self.begin_part(name, model, stage, self.lookup(model))

    def changed_parts(self) -> list[str]:
        """Return the networks of the last training whose weights were not recorded as they are now, by name."""
        parts = self._parts or ({"": self._training} if self._training is not None else {})
        return [name for name, training in parts.items() if training.unchanged() is None]

    def record_file(
        self, section: Stage | Epoch, path: Any, *, is_current: bool = False, part: str = "", **fields: Any
    ) -> Data:
        """Record that a section saved its model in a file or folder; None: the model is in memory only.

        With `is_current` the file contains the weights as they are now. If these were recorded before, as the model of
        an evaluation, it is the same model. `part` is the name of one of several networks.
        """
        training = self._parts.get(part, self._training)
        unchanged = training.unchanged() if is_current and training is not None else None
        if unchanged is None:
            model = section.produced(path, **({"name": part} | fields if part else fields))
        else:
            model = self._run.saved(unchanged, path, **fields) if path is not None else unchanged
        if path is not None:
            self._files.set(path, model)
        return model

    def record_saved(self, model: Any, path: Any) -> None:
        """Record a file that an object was saved in after its training; nothing if no training here produced it."""
        data = self.lookup(model)
        if data is not None:
            self._files.set(path, self._run.saved(data, path))

    def set_last(self, model: Data, part: str = "") -> None:
        """Set the model that the last training produced; `part` is the name of one of several networks."""
        self.last = model
        training = self._parts.get(part, self._training)
        if training is not None:
            training.set_latest(model)

    def add_alias(self, model: Any) -> None:
        """Treat this object as the model of the last training, too."""
        if self._training is not None:
            self._by_object.set(model, self._training)

    def rebind(self, model: Any, data: Data | None) -> None:
        """Treat this object as another recorded model from now on; None: as a new model."""
        self._by_object.pop(model)
        if data is not None:
            self._by_object.set(model, data)

    def lookup(self, model: Any) -> Data | None:
        """Return the recorded model of an object or a file; None if no training of this capture produced it."""
        if isinstance(model, (str, os.PathLike)):
            return self._files.get(model)
        entry = model if isinstance(model, Data) else self._by_object.get(model)
        return entry.current() if isinstance(entry, TrainedModel) else entry

    def resolve(self, model: Any = None) -> Data:
        """Return the recorded model of an object or a file, by default the last one.

        A model that no training of this capture produced is the one that the user passed with `data={"model": …}`.
        """
        data = self.lookup(model) if model is not None else self.last
        if data is not None:
            return data
        source = model if isinstance(model, (str, os.PathLike)) else self._provided
        data = self.lookup(source)
        if data is None:
            data = self._run._register_data("model", source, name=self._run.model)
            if isinstance(source, (str, os.PathLike)):
                self._files.set(source, data)
        self._by_object.set(model, data)
        self.last = self.last or data
        return data

    def checkpoint(self, path: Any, *, read: bool) -> Data | None:
        """Return the checkpoint that a training continues from; without `read`, only one that is already known."""
        return self.resolve(path) if read else self.lookup(path)
