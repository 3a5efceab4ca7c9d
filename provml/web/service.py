"""A running service: the store of its home, which it indexes, its tokens, and what runs in the background."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import NamedTuple, Self

from anyio import CapacityLimiter, to_thread

from provml.web.cache import PositionCache
from provml.web.query_pool import QueryPool
from provml.web.refusals import Refusals
from provml.web.run_ends import RunEnds
from provml.web.security import Guard, read_or_create_tokens
from provml.web.served_store import ServedStore
from provml.web.settings import ServiceLimits, ServiceSettings
from provml.web.snapshots import Snapshots

logger = logging.getLogger("provml.web")


VIEW_SECONDS = 0.25
"""Age up to which answers are not made again."""
MAX_VIEW_SECONDS = 5.0
COST_FACTOR = 4
"""Making answers may take a fifth of the time of one thread."""


class IndexState(NamedTuple):
    """A position of the index, and the time of the change that led to it, in seconds since the epoch."""

    position: str
    seconds: float


class View:
    """A state of the index that answers share, and the time that it took to make them."""

    def __init__(self) -> None:
        self.state = IndexState("", 0.0)
        self._due = 0.0
        self._cost = 0.0

    @property
    def is_due(self) -> bool:
        """True if the state may move on."""
        return time.monotonic() >= self._due + min(COST_FACTOR * self._cost, MAX_VIEW_SECONDS)

    def expire(self) -> None:
        """Let the next request see the present state."""
        self._due = self._cost = 0.0

    def move(self, state: IndexState) -> None:
        """Move on to a state."""
        if state.position != self.state.position:
            self._cost = 0.0
        self.state = state
        self._due = time.monotonic() + VIEW_SECONDS

    def add_cost(self, seconds: float) -> None:
        """Add the time that an answer took to make."""
        self._cost += seconds


class ServiceStoppedError(Exception):
    """The service has stopped while it indexed."""


class Service:
    """The state that all endpoints share. The process of a service holds the index of the home."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.store = ServedStore(settings.home)
        self.guard = Guard(settings, settings.tokens or read_or_create_tokens(settings.home))
        self.cache = PositionCache()
        self.view = View()
        self.run_ends = RunEnds()
        self.refusals = Refusals(settings.home)
        self.snapshots = Snapshots(self.store)
        self.pool = QueryPool(settings.limits, self.snapshots)
        self._wake = asyncio.Event()
        self._sync_lock = asyncio.Lock()
        self._sync_limiter = CapacityLimiter(1)
        """A thread of its own: indexing does not wait for the threads of requests."""
        self.write_lock = asyncio.Lock()
        """Held while loaded graphs are changed."""
        self._synced = -math.inf
        self._recorded = -math.inf
        self._tasks: set[asyncio.Task[None]] = set()
        self.background: list[Callable[[], Coroutine[None, None, None]]] = []
        """Functions whose coroutines run while the service runs, and are cancelled when it stops."""
        self.before_sync: list[Callable[[], object]] = []
        """Functions that are called in a thread before the journals are read."""
        self.is_stopping = False
        self._has_stopped = False
        self.stopping = asyncio.Event()
        self.closers: list[Callable[[], None]] = []
        """Called before the index is released: whatever reads it in threads ends then."""
        self.syncs = 0
        self.sync_seconds = 0.0
        """Duration of the last look at the journals."""
        self.streams = 0
        """Number of open live streams."""
        self.catalog_stamp: tuple[tuple[str, int], ...] | None = None

    @property
    def home(self) -> Path:
        """The home whose runs are served."""
        return self.store.home

    @property
    def limits(self) -> ServiceLimits:
        """The limits of requests."""
        return self.settings.limits

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the index."""
        for closer in self.closers:
            closer()
        self.store.close()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Index new events in the background until the block ends; lifespan of the application."""
        self._wake = asyncio.Event()
        self._sync_lock = asyncio.Lock()
        self._sync_limiter = CapacityLimiter(1)
        self.write_lock = asyncio.Lock()
        self.is_stopping = self._has_stopped = False
        to_thread.current_default_thread_limiter().total_tokens = self.limits.threads
        self.stopping = asyncio.Event()
        self.snapshots = Snapshots(self.store)
        self.pool = QueryPool(self.limits, self.snapshots)
        await to_thread.run_sync(self.snapshots.remove_abandoned)
        self.start_task(self._sync_forever(), "sync")
        for work in self.background:
            self.start_task(work(), "background")
        try:
            yield
        finally:
            await self.stop()

    async def stop(self) -> None:
        """End what runs in the background."""
        self.is_stopping = self._has_stopped = True
        self.stopping.set()
        tasks = list(self._tasks)
        await self.pool.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.refusals.save()
        self.snapshots.close()

    def start_task(self, work: object, name: str) -> None:
        """Run a coroutine in the background until it ends or the service stops."""
        task: asyncio.Task[None] = asyncio.create_task(work, name=name)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def note_recorded(self) -> None:
        """Note that a client recorded something here."""
        self._recorded = time.monotonic()

    def wake(self) -> None:
        """Index soon: something was recorded. Call it in the thread of the event loop."""
        self._wake.set()

    def announce_change(self) -> None:
        """Let the next answers see what was just written, also those that otherwise lag a little behind."""
        self.snapshots.renew()
        self.view.expire()

    def sync(self) -> None:
        """Index what is new, in the thread of the caller."""
        for call in self.before_sync:
            call()
        self.store.sync(self._check_running)

    def _check_running(self, events: int) -> None:
        """End a sync when the service has stopped, so that the store can be closed. The next service goes on."""
        if self._has_stopped:
            raise ServiceStoppedError

    async def fresh(self, max_age: float = 0.0) -> IndexState:
        """Index what is new, unless that was done in the last `max_age` seconds, and return the state of the index.

        What a client recorded here is indexed in any case: it can be asked for at once.
        """
        if not max_age:
            self.view.expire()
        return await self._fresh(max_age)

    async def view_state(self) -> IndexState:
        """Return the state of the index that answers of the REST interface have at present.

        It moves on with the index, but not so often that making the answers again takes most of the time.
        """
        if self.view.is_due or self._recorded >= self._synced:
            self.view.move(await self._fresh(VIEW_SECONDS))
        return self.view.state

    async def _fresh(self, max_age: float) -> IndexState:
        if time.monotonic() - self._synced > max_age or self._recorded >= self._synced:
            start = time.monotonic()
            async with self._sync_lock:
                if self._synced < start:  # else another request has waited for the same
                    begun = time.monotonic()
                    await to_thread.run_sync(self.sync, limiter=self._sync_limiter)
                    self.syncs += 1
                    self.sync_seconds = time.monotonic() - begun
                    self._synced = begun
        seconds = self.store.position_time  # first: with the time of an older change, a client only asks once more
        return IndexState(self.store.position, seconds)

    async def _sync_forever(self) -> None:
        is_failing = False
        while not self.is_stopping:
            try:
                await self._fresh(0.0)
                is_failing = False
            except Exception:  # a full disk: the journals are complete, and the next turn tries again
                if not is_failing:
                    logger.exception("indexing failed; the journals are complete")
                is_failing = True
            with contextlib.suppress(TimeoutError):  # wait_for of Python 3.11 can lose the cancellation of a stop
                async with asyncio.timeout(self.settings.sync_seconds):
                    await self._wake.wait()
            self._wake.clear()
