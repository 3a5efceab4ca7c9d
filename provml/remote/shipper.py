"""Ship the runs of a home to a service: at once (`HomeShipment`), or in a thread while they are recorded (`attach`).

One thread serves all runs of a process that go from one home to one service, and one process at a time ships a home:
the others wait for its lock. Nothing here is called by the thread of the training but `attach` and `detach`.
"""

from __future__ import annotations

import hashlib
import logging
import os
import random
import shutil
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

from provml.errors import ServiceError
from provml.journal.run_files import scan_runs
from provml.journal.shipping import ShippingState, read_state, unsent_bytes, write_state
from provml.paths import NO_FOLLOW
from provml.remote.connection import Address, Connection
from provml.remote.shipment import AT_ONCE, REFUSES_ALL, Batching, RunShipment

try:
    import fcntl
except ImportError:  # without fcntl, several processes may send the same: the service takes it once
    fcntl = None  # type: ignore[assignment]

POLL_SECONDS = 0.2
"""Interval at which the thread looks for new events."""
SCAN_SECONDS = 5.0
"""Interval at which it looks for runs of other processes."""
FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.5, 30.0
WAIT_SECONDS = 5.0
"""How long the end of a run waits until the service has all of it, as long as the service answers."""


class Destination(NamedTuple):
    """Where the runs of a home go, and how."""

    address: Address
    batching: Batching = Batching()
    is_online: bool = True
    """False: nothing is sent while a run is recorded; `provml ship` does it later."""
    wait_seconds: float = WAIT_SECONDS
    is_temporary: bool = False
    """The home is in memory: a run is removed from it as soon as the service has all of it."""


class HomeShipment:
    """The runs of a home, or some of them, sent by the thread that calls `send`."""

    def __init__(self, home: Path, address: Address, runs: Collection[str] = ()) -> None:
        self.home = home
        self.url = address.url
        self.runs = runs
        """Ids of the runs to send; all if there are none."""
        self.errors: dict[str, str] = {}
        """Why the service refused a run."""
        self._connection = Connection(address)
        self._shipments: dict[str, RunShipment] = {}

    def send(self, on_run: Callable[[str], None] | None = None) -> int:
        """Send all that is recorded; return how many runs the service has completely. More may follow.

        Raise ServiceError if the service does not answer, or refuses everything.
        """
        for run in self._find_runs():
            shipment = self._shipments.get(run) or RunShipment(self.home, self.home / "runs" / run, self.url)
            self._shipments[run] = shipment
            try:
                while shipment.ship(self._connection, AT_ONCE, flush=True):
                    pass
                self.errors.pop(run, None)
            except ServiceError as error:
                if error.status in REFUSES_ALL:
                    raise
                self.errors[run] = str(error)
            if on_run is not None:
                on_run(run)
        return sum(shipment.is_complete for shipment in self._shipments.values())

    def sent_runs(self) -> list[str]:
        """Return the ids of the runs that were sent, all of them or a part."""
        return sorted(self._shipments)

    def _find_runs(self) -> list[str]:
        return sorted(self.runs) or sorted(files.run for files in scan_runs(self.home) if files.journals)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class Shipper:
    """The thread that ships the runs of a home."""

    def __init__(self, home: Path, destination: Destination) -> None:
        self.home = home
        self.destination = destination
        self._connection = Connection(destination.address)
        self._changed = threading.Condition()
        self._wake = threading.Event()
        self._folders: set[Path] = set()
        """Runs that this process records."""
        self._shipments: dict[Path, RunShipment] = {}
        self._flushed: set[Path] = set()
        """Runs that have ended here, and are sent without delay."""
        self._complete: set[Path] = set()
        self._stopped = False
        self._attempts = 0
        """Number of rounds that are over."""
        self._failures = 0
        self._next_scan = 0.0
        self._lock_file = -1
        self._thread = threading.Thread(target=self._run, name="provml-ship", daemon=True)
        self._thread.start()

    # ---- called by the thread of the training

    def add(self, folder: Path) -> None:
        """Ship a run from now on."""
        with self._changed:
            self._folders.add(folder)

    def finish(self, folder: Path, name: str) -> bool:
        """Wait until the service has a journal and all artifacts, at most for `wait_seconds`.

        It does not wait for a service that is away. Return whether the service has them.
        """
        deadline = time.monotonic() + self.destination.wait_seconds
        with self._changed:
            self._flushed.add(folder)
            started = self._attempts
            self._wake.set()
            while not (has_arrived := self._has_arrived(folder, name)):
                rest = deadline - time.monotonic()
                if rest <= 0 or (self._failures and self._attempts > started + 1) or not self._thread.is_alive():
                    break
                self._changed.wait(min(rest, POLL_SECONDS))
            self._folders.discard(folder)
        return has_arrived

    def stop(self) -> None:
        """End the thread; it is not waited for longer than a moment."""
        self._stopped = True
        self._wake.set()
        self._thread.join(POLL_SECONDS)

    @property
    def is_idle(self) -> bool:
        """True if this process records nothing for the destination any more."""
        return not self._folders

    def _has_arrived(self, folder: Path, name: str) -> bool:
        shipment = self._shipments.get(folder)
        if shipment is not None:
            return shipment.has_arrived(name)
        if folder in self._complete:
            return True
        state = read_state(folder)  # another process ships it
        size = (folder / name).stat().st_size if state is not None else 0
        return state is not None and not state.contents and 0 < size <= state.sent.get(name, 0)

    # ---- the thread

    def _run(self) -> None:
        try:
            while not self._stopped:
                delay = self._round()
                with self._changed:
                    self._attempts += 1
                    self._changed.notify_all()
                self._wake.wait(delay)
                self._wake.clear()
        finally:
            self._connection.close()
            if self._lock_file >= 0:
                os.close(self._lock_file)

    def _round(self) -> float:
        """Send what is new of each run; return the seconds until the next round."""
        try:
            if not self._acquire_lock():
                return SCAN_SECONDS / 5
            self._scan()
            sent = [self._ship(shipment) for shipment in list(self._shipments.values())]
            self._failures = 0
            return 0.0 if any(sent) and self._flushed else POLL_SECONDS
        except ServiceError as error:
            failure: Exception = error
        except Exception as error:  # never ends the thread: the disk may be full, a run may be removed
            failure = error
        self._failures += 1
        if self._failures == 1:
            text = "provml: shipping failed: %s It is tried again; `provml status` shows what is missing there."
            logging.getLogger("provml").warning(text, str(failure).rstrip(".") + ".")
        delay = min(FIRST_RETRY_SECONDS * (1 << min(self._failures - 1, 10)), MAX_RETRY_SECONDS)
        return delay * random.uniform(0.5, 1.0)  # many trainings must not come back at the same moment

    def _ship(self, shipment: RunShipment) -> bool:
        flush = shipment.folder in self._flushed
        has_sent = shipment.ship(self._connection, self.destination.batching, flush=flush)
        if shipment.is_complete and shipment.folder not in self._folders:
            with self._changed:
                self._complete.add(shipment.folder)
                del self._shipments[shipment.folder]
                self._flushed.discard(shipment.folder)
        return has_sent

    def _scan(self) -> None:
        """Find the runs of this process, and now and then those of others that are not complete."""
        for folder in list(self._folders):
            if folder not in self._shipments:
                self._complete.discard(folder)
                self._shipments[folder] = RunShipment(self.home, folder, self.destination.address.url)
        if time.monotonic() < self._next_scan:
            return
        self._next_scan = time.monotonic() + SCAN_SECONDS
        for files in scan_runs(self.home):
            folder = self.home / "runs" / files.run
            state = read_state(folder) if folder not in self._shipments else None
            if state is not None and state.url == self.destination.address.url and not state.is_complete:
                self._shipments[folder] = RunShipment(self.home, folder, state.url)

    def _acquire_lock(self) -> bool:
        """Become the process that ships this home to this service. The lock ends with the process."""
        if self._lock_file >= 0 or fcntl is None:
            return True
        name = hashlib.sha256(self.destination.address.url.encode()).hexdigest()[:16]
        self.home.mkdir(parents=True, exist_ok=True)
        file = os.open(self.home / f"shipping-{name}.lock", os.O_RDWR | os.O_CREAT | NO_FOLLOW, 0o644)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            return False
        self._lock_file = file
        return True


