"""A stage or an epoch whose methods never raise, for user code inside a training."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self

from provml.recording.core import Using
from provml.recording.data import Data
from provml.recording.run import Run
from provml.recording.safety import EndsOnExit, report_errors
from provml.recording.settings import DataKind
from provml.recording.stages import Epoch, Stage


class SafeSection(EndsOnExit):
    """The methods of a stage or an epoch. Their errors are reported to the run and do not reach the training.

    The section may begin later than this object: `resolve` returns it when it is needed, or None.
    """

    def __init__(
        self,
        run: Run,
        resolve: Callable[[], Stage | Epoch | None],
        index: int = 0,
        validation_data: Callable[[], list[Data]] = list,
    ) -> None:
        self.run = run
        self.index = index
        self.recorded_names: set[str] = set()
        """Names of the measures that were recorded."""
        self._resolve = resolve
        self._validation_data = validation_data

    def measured(self, /, **values: Any) -> None:
        """Record measures."""
        self.recorded_names.update(values)
        self._call("measured", **values)

    def parameters(self, /, **values: Any) -> None:
        """Record more parameters."""
        self._call("parameters", **values)

    def used(self, data: Data, *, role: str = "") -> None:
        """Record that more data was used."""
        self._call("used", data, role=role)

    def produced(
        self,
        source: Any,
        *,
        name: str = "",
        role: str = "",
        kind: DataKind = "model",
        about: str | Iterable[str] = (),
        store: str = "",
        media_type: str = "",
        **values: Any,
    ) -> Data | None:
        """Record the model (or other data, by `kind`) that was produced. `values` are hyperparameters of the model."""
        values |= {"name": name, "role": role, "kind": kind}
        values |= {"about": about, "store": store, "media_type": media_type}
        data: Data | None = self._call("produced", source, **values)
        return data

    def validation(self, *, using: Using | None = None, by: str = "", **values: Any) -> SafeSection:
        """Begin the validation of this epoch, for a `with`, by default on the data passed to the capture."""
        if using is not None:
            values["using"] = using
        validation = self._call("validation", by=by, **values)
        return SafeEpoch(self.run, lambda: validation, self.index)

    def _end(self, error: BaseException | None) -> None:
        self._call("done", error=error)

    def _call(self, method: str, /, *args: Any, **kwargs: Any) -> Any:
        if not self.run.disabled:
            with report_errors(self.run):
                section = self._resolve()
                if method == "validation":
                    kwargs.setdefault("using", self._validation_data())
                return getattr(section, method)(*args, **kwargs) if section is not None else None
        return None


class SafeEpoch(SafeSection, int):
    """The methods of an epoch. It is an `int`: the item of the loop if that is a number, otherwise its `index`."""

    def __new__(cls, run: Run, resolve: Any, index: int, *args: Any, number: int | None = None) -> Self:
        return int.__new__(cls, index if number is None else number)

    def __init__(
        self,
        run: Run,
        resolve: Callable[[], Stage | Epoch | None],
        index: int,
        validation_data: Callable[[], list[Data]] = list,
        *,
        number: int | None = None,
    ) -> None:
        super().__init__(run, resolve, index, validation_data)

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        """Become a plain number in a checkpoint or another process."""
        return int, (int(self),)
