"""Requests of other systems' clients become journals: kept first, then translated, all requests of a run together.

A source is what requests refer to, such as a dataflow; it may have several runs. Translating takes time, so a run with
many requests is translated less often: the work takes a small part of the time of one processor.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from provml.exchange.growing_journal import GrowingJournal
from provml.journal import events
from provml.web.ingest.received import Received, ReceivedLog, read_requests

logger = logging.getLogger("provml.web")

SILENCE_SECONDS = 300.0
"""After this time without a request, nothing more is expected of a run whose tasks have all ended."""
REST_FACTOR = 20.0
"""A run is not translated again until this multiple of the time that it took has passed."""
MIN_REST_SECONDS = 0.1
SWEEP_SECONDS = 1.0
CHEAP_SECONDS = 0.25
"""A run that takes no longer than this is translated at once when somebody asks a question."""


class TranslatedRun(NamedTuple):
    """The events of a run so far, the time of its last request, and whether no more is expected."""

    events: Sequence[events.Event]
    last_time: float
    is_over: bool


class NotTheOwner(Exception):
    """A request with another token than the one that began the run."""

    def __init__(self, run: str) -> None:
        self.run = run
        super().__init__(run)


class Source(Protocol):
    """The requests about one source, and the runs in them."""

    def apply(self, request: Received) -> Iterable[str]:
        """Take in a request and return the ids of the runs that it changes."""

    def owners(self, request: Received) -> Mapping[str, str]:
        """Return the owner of each run that a request would change, as far as those have begun."""

    def run_ids(self) -> Iterable[str]:
        """Return the ids of all runs."""

    def translate(self, run_id: str, now: float) -> TranslatedRun:
        """Return a run as it is at a time; without events if it cannot be translated yet."""

    def forget(self) -> None:
        """Release memory: the source is complete, and is loaded again if there is more of it."""


S = TypeVar("S", bound=Source)


class LiveSource(Generic[S]):
    """A source in memory, with the runs that have to be translated."""

    def __init__(self, state: S) -> None:
        self.state = state
        self.lock = threading.RLock()
        self.dirty: dict[str, float] = {}
        """Runs with something new, and the time before which they are not translated."""
        self.waiting: set[str] = set()
        """Runs that may still change without a request: by silence."""
        self.journals: dict[str, GrowingJournal] = {}
        self.costs: dict[str, float] = {}
        self.rest_until: dict[str, float] = {}


class Ingest(Generic[S]):
    """The requests of one protocol: kept, taken in, and translated into journals of a home."""

    def __init__(
        self,
        home: Path,
        protocol: str,
        new_source: Callable[[str], S],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.home = home
        self.protocol = protocol
        self.log = ReceivedLog(home, protocol)
        self.clock = clock
        self._new_source = new_source
        self._sources: dict[str, LiveSource[S]] = {}
        self._lock = threading.RLock()

    # ---- requests

    def source(self, key: str) -> LiveSource[S]:
        """Return a source, with all that was received about it."""
        with self._lock:
            source = self._sources.get(key)
            if source is None:
                source = LiveSource(self._new_source(key))
                for request in self.log.read(key):
                    self._apply(source, request)
                self._sources[key] = source
            return source

    def receive(self, key: str, request: Received) -> None:
        """Keep a request and take it in. Raises OSError if it cannot be kept.

        Raises NotTheOwner if a token other than the one that began a run would change it. Requests without an owner are
        those of a replay.
        """
        request = request.redacted()
        while True:
            source = self.source(key)
            with source.lock:
                with self._lock:
                    if self._sources.get(key) is not source:  # dropped meanwhile
                        continue
                    self._check_owner(source, request)
                    self.log.mark_open(key)
                self.log.append(key, request)
                for run_id in self._apply(source, request):
                    source.dirty[run_id] = source.rest_until.get(run_id, 0.0)
                return

    def rewrite(self, key: str, change: Callable[[Any], Any]) -> None:
        """Replace the bodies of the requests of a source, and translate its runs again."""
        source = self.source(key)
        with source.lock, self._lock:
            if self.log.rewrite(key, change):
                self._sources.pop(key, None)
                loaded = self.source(key)
                loaded.dirty |= dict.fromkeys(loaded.state.run_ids(), 0.0)

    def _check_owner(self, source: LiveSource[S], request: Received) -> None:
        try:
            owners = source.state.owners(request)
        except Exception:  # an unusual body: it is kept
            logger.exception("a request of %s is kept, but could not be read", self.protocol)
            return
        for run, owner in owners.items() if request.owner else ():
            if owner not in ("", request.owner):
                raise NotTheOwner(run)

    def _apply(self, source: LiveSource[S], request: Received) -> Iterable[str]:
        try:
            return list(source.state.apply(request))
        except Exception:  # it is kept, and can be translated when the mistake is corrected
            logger.exception("a request of %s is kept, but could not be read", self.protocol)
            return ()

    # ---- translation

    def resume(self) -> None:
        """Take up what an earlier process did not translate."""
        for key in self.log.open_sources():
            source = self.source(key)
            with source.lock:
                source.dirty |= dict.fromkeys(source.state.run_ids(), 0.0)

    def replay(self) -> list[tuple[str, bool]]:
        """Translate all that was ever received, and return the ids of the runs and whether their journals changed."""
        runs: list[tuple[str, bool]] = []
        for path in self.log.files():
            source = LiveSource(self._new_source(path.stem))
            for request in read_requests(path):
                self._apply(source, request)
            runs += [(run_id, self._translate(source, run_id)) for run_id in list(source.state.run_ids())]
        return runs

    def translate(self, *, at_once: bool = False) -> bool:
        """Translate the runs that are due, and return whether a journal changed.

        `at_once` includes runs that are quickly translated: somebody is about to ask a question.
        """
        changed = False
        with self._lock:
            sources = list(self._sources.items())
        for key, source in sources:
            with source.lock:
                for run_id in self._due(source, at_once=at_once):
                    changed |= self._translate(source, run_id)
                if not source.dirty and not source.waiting:
                    self._close(key, source)
        return changed

    def finish(self) -> None:
        """Translate everything that is not translated: the service stops."""
        for source in list(self._sources.values()):
            with source.lock:
                for run_id in list(source.dirty):
                    self._translate(source, run_id)

    def _due(self, source: LiveSource[S], *, at_once: bool) -> list[str]:
        now = time.monotonic()
        due = [
            run_id
            for run_id, start in source.dirty.items()
            if start <= now or (at_once and source.costs.get(run_id, 0.0) <= CHEAP_SECONDS)
        ]
        return due + [
            run_id
            for run_id in source.waiting
            if run_id not in source.dirty and source.rest_until.get(run_id, 0.0) + SWEEP_SECONDS <= now
        ]

    def _translate(self, source: LiveSource[S], run_id: str) -> bool:
        start = time.monotonic()
        changed = False
        source.dirty.pop(run_id, None)
        source.waiting.discard(run_id)
        try:
            run = source.state.translate(run_id, self.clock())
            if run.events:
                if run_id not in source.journals:
                    source.journals[run_id] = GrowingJournal(self.home, run_id, self.protocol)
                changed = source.journals[run_id].update(run.events, run.last_time)
                source.journals[run_id].seal(is_over=run.is_over)
            if not run.is_over:
                source.waiting.add(run_id)
        except Exception as error:
            logger.exception("%s run %s is kept, but could not be translated", self.protocol, run_id)
            if isinstance(error, OSError):  # a full disk: try again
                source.dirty[run_id] = time.monotonic() + SWEEP_SECONDS
        cost = source.costs[run_id] = time.monotonic() - start
        source.rest_until[run_id] = time.monotonic() + max(MIN_REST_SECONDS, REST_FACTOR * cost)
        return changed

    def _close(self, key: str, source: LiveSource[S]) -> None:
        """Note that a source is complete, and drop it from memory; a later request loads it again."""
        with self._lock:
            if self._sources.get(key) is source:
                self.log.mark_closed(key)
                del self._sources[key]
                source.state.forget()
