"""One run on its way to a service: its journals, annotations and artifacts, each from where the service has it.

The length of the service's copy is the truth.
"""

from __future__ import annotations

import contextlib
import gzip
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import msgspec

from provml.errors import FileFormatError, ServiceError
from provml.journal import events, segments, status, wire
from provml.journal.annotations import FOLDER as ANNOTATIONS
from provml.journal.annotations import file_sizes
from provml.journal.artifacts import ArtifactFiles
from provml.journal.process import HEARTBEAT_SECONDS
from provml.journal.reader import ARTIFACT_PREFIX, END_PREFIX, read_end, read_header
from provml.journal.run_files import journals_of_run
from provml.journal.shipping import ShippingState, read_state, write_state
from provml.remote.connection import Connection, Response

REFUSES_ALL = (0, 401, 408, 429, 500, 502, 503, 504, 507)
"""Statuses of a refusal that is not about one file: no answer, the wrong token, a service that is busy or full."""
MIN_REQUEST_BYTES = 16 << 10
"""Size of a request over a connection that breaks again and again."""
STATUS_SECONDS = 2.0
"""Interval at which the process of another writer is looked up."""


class Batching(msgspec.Struct, frozen=True):
    """How long events wait for others: until there are `queue` of them, or for some seconds."""

    queue: int = 50
    seconds: float = 1.0


AT_ONCE = Batching(1, 0.0)


