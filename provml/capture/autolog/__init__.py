"""Autolog: record the trainings of a script without changing them, `provml.autolog()`.

This package is the only part of provml that replaces functions of other packages. Each framework has one module here,
with a function `activate(session, patches)` that puts the capture of the framework in place, by an official extension
point where there is one.

_patches       replaced attributes, and how to undo them
_finder        frameworks that are imported later
_session       the run and the captures
argparse       the command line as hyperparameters
optuna         the trials of a study as child runs
startup        the start-up hook of `provml run`
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple, Unpack

from provml.capture.autolog._finder import PostImportFinder
from provml.capture.autolog._patches import Patches
from provml.capture.autolog._session import Session
from provml.errors import WrongType, WrongValue
from provml.recording.frames import watch_exceptions
from provml.recording.ids import new_run_id
from provml.recording.run import Run, check_settings, check_switches, describe_unexpected
from provml.recording.settings import BaseSettings


class Framework(NamedTuple):
    """A package that autolog knows."""

    trigger: str
    """The module after whose import the framework is activated."""
    first: tuple[int, ...]
    """The first version that autolog knows."""
    last: tuple[int, ...]
    """The version before which autolog stops: the next one that may be different."""
    package: str = ""
    """The package with the version, if it is not the one of the trigger."""


FRAMEWORKS = {
    "keras": Framework("keras", (3, 5), (4,)),
    "lightning": Framework("lightning.pytorch", (2, 4), (3,), "lightning"),
    "pytorch_lightning": Framework("pytorch_lightning", (2, 4), (3,)),
    "transformers": Framework("transformers.trainer", (4, 46), (6,), "transformers"),
    "sklearn": Framework("sklearn.base", (1, 4), (2,), "sklearn"),
    "xgboost": Framework("xgboost", (2, 1), (4,)),
    "lightgbm": Framework("lightgbm", (4, 3), (5,)),
    "torch": Framework("torch", (2, 4), (3,)),
    "optuna": Framework("optuna", (3,), (6,)),
    "argparse": Framework("argparse", (), ()),
}
"""The frameworks and packages that autolog records, by the name of their module in this package."""
SWITCHES: tuple[Literal["strict", "capture_environment", "capture_code"], ...] = (
    "strict", "capture_environment", "capture_code",
)  # fmt: skip
"""Settings that are on or off."""
MODULES = {"pytorch_lightning": "lightning"}
"""Modules of this package that have another name than the framework."""


class Autolog:
    """Autolog in this process: what is replaced, and what it records into."""

    def __init__(self, session: Session, names: list[str]) -> None:
        self.session = session
        self.patches: dict[str, Patches] = {}
        """The replaced attributes of the frameworks that are active."""
        self._finder = PostImportFinder({FRAMEWORKS[name].trigger: partial(self._activate, name) for name in names})

        self._stop_watching: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Activate the frameworks that are imported; the others follow when they are imported."""
        self._finder.install()
        self._stop_watching = watch_exceptions()

    def stop(self) -> None:
        """Restore everything, and end what was begun."""
        self._finder.uninstall()
        for patches in self.patches.values():
            patches.undo()
        self.patches = {}
        try:
            self.session.finish()
        finally:
            self.session.is_active = False
            self._stop_watching()

    def _activate(self, name: str) -> None:
        """Put the capture of a framework in place. What goes wrong here leaves the framework as it is."""
        framework, patches = FRAMEWORKS[name], Patches()
        if not _is_known(name, framework):
            return
        try:
            module = import_module(f"{__name__}.{MODULES.get(name, name)}")
            module.activate(self.session, patches)
            self.patches[name] = patches
        except Exception as error:
            patches.undo()
            message = "provml: autolog does not record %s %s, which it does not know (%s: %s)."
            logging.getLogger("provml").warning(message, name, _version(name, framework), type(error).__name__, error)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the specification of a module that is waited for, for the start-up hook of `provml run`."""
        return self._finder.find_spec(name, path, target)


def _version(name: str, framework: Framework) -> str:
    return str(getattr(sys.modules.get(framework.package or name), "__version__", ""))


def _is_known(name: str, framework: Framework) -> bool:
    """Return whether autolog knows the version of a framework; log otherwise."""
    if not framework.first:  # a part of Python
        return True
    text = _version(name, framework)
    numbers = tuple(int(part) for part in text.split("+")[0].split(".")[:2] if part.isdecimal())
    if numbers and framework.first <= numbers < framework.last:
        return True
    first, last = (".".join(map(str, version)) for version in (framework.first, framework.last))
    message = "provml: autolog does not record %s %s: it knows the versions from %s to before %s. Use its capture."
    logging.getLogger("provml").warning(message, name, text or "of an unknown version", first, last)
    return False


_current: Autolog | None = None
_is_called = False
"""Whether `autolog` was called in this process."""


def autolog(
    enabled: bool = True,
    *,
    name: str = "",
    run: Run | str | None = None,
    frameworks: list[str] | tuple[str, ...] | None = None,
    **settings: Unpack[BaseSettings],
) -> None:
    """Record the trainings of this script from now on; `autolog(False)` ends that and restores all functions.

    The first training begins a run, unless one is open. `name` is its experiment, by default the name of the script;
    `run` is a run or the id of one; `frameworks` limits what is recorded. Other settings are those of `provml.record`.
    A second call replaces the settings of the first.
    """
    global _current, _is_called
    names = check_frameworks(frameworks)
    if run is not None and not isinstance(run, (str, Run)):
        raise WrongType("autolog", "run", run, "a run", "Pass the result of provml.record(…), or a run id.")
    if unexpected := [setting for setting in settings if setting not in BaseSettings.__annotations__]:
        advice = "Hyperparameters are taken from the training itself."
        raise TypeError(describe_unexpected("autolog", unexpected, BaseSettings.__annotations__, advice))
    if not isinstance(enabled, bool):
        raise WrongType("autolog", "enabled", enabled, "True or False", "Pass the name of the experiment as name=….")
    check_settings(settings.get("detail", "batch"), settings.get("every", 1), run if isinstance(run, str) else None)
    check_switches(**{switch: settings[switch] for switch in SWITCHES if switch in settings})
    previous, _current, _is_called = _current, None, True
    if previous is not None:
        previous.stop()
    if enabled:
        _current = Autolog(Session(name, run, settings), names)
        _current.start()


def check_frameworks(frameworks: object) -> list[str]:
    """Return the frameworks to record; all if None."""
    if frameworks is None:
        return list(FRAMEWORKS)
    if isinstance(frameworks, str) or not hasattr(frameworks, "__iter__"):
        raise WrongType("autolog", "frameworks", frameworks, "a list of names", "Use frameworks=['torch'].")
    names = list(frameworks)
    for name in names:
        if name not in FRAMEWORKS:
            advice = "Leave it out to record all of them."
            raise WrongValue("autolog", "frameworks", str(name), f"some of {', '.join(FRAMEWORKS)}", advice)
    return names


def start_from_environment() -> Autolog | None:
    """Switch autolog on as `provml run` asks in PROVML_AUTOLOG; called by the start-up hook.

    Return None if the script called `autolog` before: that is what it wants.
    """
    if _is_called:
        return None
    settings = json.loads(os.environ.get("PROVML_AUTOLOG") or "{}")
    run_id, _, rest = os.environ.get("PROVML_RUN", "").partition("@")
    if rest.partition("@")[0] == str(os.getpid()):  # the script itself; the processes that it starts join its run
        settings["run"] = run_id
    autolog(**settings)
    return _current


def export_new_run() -> str:
    """Return the value of PROVML_RUN with which this process and those that it starts record into one new run."""
    return f"{new_run_id()}@{os.getpid()}@"


def startup_folder() -> Path:
    """Return the folder with the start-up hook of `provml run`."""
    return Path(__file__).parent / "startup"


def current() -> Autolog | None:
    """Return autolog if it is on."""
    return _current


def active_session() -> Session | None:
    """Return the session if autolog is on."""
    return _current.session if _current is not None else None


__all__ = ["autolog"]
