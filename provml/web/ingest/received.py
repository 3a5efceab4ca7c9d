"""What clients of other systems sent: kept as it came, without secrets, before it is translated.

`home/received/<protocol>/<source>.jsonl` has one line for each request about a source: a dataflow, a workflow, a run.
Translating these lines again gives the same graph.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from provml.journal.redaction import REDACTED, mask, redact_text
from provml.paths import NO_FOLLOW

FOLDER = "received"
NAMES_OF_NAMES = frozenset(("key", "metric_key", "keys"))
"""Fields that hold a name, although they are called like a secret."""
MIN_SECRET_CHARS = 8
MAX_SLUG_CHARS = 80


class Received(msgspec.Struct, omit_defaults=True):
    """A request: when it came, from where, and its body as JSON, or as text or base64 if it is not JSON."""

    time: float = msgspec.field(name="t")
    action: str
    """What the request does, such as `runs/log-metric`; by default the path."""
    body: Any = None
    query: dict[str, str] = {}
    client: str = ""
    agent: str = ""
    owner: str = ""
    """A hash that names the token of the request."""
    text: str = ""
    base64: str = ""

    @classmethod
    def from_bytes(cls, time: float, action: str, body: bytes, **fields: Any) -> Received:
        """Return a request with a body of any kind."""
        try:
            return cls(time, action, msgspec.json.decode(body), **fields)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            with contextlib.suppress(UnicodeDecodeError):
                return cls(time, action, text=body.decode(), **fields)
            return cls(time, action, base64=base64.b64encode(body).decode(), **fields)

    def redacted(self) -> Received:
        """Return the request without secrets."""
        query = {name: str(mask(name, value)) for name, value in self.query.items()}
        redacted = msgspec.structs.replace(
            self, body=redact_json(self.body), text=redact_text(self.text), query=query, agent=redact_text(self.agent)
        )
        if self.base64:
            text = base64.b64decode(self.base64).decode("latin-1")
            if redact_text(text) != text:  # nobody can read it as it is, so a text without the secret is as good
                redacted.base64, redacted.text = "", redact_text(text)
        return redacted


_decoder = msgspec.json.Decoder(Received)


class ReceivedLog:
    """The requests of one protocol, in one file for each source."""

    def __init__(self, home: Path, protocol: str) -> None:
        self.folder = home / FOLDER / protocol
        self._open_folder = self.folder / "open"
        self._lock = threading.Lock()

    def path(self, source: str) -> Path:
        """Return the file of a source."""
        slug = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in source)[:MAX_SLUG_CHARS]
        return self.folder / f"{slug.lstrip('.') or 'source'}-{hashlib.sha256(source.encode()).hexdigest()[:16]}.jsonl"

    def append(self, source: str, request: Received) -> None:
        """Keep a request. It survives the end of this process when this returns."""
        line = msgspec.json.encode(request) + b"\n"
        path = self.path(source)
        with self._lock:
            try:
                file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | NO_FOLLOW, 0o600)
            except FileNotFoundError:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | NO_FOLLOW, 0o600)
            try:
                size = os.fstat(file).st_size
                if size and os.pread(file, 1, size - 1) != b"\n":  # the end of a line that a kill cut off
                    line = b"\n" + line
                try:
                    while line:
                        line = line[os.write(file, line) :]
                except OSError:
                    os.ftruncate(file, size)
                    raise
            finally:
                os.close(file)

    def rewrite(self, source: str, change: Callable[[Any], Any]) -> bool:
        """Replace the bodies of all requests of a source by `change(body)`; return whether one of them differs."""
        path = self.path(source)
        with self._lock:
            requests = list(read_requests(path))
            changed = [msgspec.structs.replace(request, body=change(request.body)) for request in requests]
            if changed == requests:
                return False
            part = path.with_suffix(".part")
            part.touch(mode=0o600)
            part.write_bytes(b"".join(msgspec.json.encode(request) + b"\n" for request in changed))
            part.replace(path)
            return True

    def read(self, source: str) -> Iterator[Received]:
        """Yield the requests of a source, without lines that were cut off."""
        yield from read_requests(self.path(source))

    def size(self, source: str) -> int:
        """Return the size of the file of a source in bytes; 0 if there is none."""
        with contextlib.suppress(OSError):
            return self.path(source).stat().st_size
        return 0

    def files(self) -> list[Path]:
        """Return the files of all sources."""
        return sorted(self.folder.glob("*.jsonl"))

    # ---- sources that are not translated to their end

    def mark_open(self, source: str) -> None:
        """Note that a source has something that is not translated, or may still change."""
        path = self._open_folder / self.path(source).stem
        if not path.exists():
            self._open_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.write_text(source, encoding="utf-8")

    def mark_closed(self, source: str) -> None:
        """Note that all of a source is translated, and nothing more is expected."""
        (self._open_folder / self.path(source).stem).unlink(missing_ok=True)

    def open_sources(self) -> list[str]:
        """Return the sources that were not closed, also by a process that was killed."""
        with contextlib.suppress(OSError):
            return [path.read_text(encoding="utf-8") for path in sorted(self._open_folder.iterdir())]
        return []


def read_requests(path: Path) -> Iterator[Received]:
    """Yield the requests of a file, without lines that were cut off."""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        for line in file:
            with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
                yield _decoder.decode(line)


def redact_json(value: Any, name: str = "") -> Any:
    """Return plain data without secrets: values with the name of a secret, and secrets inside of texts.

    A pair of `key` or `name` and `value` is a name and its value. A text that is JSON is redacted inside.
    """
    if isinstance(value, dict):
        if "timestamp" in value and "step" in value:  # a measure, which may be called `token_accuracy`
            return {key: redact_json(item) for key, item in value.items()}
        for field in ("key", "name"):
            if isinstance(value.get(field), str) and "value" in value:
                return {**value, "value": redact_json(value["value"], value[field])}
        return {key: redact_json(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [redact_json(item, name) for item in value]
    if name and name not in NAMES_OF_NAMES and (masked := mask(name, value)) == REDACTED:
        return masked
    if isinstance(value, str) and len(value) >= MIN_SECRET_CHARS:
        return _redact_text(value)
    return value


def _redact_text(text: str) -> str:
    if text[0] in "{[":
        with contextlib.suppress(ValueError, RecursionError):
            parsed = json.loads(text)
            redacted = redact_json(parsed)
            return text if redacted == parsed else json.dumps(redacted)
    return redact_text(text)
