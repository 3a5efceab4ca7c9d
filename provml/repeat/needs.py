"""What is recorded about a run that has to be the same when it is executed again, read from its journals."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from provml.errors import CannotRepeat
from provml.journal import events
from provml.journal.artifacts import ArtifactFiles
from provml.journal.reader import JournalReader, read_header
from provml.journal.redaction import REDACTED
from provml.journal.run_files import journals_of_run, scan_runs, sort_journals
from provml.recording.repetition import PACKAGES_NAME, PATCH_NAME

STARTUP = "capture/autolog/startup"
"""The end of the entry of PYTHONPATH that `provml run` adds."""


@dataclass(frozen=True)
class DataFile:
    """A file or folder that a run used: its name, path, SHA-256, and whether its content is stored in the home."""

    name: str
    path: str
    sha256: str
    is_stored: bool


@dataclass
class Needs:
    """What a run needs. `process` has the fields of its environment, as the journal of its main process has them."""

    run: str
    home: Path
    header: events.Header
    process: dict[str, Any] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    software: dict[str, str] = field(default_factory=dict)
    seeds: dict[str, int] = field(default_factory=dict)
    data: list[DataFile] = field(default_factory=list)
    artifacts: dict[str, str] = field(default_factory=dict)
    """SHA-256 of stored artifacts by name."""
    writers: int = 1
    end: events.End | None = None

    @cached_property
    def command(self) -> list[str]:
        """The arguments of the command; empty if they are not recorded or cannot be split."""
        try:
            return shlex.split(str(self.process.get("command_line", "")))
        except ValueError:
            return []

    @property
    def is_command_whole(self) -> bool:
        """Whether nothing in the command was redacted or cut."""
        text = str(self.process.get("command_line", ""))
        return bool(self.command) and REDACTED not in text and "…" not in text

    @cached_property
    def variables(self) -> dict[str, str]:
        """The recorded environment variables, without those that were redacted."""
        pairs = (str(text).partition("=") for text in self.process.get("environment_variable", ()))
        return {name: value for name, _, value in pairs if REDACTED not in value}

    @property
    def is_by_provml_run(self) -> bool:
        """Whether `provml run` started the script."""
        return "PROVML_AUTOLOG" in self.variables and STARTUP in self.variables.get("PYTHONPATH", "")

    @property
    def autolog_options(self) -> list[str]:
        """The options of `provml run`."""
        try:
            settings = json.loads(self.variables.get("PROVML_AUTOLOG", "{}"))
        except ValueError:
            return []
        options = [f"--framework={name}" for name in settings.pop("frameworks", ())]
        return [*(f"--{name}={value}" for name, value in settings.items()), *options]

    @property
    def working_directory(self) -> Path:
        """The directory in which the process was started."""
        return Path(str(self.process.get("working_directory", "")))

    @property
    def checkout(self) -> Path | None:
        """The top folder of the checkout; None if the code was in none."""
        return Path(str(self.process["git_directory"])) if "git_directory" in self.process else None

    @property
    def patch(self) -> bytes | None:
        """The stored patch; None if there is none."""
        return self._artifact(PATCH_NAME)

    @cached_property
    def packages(self) -> dict[str, str]:
        """The versions of all packages that were installed; empty if they are not stored."""
        lines = (self._artifact(PACKAGES_NAME) or b"").decode("utf-8", "replace").splitlines()
        return {name: version for name, _, version in (line.partition("==") for line in lines)}

    def _artifact(self, name: str) -> bytes | None:
        files, sha256 = ArtifactFiles(self.home), self.artifacts.get(name, "")
        return files.path(sha256).read_bytes() if files.has(sha256) else None

    def position(self) -> int:
        """Return the position of the run among those of the same name that its process recorded, from 1."""
        own = self.header
        process = (own.host, own.boot_id, own.pid, own.start_ticks)
        count = 1
        for files in scan_runs(self.home):
            for name in files.journals if files.run != self.run else ():
                other = read_header(self.home / "runs" / files.run / name)
                if other is not None and (other.host, other.boot_id, other.pid, other.start_ticks) == process:
                    count += other.main and other.name == own.name and other.time < own.time
        return count


def read_events(home: Path, run: str) -> Iterator[events.AnyEvent]:
    """Yield the events of a run, of its main journals first; damaged lines are left out."""
    for path in sort_journals(journals_of_run(home / "runs" / run), read_header):
        for record in JournalReader(path).read(is_over=True):
            yield from record.events


def read_needs(home: Path, run: str) -> Needs:
    """Return what a run needs, by its id."""
    headers: list[events.Header] = []
    data: dict[str, events.Data] = {}
    produced: set[str] = set()
    needs: Needs | None = None
    for event in read_events(home, run):
        if isinstance(event, events.Header):
            headers.append(event)
            needs = needs or Needs(run, home, event)
        elif needs is None:
            continue
        elif isinstance(event, events.Environment) and headers[-1].main:
            _add_environment(needs, event)
        elif isinstance(event, events.Data):
            data.setdefault(event.ref, event)
        elif isinstance(event, events.Artifact):
            needs.artifacts.setdefault(event.name, event.sha256)
        elif isinstance(event, events.Produced):
            produced.add(event.ref)
        elif isinstance(event, events.End) and headers[-1].main:
            needs.end = event
    if needs is None:
        raise CannotRepeat(run, "no journal of it can be read", "See `provml verify`.")
    stored = ArtifactFiles(home)
    inputs = [data[ref] for ref in data if ref not in produced and data[ref].kind != "model" and data[ref].path]
    needs.data = [DataFile(item.name, item.path, item.sha256, stored.has(item.sha256)) for item in inputs]
    needs.writers = len(headers)
    return needs


def _add_environment(needs: Needs, event: events.Environment) -> None:
    needs.process |= event.process
    needs.machine |= event.machine
    needs.software |= event.software
    needs.seeds |= event.seeds
