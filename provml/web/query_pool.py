"""Ad-hoc queries in a few warm worker processes: only a process can be stopped in the middle of a query.

Each worker executes one query at a time on a read-only copy of the index. A worker whose query reaches a limit, or
whose client is gone, is killed, and another one takes its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from provml.errors import QueryError, QueryTimeout
from provml.store import query_worker
from provml.store.query_diagnosis import diagnose
from provml.web.cache import PositionCache
from provml.web.heap import ENVIRONMENT
from provml.web.problems import Problem
from provml.web.settings import ServiceLimits
from provml.web.snapshots import Snapshot, Snapshots

READ_LIMIT = 256 << 10
"""Bytes of an answer that wait in this process for a slow client."""
OPEN_SECONDS = 60.0
"""Time for the start of a worker process, on a machine that is busy."""
MAX_CACHED_BYTES = 256 << 10
"""Larger answers are not cached."""


class Worker:
    """A worker process, and the snapshot that it has open."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.snapshot: Snapshot | None = None

    @classmethod
    async def start(cls, memory_bytes: int) -> Worker:
        """Start a process."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            str(query_worker.__file__),
            str(memory_bytes),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=READ_LIMIT,
            start_new_session=True,  # an interrupt from the terminal is for the service, which ends its workers
            env={**ENVIRONMENT, **os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)},
        )
        return cls(process)

    def send(self, request: dict[str, Any]) -> None:
        """Send a request."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request).encode() + b"\n")

    async def frame(self) -> tuple[bytes, bytes]:
        """Return the next frame: its letter and its data. Raises EOFError if the process has ended."""
        assert self.process.stdout is not None
        head = await self.process.stdout.readexactly(5)
        return head[:1], await self.process.stdout.readexactly(int.from_bytes(head[1:], "big"))

    def memory_bytes(self) -> int:
        """Return the memory of the process without pages of files; 0 if the system does not report it."""
        try:
            fields = Path(f"/proc/{self.process.pid}/statm").read_bytes().split()
            return (int(fields[1]) - int(fields[2])) * resource.getpagesize()
        except (OSError, IndexError, ValueError):
            return 0

    async def kill(self) -> None:
        """End the process, whatever it does."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGKILL)  # `Process.kill` would take the exit code from `wait`
        await self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()


class PoolAnswer:
    """The answer to a request: its head, and its data in pieces."""

    def __init__(self, head: dict[str, Any], pieces: AsyncIterator[bytes], snapshot: Snapshot) -> None:
        self.head = head
        self.pieces = pieces
        self.snapshot = snapshot

    async def read(self) -> bytes:
        """Return all data."""
        return b"".join([piece async for piece in self.pieces])


class SharedAnswer(NamedTuple):
    """An answer for equal queries that waited while it was made: it is not older than their requests.

    `time` is when its execution began, by the monotonic clock; without a body, it reached the time limit.
    """

    time: float
    snapshot: Snapshot
    body: bytes | None


class QueryPool:
    """Worker processes, and the requests that wait for them."""

    def __init__(self, limits: ServiceLimits, snapshots: Snapshots) -> None:
        self.limits = limits
        self.snapshots = snapshots
        self.cache = PositionCache()
        self.idle: list[Worker] = []
        self.workers: set[Worker] = set()
        self.waiting = 0
        self.running = 0
        self.killed = 0
        self.refused = 0
        self.answered = 0
        self._slots = asyncio.Semaphore(limits.workers)
        self._queued: Counter[str] = Counter()
        self._shared: dict[str, SharedAnswer] = {}
        """The last answer to each query that is waiting."""
        self._closed = False
        self._discards: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Kill all workers."""
        self._closed = True
        self.idle.clear()
        await asyncio.gather(*(self._discard(worker) for worker in list(self.workers)))
        if self._discards:
            await asyncio.wait(self._discards)

    async def warm_up(self) -> None:
        """Start a worker before the first query, and let it open the index."""
        async with self.execute({"kind": "open"}):
            pass

    @contextlib.asynccontextmanager
    async def execute(self, request: dict[str, Any], *, text: str = "") -> AsyncIterator[PoolAnswer]:
        """Execute a request on the present index. Whatever ends the block early, also a cancellation, ends the query.

        An equal query on the same copy of the index is answered from the cache. Queries that wait get the answer of an
        equal one that begins meanwhile: otherwise each of them would be executed while something is recorded, because
        each would see a later copy. Raises QueryTimeout, QueryError or a problem; `text` is the query for error
        messages.
        """
        arrival = time.monotonic()
        key = hashlib.sha256(msgspec.json.encode(request)).hexdigest() if request["kind"] == "query" else ""
        async with self._snapshot() as snapshot:
            cached = self._cached(key, snapshot)
        if cached is not None:
            yield cached
            return
        async with self._slot(key or os.urandom(8).hex()) as shared:
            if shared is not None and shared.time >= arrival:
                if shared.body is None:
                    raise QueryTimeout(self.limits.query_seconds, is_of_service=True)
                yield _decoded(shared.body, shared.snapshot)
                return
            start = time.monotonic()
            async with self._snapshot() as snapshot:
                cached = self._cached(key, snapshot)
                if cached is not None:
                    yield cached
                    return
                try:
                    async with self._execute(request, snapshot, text) as answer:
                        yield PoolAnswer(answer.head, self._caching(key, answer, start), snapshot) if key else answer
                except QueryTimeout:
                    self._share(key, SharedAnswer(start, snapshot, None))
                    raise

    @contextlib.asynccontextmanager
    async def _execute(self, request: dict[str, Any], snapshot: Snapshot, text: str) -> AsyncIterator[PoolAnswer]:
        worker: Worker | None = None
        is_done = False
        try:
            worker = await self._worker(snapshot)
            await self._open(worker, snapshot)
            full = {"max_bytes": self.limits.result_bytes, **request, "store": str(snapshot.path)}
            worker.send(full)
            frames = self._frames(worker, text)
            async with asyncio.timeout(self.limits.query_seconds):
                letter, data = await anext(frames)
            if letter == b"E":
                is_done = True
                yield PoolAnswer({}, _pieces(), snapshot)
                return
            head = json.loads(data)

            async def pieces() -> AsyncIterator[bytes]:
                nonlocal is_done
                async for letter, data in frames:
                    if letter == b"E":
                        is_done = True
                        return
                    yield data

            async with asyncio.timeout(self.limits.answer_seconds):
                yield PoolAnswer(head, pieces(), snapshot)
        except TimeoutError:
            raise QueryTimeout(self.limits.query_seconds, is_of_service=True) from None
        except _Refused as refusal:
            is_done = True
            raise refusal.error from None
        finally:
            if worker is not None:
                await self._give_back(worker, is_done=is_done)

    @contextlib.asynccontextmanager
    async def _snapshot(self) -> AsyncIterator[Snapshot]:
        snapshot = await self.snapshots.acquire()
        try:
            yield snapshot
        finally:
            self.snapshots.release(snapshot)

    # ---- answers that were sent before

    def _cached(self, key: str, snapshot: Snapshot) -> PoolAnswer | None:
        body = self.cache.get(key, snapshot.position) if key else None
        return None if body is None else _decoded(body, snapshot)

    def _share(self, key: str, answer: SharedAnswer) -> None:
        """Keep an answer for equal queries, if some are waiting."""
        if key in self._queued:
            self._shared[key] = answer

    async def _caching(self, key: str, answer: PoolAnswer, start: float) -> AsyncIterator[bytes]:
        """Yield the pieces of an answer, and cache it if it is small and complete; its execution began at `start`."""
        collected, size = [], 0
        async for piece in answer.pieces:
            size += len(piece)
            if size <= MAX_CACHED_BYTES:
                collected.append(piece)
            yield piece
        if size <= MAX_CACHED_BYTES:
            body = b"".join((json.dumps(answer.head).encode(), b"\n", *collected))
            self.cache.put(key, answer.snapshot.position, body)
            self._share(key, SharedAnswer(start, answer.snapshot, body))

    async def _frames(self, worker: Worker, text: str) -> AsyncIterator[tuple[bytes, bytes]]:
        while True:
            try:
                letter, data = await worker.frame()
            except (asyncio.IncompleteReadError, ConnectionError):
                self._check_open()
                raise self._memory_error() from None
            if letter == b"X":
                raise _Refused(self._error(json.loads(data), text))
            yield letter, data
            if letter == b"E":
                return

    def _memory_error(self) -> QueryError:
        memory = self.limits.query_memory_bytes / 1e9
        return QueryError(f"the query needs more than {memory:.3g} GB of memory", "Restrict it, or add a LIMIT.")

    def _error(self, failure: dict[str, str], text: str) -> Exception:
        kind, message = failure["error"], failure["message"]
        if kind == "MemoryError":
            return self._memory_error()
        if kind == "OverflowError":
            return Problem(413, "ResultTooLarge", f"The query was stopped: {message}. Add a LIMIT.")
        if message.startswith("the update would change"):
            return Problem(403, "ProtectedGraph", f"Not done: {message}. Only loaded graphs can be changed.")
        if kind == "OSError":  # of the service, as a damaged file is, not of the query
            return OSError(message)
        if kind == "Exception" or message.startswith("Corruption"):
            return RuntimeError(message)
        return diagnose(text, message) if text else QueryError(" ".join(message.split())[:500])

    # ---- workers

    @contextlib.asynccontextmanager
    async def _slot(self, key: str) -> AsyncIterator[SharedAnswer | None]:
        """Wait for a worker, and return the last answer to an equal query, which has the same key, if there was one.

        Equal queries take one place in the queue.
        """
        self._check_open()
        if self._slots.locked() and key not in self._queued and len(self._queued) >= self.limits.queue:
            self.refused += 1
            detail = f"{len(self._queued)} different queries are waiting. Try again later."
            raise Problem(503, "TooManyQueries", detail, headers={"Retry-After": "2"})
        self.waiting += 1
        self._queued[key] += 1
        try:
            await self._slots.acquire()
        finally:
            self.waiting -= 1
            shared = self._shared.get(key)
            self._queued[key] -= 1
            if not self._queued[key]:
                del self._queued[key]
                self._shared.pop(key, None)
        self.running += 1
        try:
            self._check_open()
            yield shared
        finally:
            self.running -= 1
            self._slots.release()

    def _check_open(self) -> None:
        if self._closed:
            raise Problem(503, "Stopping", "The service is stopping.", headers={"Retry-After": "5"})

    async def _worker(self, snapshot: Snapshot) -> Worker:
        """Return an idle worker, if possible one that has the snapshot open, or start one."""
        self.idle.sort(key=lambda worker: worker.snapshot is snapshot)
        while self.idle:
            worker = self.idle.pop()
            if worker.process.returncode is None:
                break
            await self._discard(worker)
        else:
            worker = await Worker.start(self.limits.query_memory_bytes)
            self.workers.add(worker)
            if self._closed:
                await self._discard(worker)
                self._check_open()
        return worker

    async def _open(self, worker: Worker, snapshot: Snapshot) -> None:
        """Let a worker open a snapshot, unless it has: the time limit of a query is for its execution alone."""
        if worker.snapshot is snapshot:
            return
        self.snapshots.retain(snapshot)
        old, worker.snapshot = worker.snapshot, snapshot
        if old is not None:
            self.snapshots.release(old)
        worker.send({"kind": "open", "store": str(snapshot.path)})
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                await anext(self._frames(worker, ""))
        except TimeoutError:
            detail = f"A worker process could not open the index within {OPEN_SECONDS:g} s. Try again."
            raise Problem(503, "WorkerNotReady", detail, headers={"Retry-After": "5"}) from None

    async def _give_back(self, worker: Worker, *, is_done: bool) -> None:
        """Keep a worker that has finished; end one that has not, or whose query left a large heap."""
        if is_done and not self._closed:
            self.answered += 1
            if worker.memory_bytes() <= self.limits.idle_memory_bytes:
                self.idle.append(worker)
                return
        else:
            self.killed += 1
        task = asyncio.create_task(self._discard(worker))  # goes on if the request is cancelled
        self._discards.add(task)
        task.add_done_callback(self._discards.discard)
        await asyncio.shield(task)

    async def _discard(self, worker: Worker) -> None:
        self.workers.discard(worker)
        await worker.kill()
        if worker.snapshot is not None:
            self.snapshots.release(worker.snapshot)
            worker.snapshot = None


class _Refused(Exception):
    """An error that a worker reported; the worker is as good as before."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        super().__init__()


def _decoded(body: bytes, snapshot: Snapshot) -> PoolAnswer:
    """Return an answer that was sent before."""
    head, _, content = body.partition(b"\n")
    return PoolAnswer(json.loads(head), _pieces(content), snapshot)


async def _pieces(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
