"""The part of a run that its sections and captures use: emit events, report errors, register data and open sections."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from provml.journal import events
from provml.journal.artifacts import FOLDER_TYPE, ArtifactFiles
from provml.journal.redaction import redact_text, redact_url
from provml.recording import hashing, inherit
from provml.recording.artifacts import StoredContent, media_type_of, render_figure, store_content
from provml.recording.data import Data, check_role
from provml.recording.data_registry import DataRegistry
from provml.recording.encoding import cut_text, encode_parameters, to_text
from provml.recording.exit_status import MAX_MESSAGE_CHARS, ExceptionSummary, summarize_exception
from provml.recording.safety import EndsOnExit, report_errors
from provml.recording.settings import DATA_KINDS
from provml.recording.writer import JournalWriter

if TYPE_CHECKING:
    from provml.journal.batch_buffer import BatchBuffer, BufferOwner
    from provml.recording.energy import EnergyRecorder

TEXT_TYPE = "text/plain"
Using = Iterable[Data] | Data
"""Input data of a step."""


class Open(Protocol):
    """A section or capture that ends with the run at the latest."""

    def done(self, *, error: BaseException | None = None) -> None:
        """End the section."""

    def _on_cell_error(self, error: BaseException) -> None:
        """End the section if the exception of a notebook's cell left it."""