class _Registry:
    """The shippers of this process by home and URL. A forked child starts with none."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.shippers: dict[tuple[Path, str], Shipper] = {}


_registry = _Registry()


def attach(folder: Path, destination: Destination) -> None:
    """Ship a run of this process from now on. It returns at once."""
    home, url = folder.parent.parent, destination.address.url
    if read_state(folder) is None:
        write_state(folder, ShippingState(url))
    if not destination.is_online:
        return
    with _registry.lock:
        shipper = _registry.shippers.get((home, url))
        if shipper is None:
            try:
                shipper = Shipper(home, destination)
            except RuntimeError:  # the system has no more threads: `provml ship` sends it later
                return
            _registry.shippers[home, url] = shipper
        shipper.add(folder)


def detach(journal: Path, destination: Destination) -> None:
    """Give the service a moment to get the end of a journal; say how to send the rest."""
    folder = journal.parent
    key = folder.parent.parent, destination.address.url
    with _registry.lock:
        shipper = _registry.shippers.get(key)
    has_arrived = shipper.finish(folder, journal.name) if shipper is not None else False
    with _registry.lock:
        if shipper is not None and shipper.is_idle and _registry.shippers.pop(key, None) is not None:
            shipper.stop()
    if not has_arrived and destination.is_online:
        _warn(folder, destination.address.url)


def remove_if_complete(folder: Path) -> None:
    """Remove a run from a home in memory, if the service has all of it."""
    state = read_state(folder)
    if state is not None and state.is_complete and not unsent_bytes(folder, state):
        shutil.rmtree(folder, ignore_errors=True)


def _warn(folder: Path, url: str) -> None:
    home, state = folder.parent.parent, read_state(folder)
    reason = f" ({state.error})" if state is not None and state.error else ""
    size = unsent_bytes(folder, state) if state is not None else 0
    artifacts = len(state.contents) if state is not None else 0
    if state is not None and not size and not artifacts:  # all has arrived; only the last answer has not
        return
    parts = [f"{size:,} bytes"] if size or not artifacts else []
    parts += [f"{artifacts} artifacts"] if artifacts else []
    missing = " and ".join(parts)
    text = "provml: %s of run %s are not at %s yet%s. They are safe here; send them with `provml ship %s %s`."
    logging.getLogger("provml").warning(text, missing, folder.name, url, reason, home, url)


def _after_fork() -> None:
    global _registry
    _registry = _Registry()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
