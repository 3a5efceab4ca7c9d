"""A stage or an epoch for what users say themselves."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from provml.content import Data
from provml.recorder import Recorder
from provml.sections import Epoch, Stage


class Section:
    """Its verbs, whose faults do not reach the training."""

    def __init__(
        self,
        run: Recorder,
        find: Callable[[], Stage | Epoch | None],
        index: int = 0,
        using: Callable[[], list[Data]] = list,
    ) -> None:
        self.run = run
        self.index = index
        self._find = find
        self._using = using
        self.told: set[str] = set()

    def measured(self, /, **values: Any) -> None:
        """Measures of it."""
        self.told.update(values)
        self._say("measured", **values)

    def parameters(self, /, **values: Any) -> None:
        """It has these parameters too."""
        self._say("parameters", **values)

    def used(self, data: Data, *, role: str = "") -> None:
        """It used this data too."""
        self._say("used", data, role=role)

    def produced(self, source: Any, **said: Any) -> Data | None:
        """The model (or other data, with `kind`) that it left."""
        made: Data | None = self._say("produced", source, **said)
        return made

    def validation(self, **said: Any) -> Section:
        """The validation twin of this epoch, for a `with`, on the data that was handed over for it."""
        twin = self._say("validation", **said)
        return Section(self.run, lambda: twin, self.index)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._say("done", error=error)

    def _say(self, verb: str, /, *given: Any, **said: Any) -> Any:
        if not self.run.off:
            try:
                section = self._find()
                if verb == "validation":
                    said.setdefault("using", self._using())
                return getattr(section, verb)(*given, **said) if section is not None else None
            except Exception as error:
                self.run.fault(error)
        return None