class RunCore(EndsOnExit):
    """Base of `Run`. `disabled` is True if PROVML_DISABLED is set: then nothing is recorded."""

    def __init__(
        self, name: str, *, model: str, run_id: str, home: Path, detail: str, every: int, strict: bool, validates: bool
    ) -> None:
        self.name = name
        self.experiment = name
        self.model = model
        self.id = run_id
        self.home = home
        self.rank = inherit.rank()
        self.detail = detail
        self.every = every
        self.strict = strict
        self.disabled = os.environ.get("PROVML_DISABLED", "").lower() not in ("", "0", "false", "no")
        self._validates = validates
        self._energy: EnergyRecorder | None = None
        self._writer: JournalWriter | None = None
        self._data_registry = DataRegistry()
        self._open: dict[Open, int] = {}  # with the id of the process that opened it
        self._cut_texts: set[str] = set()  # digests of texts of which only the head is recorded
        self._measure_names: set[str] = set()
        self._adopted: set[str] = set()  # references to data of other runs
        self._produced_models: dict[tuple[str, str, str], Data] = {}
        """Models by the location that produced them, their digest, and their hyperparameters."""
        self._locations: dict[str, object] = {}
        self._last_numbers: dict[str, int] = {}
        self._last_begin = 0.0
        """When the last stage or step began, by `perf_counter`."""
        self._has_trained = False
        self._failure: ExceptionSummary | None = None
        """The exception of the last training, if nothing began after it."""

    # ---- events and errors

    _emit: Callable[[events.Event], bool] = staticmethod(lambda event: True)
    """Append an event to the journal. `JournalWriter.emit` replaces it unless recording is disabled."""

    _acquire_buffer: Callable[[BufferOwner], BatchBuffer | None] = staticmethod(lambda owner: None)
    """Return the batch buffer for a section, or None if it is not available."""

    _time: Callable[[], float] = staticmethod(time.time)
    """Return the time in seconds since 1970. A run that was recorded elsewhere has the clock of what was received."""

    _ticks: Callable[[], float] = staticmethod(perf_counter)
    """Return the seconds of a clock for durations."""

    @property
    def capture_errors(self) -> int:
        """Number of capture errors: errors of the recording, not of the training."""
        return self._writer.error_count if self._writer is not None else 0

    def _report_error(self, error: Exception) -> None:
        """Count a capture error; raise it if the run is strict."""
        if self._writer is not None:
            self._writer.report_error(error)

    # ---- sections

    def _register_open(self, section: Open) -> None:
        """Have `section.done` called at the end of the run, unless it ends before."""
        self._open[section] = os.getpid()

    def _unregister(self, section: Open) -> None:
        self._open.pop(section, None)

    def _on_begin(self) -> None:
        """Note that a stage or a step begins: the program went on after an exception that it caught."""
        self._last_begin = self._ticks()
        self._failure = None

    def _on_training_end(self, error: BaseException | None, ended: float) -> None:
        """Note how and when a training ended."""
        failure = summarize_exception(error)
        self._has_trained = self._has_trained or failure is None
        if ended >= self._last_begin:
            self._failure = failure

    def _allocate_location(self, name: str) -> str:
        """Return an unused location for a step: its name, numbered from the second on, and the suffix of the writer."""
        slug = (
            "".join(c if c.isalnum() or c in "._-" else "-" for c in redact_text(to_text(name))).strip("-.") or "step"
        )
        suffix = self._writer.suffix if self._writer else ""
        number = self._last_numbers.get(slug, 0) + 1
        token = object()
        while True:  # another thread, or a name that ends in a number, may have taken the location
            location = (slug if number == 1 else f"{slug}-{number}") + suffix
            if self._locations.setdefault(location, token) is token:
                self._last_numbers[slug] = number
                return location
            number += 1

    # ---- data

    def dataset(
        self,
        source: Any,
        *,
        role: str = "",
        name: str = "",
        about: str | Iterable[str] = (),
        store: str = "",
        media_type: str = "",
        keep: bool = False,
        **characteristics: Any,
    ) -> Data:
        """Register a dataset or file, identified by the SHA-256 of its whole content.

        `source` is a path, bytes, an array, or any other object (which has no digest). `about` holds IRIs of concepts,
        `store` the name of a data store that is not this file system. `keep` stores the content as an artifact.
        """
        return self._register_data(
            "dataset",
            source,
            role=role,
            name=name,
            about=about,
            store=store,
            media_type=media_type,
            keep=keep,
            characteristics=characteristics,
        )

    def features(
        self, source: Any, *, name: str = "", role: str = "", keep: bool = False, **characteristics: Any
    ) -> Data:
        """Register a set of features; `keep` stores its content as an artifact."""
        return self._register_data("features", source, role=role, name=name, keep=keep, characteristics=characteristics)

    # ---- artifacts

    def keep(self, source: Any, *, name: str = "", media_type: str = "") -> Data:
        """Store the content of a file, a folder or bytes in the home, as an artifact of the run.

        Content that is stored already takes no more space. `provml get` writes it out.
        """
        with report_errors(self):
            data = None if self.disabled else self._data_registry.find(source)
            content = None if data is None else self._store_content(source)
            if data is not None and content is not None and content.sha256 == data.sha256:
                self._emit_artifact(data, source, content, name=to_text(name), media_type=to_text(media_type))
            if data is not None and (content is None or content.sha256 == data.sha256):
                return data
        return self._register_data("file", source, name=name, media_type=media_type, keep=True)

    def text(self, text: str, name: str = "text.txt", *, media_type: str = "") -> Data:
        """Store a text as an artifact that the run produced; without an extension, `name` gets `.txt`."""
        name = _with_extension(name, "text.txt")
        media_type = to_text(media_type) or media_type_of(name) or "text/plain"
        return self._produce_artifact(lambda: to_text(text).encode(), name, media_type)

    def figure(self, figure: Any, name: str = "figure.png", *, media_type: str = "") -> Data:
        """Store a figure of matplotlib as an artifact that the run produced, in the format of the name's extension.

        Without an extension, `name` gets `.png`.
        """
        name = _with_extension(name, "figure.png")
        return self._produce_artifact(lambda: render_figure(figure, Path(name).suffix[1:]), name, media_type)

    def _produce_artifact(self, content: Callable[[], bytes], name: str, media_type: str) -> Data:
        if self.disabled:
            return Data("", "file", name)
        with report_errors(self):
            data = self._register_data("file", content(), name=name, media_type=media_type, keep=True)
            if data.ref:
                self._emit(events.Produced("", data.ref))
            return data
        return Data("", "file", name)

    def saved(self, model: Any, path: Any, *, store: str = "", media_type: str = "", **values: Any) -> Data:
        """Record that a model was saved in a file or folder: the model in memory and its file are one model.

        `model` is what `produced` returned, or the object that was passed to it. `values` are further hyperparameters.
        """
        data = model if isinstance(model, Data) else self._data_registry.find(model)
        if self.disabled:
            return data or Data("", "model", self.model)
        if data is None or data.kind != "model" or not data.ref:
            advice = "Pass what produced(…) returned, or the object that was passed to it."
            self._report_error(TypeError(f"{model!r} ({type(model).__name__}) is not a model of this run. {advice}"))
            return Data("", "model", self.model)
        return self._register_data(
            "model",
            path,
            role=data.role,
            name=data.name,
            store=store,
            media_type=media_type,
            characteristics=values,
            saved_ref=data.ref,
        )

    def _register_data(
        self,
        kind: str,
        source: Any,
        *,
        role: str = "",
        name: str = "",
        about: str | Iterable[str] = (),
        store: str = "",
        media_type: str = "",
        keep: bool = False,
        characteristics: Mapping[str, Any] | None = None,
        digest: tuple[str, int] | None = None,
        saved_ref: str = "",
    ) -> Data:
        """Emit a `Data` event and return the reference to use for it; an empty reference if recording failed.

        `digest` is the digest of the source if it is known, `saved_ref` the reference of the model that it contains.
        """
        with report_errors(self):
            path = os.fsdecode(source) if isinstance(source, (str, os.PathLike)) else ""
            path = redact_url(path)
            if kind not in DATA_KINDS:
                raise ValueError(f"kind must be 'dataset', 'features' or 'model', not {kind!r}.")
            name = redact_url(to_text(name)) or (Path(path).name if path else kind)
            if self.disabled:
                return Data("", kind, name, role=role, path=path)
            content = self._store_content(source) if keep else None
            if content is not None:
                sha256, size = content[:2]
            else:
                sha256, size = digest or self._digest(source, must_exist=not store)
            label = name if kind == "model" else f"{kind}-{name}"
            is_shared = sha256 and kind != "model"
            ref = saved_ref or (f"sha256:{sha256}" if is_shared else self._allocate_location(label))
            store = redact_url(to_text(store))
            concepts = [to_text(about)] if isinstance(about, str) else [to_text(concept) for concept in about or ()]
            event = events.Data(ref, kind, name, path, sha256, size, to_text(media_type), store, concepts)
            if kind == "file" and characteristics:
                names = ", ".join(characteristics)
                raise TypeError(f"A file has no characteristics ({names}). Leave them out, or record a dataset.")
            event.values, event.saved = self._encode_values(characteristics or {}), bool(saved_ref)
            self._emit(event)
            data = Data(ref, kind, name, role=check_role(role), path=path, sha256=sha256, run_id=self.id)
            if content is not None:
                own_name = name if kind == "file" else ""  # the artifact of a dataset or a model is named as its file
                self._emit_artifact(data, source, content, name=own_name, media_type=event.media_type)
            return self._data_registry.add(source, data)
        return Data("", kind, to_text(name), role=to_text(role))

    def _store_content(self, source: Any) -> StoredContent | None:
        """Store a content in the home; None, and a capture error, if that fails: the data is then not an artifact."""
        with report_errors(self):
            return store_content(self.home, source)
        return None

    def _emit_artifact(
        self, data: Data, source: Any, content: StoredContent, *, name: str = "", media_type: str = ""
    ) -> None:
        """Record that the content of data is stored, under a name: by default that of its file."""
        name = name or (Path(data.path).name if data.path else data.name)
        media_type = FOLDER_TYPE if content.is_folder else media_type or media_type_of(name)
        event = events.Artifact(self._time(), data.ref, name, *content[:2], media_type, data.path)
        event.is_folder = content.is_folder
        self._emit(event)
        if not ArtifactFiles(self.home).has(content.sha256):  # removed before it belonged to a run: see store.artifacts
            self._store_content(source)

    def _digest(self, source: Any, *, must_exist: bool) -> tuple[str, int]:
        """Return SHA-256 and size in bytes; ("", -1) if the source has no content that can be read."""
        with report_errors(self):
            return hashing.digest(source, must_exist=must_exist) or ("", -1)
        return "", -1

    def _require_data(self, using: Any) -> list[Data]:
        """Return the data among the inputs of a step; anything that is not `Data` is a capture error."""
        data: list[Data] = []
        if using is None or self.disabled:
            return data
        with report_errors(self):
            is_single = not isinstance(using, Iterable) or isinstance(using, (str, bytes)) or hasattr(using, "shape")
            for item in [using] if is_single else using:
                if isinstance(item, Data):
                    data += [self._adopt(item)] if item.ref else []
                else:
                    advice = "Pass what run.dataset(…) or produced(…) returned."
                    self._report_error(TypeError(f"{item!r} ({type(item).__name__}) is not data of a run. {advice}"))
        return data

    def _adopt(self, data: Data) -> Data:
        """Return data of this run as it is; describe data of another run, such as the parent, in this one's journal."""
        if data.run_id in ("", self.id):
            return data
        ref = data.ref
        if not ref.startswith(("sha256:", events.OTHER_RUN)):
            ref = f"{events.OTHER_RUN}{data.run_id}/{ref}"
        if ref not in self._adopted:
            self._adopted.add(ref)
            self._emit(events.Data(ref, data.kind, data.name, data.path, data.sha256))
        return Data(ref, data.kind, data.name, role=data.role, path=data.path, sha256=data.sha256, run_id=self.id)

    def _encode_values(self, values: Mapping[str, Any]) -> events.Values:
        """Encode parameters for the journal, with secrets redacted.

        None is left out; so is a value that has no encoding, a capture error.
        """
        encoded, errors = encode_parameters(values)
        for error in errors:
            self._report_error(error)
        for name, value in encoded.items():
            if isinstance(value, str) and len(value) > events.MAX_TEXT:
                encoded[name] = self._keep_long_text(value, name)
        return encoded

    # ---- limits

    def _keep_long_text(self, text: str, name: str) -> str:
        """Return a text or, if it is too long for the graph, its head; the whole text is then stored as an artifact."""
        if len(text) <= events.MAX_TEXT:
            return text
        return cut_text(text, self._store_cut_text(text, name))

    def _store_cut_text(self, text: str, name: str) -> str:
        """Store a text of which only the head is recorded; return the name of the artifact, empty if that failed."""
        data = text.encode("utf-8", "backslashreplace")
        content = self._store_content(data)
        if content is None:
            return ""
        file_name = f"{name[:100]}.txt"
        ref = f"sha256:{content.sha256}"
        if content.sha256 not in self._cut_texts:
            self._cut_texts.add(content.sha256)
            self._emit(events.Data(ref, "file", file_name, "", content.sha256, content.size, TEXT_TYPE))
            event = events.Artifact(self._time(), ref, file_name, content.sha256, content.size, TEXT_TYPE)
            event.is_cut = True
            self._emit(event)
            self._emit(events.Produced("", ref))
        return file_name

    def _keep_long_error(self, error: BaseException | None, location: str) -> None:
        """Store the message of an exception if the event of its section has only the head of it."""
        if error is None or isinstance(error, ExceptionSummary) or self.disabled:
            return
        with report_errors(self):
            message = str(error)
            if len(message) > MAX_MESSAGE_CHARS:
                slug = location.replace("/", "-") or "run"
                self._store_cut_text(redact_text(message), f"{slug}-{type(error).__name__}")

    def _limit_measures(self, encoded: events.Values) -> events.Values:
        """Return the measures whose names the run may have; a further name is a capture error."""
        names = self._measure_names
        if names.issuperset(encoded):
            return encoded
        new = [name for name in encoded if name not in names]
        free = max(events.MAX_MEASURES - len(names), 0)
        names.update(new[:free])
        if len(new) <= free:
            return encoded
        advice = "Record values of many names as one artifact: run.text(json.dumps(values), 'values.json')."
        problem = f"A run has at most {events.MAX_MEASURES:,} different measures; {new[free][:80]!r} is left out."
        self._report_error(ValueError(f"{problem} {advice}"))
        left_out = set(new[free:])
        return {name: value for name, value in encoded.items() if name not in left_out}


def _with_extension(name: str, default: str) -> str:
    """Return a file name with an extension: its own, else that of the default name."""
    name = to_text(name).strip() or default
    return name if Path(name).suffix else f"{name}{Path(default).suffix}"