class Pace:
    """The size of the next request: halved when the connection breaks, since a shorter request may get through."""

    def __init__(self, most: int) -> None:
        self.size = self._most = most

    def __enter__(self) -> None:
        """Begin a request."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.size = min(2 * self.size, self._most) if error is None else max(self.size // 2, MIN_REQUEST_BYTES)


class FileShipment:
    """One journal, or one file of annotations."""

    def __init__(self, run: str, folder: Path, name: str) -> None:
        self.name = name
        self.path = folder / name
        self.offset = -1
        """Length of the service's copy; -1 if it is not known."""
        self.is_complete = False
        self._target = wire.journal_path(run, name)
        self._is_journal = "/" not in name
        self._header: events.Header | None = None
        self._has_end = False
        self._status = "RUNNING"
        self._tail = b""
        """What a killed writer left in its batch buffer: it follows the file, whose length is then `_end`."""
        self._end = -1
        self._waiting_since = 0.0
        self._pace = Pace(wire.CHUNK_BYTES)
        self._last_contact = self._last_look = -HEARTBEAT_SECONDS

    def ship(self, connection: Connection, batching: Batching, *, flush: bool = False) -> bytes:
        """Send what is new, at most one request, and return it. Raise ServiceError if the service refuses it."""
        if self.offset < 0:
            self._find_offset(connection)
        ended = self.has_ended(now=flush)
        data = self._read(ended=ended)
        if not data:
            self._keep_alive(connection, ended=ended)
            return b""
        if not (flush or ended or self._is_due(data, batching)):
            return b""
        self._has_end = self._has_end or b"\n" + END_PREFIX in b"\n" + data
        self._waiting_since = 0.0
        return data if self._send(connection, data, is_last=ended and self._is_last(data)) else b""

    def has_ended(self, *, now: bool = False) -> bool:
        """Return whether nobody writes the file any more. Its writer is looked up every few seconds, or `now`."""
        if not self._is_journal or self._has_end:
            return True  # more may follow, which is then sent as well
        if now or time.monotonic() - self._last_look >= STATUS_SECONDS:
            self._last_look = time.monotonic()
            self._header = self._header or read_header(self.path)
            self._status = status.journal_status(self.path, self._header, None)
            if self._status == "KILLED" and self._end < 0:
                self._end, self._tail = wire.unwritten_lines(self.path)
        return self._status != "RUNNING"

    def _is_due(self, data: bytes, batching: Batching) -> bool:
        now = time.monotonic()
        self._waiting_since = self._waiting_since or now
        is_full = len(data) >= wire.CHUNK_BYTES // 2 or data.count(b"\n") >= batching.queue
        return is_full or now - self._waiting_since >= batching.seconds

    def _read(self, *, ended: bool) -> bytes:
        if 0 <= self._end <= self.offset:
            return self._tail[self.offset - self._end :]
        return wire.read_chunk(self.path, self.offset, max_bytes=self._pace.size, is_over=ended)

    def _is_last(self, data: bytes) -> bool:
        end = self.offset + len(data)
        return end == self._end + len(self._tail) if self._end >= 0 else not self._follows(end)

    def _follows(self, offset: int) -> bool:
        return bool(wire.read_chunk(self.path, offset, is_over=True))

    def _find_offset(self, connection: Connection) -> None:
        """Ask the service for the length of its copy, and check that it is a copy of this file."""
        response = connection.request("HEAD", self._target)
        if response.status == 404:
            self.offset = 0
            return
        self._check(connection, response)
        offset = _offset(response)
        first = response.headers.get(wire.FIRST_LINE, "")
        if offset and first and first != wire.first_line_id(self.path):
            reason = f"there is another file of the name {self._target}"
            raise ServiceError(connection.url, reason, "Give one of the runs another id.", status=409)
        self._set_offset(connection, offset)

    def _set_offset(self, connection: Connection, offset: int) -> None:
        """Go on from the length of the service's copy, which cannot be longer than what is here."""
        self.has_ended(now=True)
        size = self._end + len(self._tail) if self._end >= 0 else self.path.stat().st_size
        if offset > size:
            reason = f"its copy of {self._target} has {offset} bytes, more than the file here"
            raise ServiceError(connection.url, reason, "Restore the file, or remove the copy.", status=409)
        self.offset = offset
        if offset and self._is_journal:  # the end may be in what was sent before
            self._has_end = read_end(self.path) is not None

    def _send(self, connection: Connection, data: bytes, *, is_last: bool) -> bool:
        """Send data at the offset; return False if the service has another length, from which to go on."""
        headers = self._headers(is_last=is_last) | {"Content-Type": wire.MEDIA_TYPE}
        response = self._patch(connection, data, headers)
        if response.status == 422 and self._has_damage(data):
            data = data.replace(b"\0", b"?")  # of the same length, since damaged lines are only counted
            response = self._patch(connection, data, headers | {"Prefer": wire.LENIENT})
        self._last_contact = time.monotonic()
        if response.status == 409 and wire.OFFSET in response.headers:
            offset = _offset(response)
            if offset == self.offset:
                raise ServiceError(connection.url, response.reason(), "Check who writes it.", status=409)
            self._set_offset(connection, offset)
            return False
        self._check(connection, response)
        self.offset = _offset(response)
        self.is_complete = is_last
        return True

    def _patch(self, connection: Connection, data: bytes, headers: dict[str, str]) -> Response:
        if len(data) > wire.GZIP_MIN_BYTES:
            headers = headers | {"Content-Encoding": "gzip"}
            data = gzip.compress(data, 1, mtime=0)
        with self._pace:
            return connection.request("PATCH", self._target, data, headers)

    def _has_damage(self, data: bytes) -> bool:
        if not self._is_journal:
            return True
        for line in data.splitlines():
            try:
                events.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                return True
        return False

    def _headers(self, *, is_last: bool) -> dict[str, str]:
        headers = {wire.OFFSET: str(self.offset), wire.IDLE: f"{self._idle_seconds():.0f}", wire.REDACTS: "?1"}
        return headers | {wire.COMPLETE: "?1"} if is_last else headers

    def _idle_seconds(self) -> float:
        """Return the time since the last sign of life of the writer."""
        if not self._is_journal or self._has_end or (self._header is not None and self._is_alive(self._header)):
            return 0.0
        idle = status.idle_seconds(self.path)
        return idle if self._status == "RUNNING" else max(idle, status.HEARTBEAT_TIMEOUT)

    def _is_alive(self, header: events.Header) -> bool:
        return status.is_local(header) and not status.is_dead(header)

    def _keep_alive(self, connection: Connection, *, ended: bool) -> None:
        """Tell the service that the writer is alive; or, once, that nothing follows."""
        if ended and not self.is_complete:
            self._send(connection, b"", is_last=True)
        elif not ended and time.monotonic() - self._last_contact >= HEARTBEAT_SECONDS:
            self._send(connection, b"", is_last=False)

    def _check(self, connection: Connection, response: Response) -> None:
        if response.status >= 400:
            reason = f"{self._target}: {response.reason()}"
            raise ServiceError(connection.url, reason, status=response.status)


def _offset(response: Response) -> int:
    text = response.headers.get(wire.OFFSET, "")
    return int(text) if text.isdecimal() else 0


class ContentShipment:
    """One artifact, sent in pieces."""

    def __init__(self, files: ArtifactFiles, sha256: str) -> None:
        self.sha256 = sha256
        self.offset = -1
        self._path = files.path(sha256)
        self._pace = Pace(wire.CONTENT_CHUNK_BYTES)

    def ship(self, connection: Connection) -> bool:
        """Send the next piece, and return whether the service has all of the content."""
        target = wire.content_path(self.sha256)
        size = self._path.stat().st_size
        if self.offset < 0:
            response = connection.request("HEAD", target)
            if response.status == 200 and response.headers.get(wire.COMPLETE) == "?1":
                return True
            self.offset = _offset(response) if response.status == 200 else 0
        with self._path.open("rb") as file:
            file.seek(self.offset)
            piece = file.read(self._pace.size)
        is_last = self.offset + len(piece) >= size
        headers = {wire.OFFSET: str(self.offset), wire.LENGTH: str(size), "Content-Type": "application/octet-stream"}
        with self._pace:
            response = connection.request("PATCH", target, piece, headers | {wire.COMPLETE: "?1" if is_last else "?0"})
        if response.status == 409 and wire.OFFSET in response.headers:
            self.offset = _offset(response)
            return response.headers.get(wire.COMPLETE) == "?1"
        if response.status >= 400:
            raise ServiceError(connection.url, f"{target}: {response.reason()}", status=response.status)
        self.offset += len(piece)
        return is_last or response.headers.get(wire.COMPLETE) == "?1"


class RunShipment:
    """A run: its files, those that appear later included, and the artifacts that its journals name."""

    def __init__(self, home: Path, folder: Path, url: str) -> None:
        segments.restore(home, [folder.name])  # a shipper follows files
        self.folder = folder
        self.url = url
        self.error = ""
        self.is_complete = False
        self._files: dict[str, FileShipment] = {}
        self._artifacts = ArtifactFiles(home)
        self._contents: dict[str, ContentShipment | None] = {}
        """Artifacts to send; None for those that have arrived."""
        self._written = read_state(folder)
        if self._written is None or self._written.url != url:
            self._write_state()

    def ship(self, connection: Connection, batching: Batching = AT_ONCE, *, flush: bool = False) -> bool:
        """Send a part of what is new; return whether there was anything. Raise ServiceError if that fails."""
        sent = False
        errors: list[ServiceError] = []
        try:
            for file in self._find_files():
                try:
                    data = file.ship(connection, batching, flush=flush)
                except FileNotFoundError:  # the run was removed
                    self._files.pop(file.name, None)
                    continue
                except ServiceError as error:
                    if error.status in REFUSES_ALL:
                        raise
                    errors.append(error)
                    continue
                sent |= bool(data)
                self._note_artifacts(data)
            if not errors:
                sent |= self._ship_content(connection)
            self.is_complete = not errors and self._has_all()
            self.error = str(errors[0]) if errors else ""
        except ServiceError as error:
            self.error = str(error)
            raise
        finally:
            self._write_state()
        if errors:
            raise errors[0]
        return sent

    def _has_all(self) -> bool:
        return all(file.is_complete for file in self._files.values()) and self._has_contents()

    def _has_contents(self) -> bool:
        return all(item is None for item in self._contents.values())

    def has_arrived(self, name: str) -> bool:
        """Return whether the service has a file up to its end, and all artifacts."""
        file = self._files.get(name)
        return file is not None and file.is_complete and self._has_contents()

    def _find_files(self) -> list[FileShipment]:
        names = [path.name for path in journals_of_run(self.folder)]
        names += [f"{ANNOTATIONS}/{name}" for name in sorted(file_sizes(self.folder))]
        for name in names:
            if name not in self._files:
                self._files[name] = FileShipment(self.folder.name, self.folder, name)
                self._note_artifacts_of(self.folder / name)
        return [self._files[name] for name in names]

    def _note_artifacts_of(self, path: Path) -> None:
        """Note the artifacts of a journal that was partly sent before."""
        offset = 0
        with contextlib.suppress(OSError):
            while chunk := wire.read_chunk(path, offset):
                offset += len(chunk)
                self._note_artifacts(chunk)

    def _note_artifacts(self, data: bytes) -> None:
        start = data.find(ARTIFACT_PREFIX)
        while start >= 0:
            end = data.find(b"\n", start)
            with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
                event = events.decode(data[start:end])
                for digest in self._contents_of(event) if isinstance(event, events.Artifact) else ():
                    self._contents.setdefault(digest, ContentShipment(self._artifacts, digest))
            start = data.find(ARTIFACT_PREFIX, end) if end > 0 else -1

    def _contents_of(self, event: events.Artifact) -> Iterator[str]:
        """Yield the digests of an artifact; the list of a folder comes after its files."""
        if event.is_folder:
            with contextlib.suppress(OSError, FileFormatError):
                yield from self._artifacts.files_of_folder(event.sha256).values()
        yield event.sha256

    def _ship_content(self, connection: Connection) -> bool:
        """Send one piece of the next artifact, so that journals never wait for a large one."""
        waiting = next((item for item in self._contents.values() if item is not None), None)
        if waiting is None:
            return False
        try:
            if waiting.ship(connection):
                self._contents[waiting.sha256] = None
        except FileNotFoundError:  # it was removed here: there is nothing to send
            self._contents[waiting.sha256] = None
        return True

    def _write_state(self) -> None:
        """Write the state if it has changed."""
        earlier = dict(self._written.sent) if self._written is not None and self._written.url == self.url else {}
        sent = earlier | {name: file.offset for name, file in self._files.items() if file.offset >= 0}
        contents = [digest for digest, item in self._contents.items() if item is not None]
        state = ShippingState(self.url, sent, contents, self.is_complete, self.error)
        if self._written is None or msgspec.structs.replace(self._written, time=0.0) != state:
            state.time = time.time()
            write_state(self.folder, state)
            self._written = state
