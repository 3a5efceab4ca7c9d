"""The folder of a lake, on a disk or in an object store: Parquet files by table, and a manifest that names them.

    FOLDER/manifest/00000003.json
    FOLDER/sections/4f1c….parquet        one file for each part and table with rows

A part is written under temporary names, which are replaced when it is complete. Then the next manifest is written; only
one process can create a manifest of a given number. Files that it no longer names are removed after that.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
import os
import re
import socket
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import msgspec

from provml.errors import FileFormatError, LakeChanged, LakeNotFound, LakeUnreachable, MissingDependency, ProvmlError
from provml.lake.schema import SCHEMA_VERSION, TABLES, arrow_schema

if TYPE_CHECKING:
    import pyarrow

MANIFESTS = "manifest"
SUFFIX = ".parquet"
TEMPORARY = ".part"
LEFTOVER_SECONDS = 24 * 3600.0
"""Age after which a file that no manifest names counts as left by a killed process."""
INSTALL = {"s3": "s3", "s3a": "s3"}
"""The extra with the file system of a protocol."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class FileEntry(msgspec.Struct, array_like=True, frozen=True):
    """The number of rows and bytes of a file."""

    rows: int
    size: int


class Part(msgspec.Struct, frozen=True):
    """Files with the rows of some runs, by table."""

    name: str
    files: dict[str, FileEntry]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files.values())


class RunEntry(msgspec.Struct, array_like=True, frozen=True):
    """The part with a run, the signature of what was read, the home, and whether the run was still being written."""

    part: str
    signature: str
    home: str
    is_open: bool = False


class Manifest(msgspec.Struct):
    """What a lake holds. `number` counts the changes; `left_out` are open runs that were left out, by home."""

    version: int = SCHEMA_VERSION
    number: int = 0
    written: float = 0.0
    parts: dict[str, Part] = {}
    runs: dict[str, RunEntry] = {}
    derived: Part | None = None
    left_out: dict[str, list[str]] = {}

    @property
    def path(self) -> str:
        """The path of the manifest below the folder."""
        return f"{MANIFESTS}/{self.number:08}.json"

    @property
    def all_parts(self) -> list[Part]:
        """The parts with the rows of runs, and that with the table that is derived from them."""
        return [*self.parts.values(), *([self.derived] if self.derived is not None else [])]

    def files(self) -> Iterable[str]:
        """Yield the paths of all files below the folder."""
        for part in self.all_parts:
            yield from (file_path(table, part.name) for table in part.files)


class _Version(msgspec.Struct):
    version: int


def file_path(table: str, part: str) -> str:
    """Return the path of a file below the folder."""
    return f"{table}/{part}{SUFFIX}"


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message without its full stop, or the name of the error."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


def damaged_file(file: str, error: BaseException) -> FileFormatError:
    """Return the error of a file of a lake, or of the folder with it, that cannot be read."""
    reason = f"a file of the lake is gone or damaged ({first_line(error)})"
    return FileFormatError(reason, "Run `provml lake update`; if that does not help, build the lake again.", file=file)


def _is_of_network(error: BaseException) -> bool:
    """True if an error of a file system means that its store does not answer, or that its address is wrong."""
    packages = ("aiobotocore", "aiohttp", "botocore")
    is_of_client = type(error).__module__.partition(".")[0] in packages or str(error).startswith("Invalid endpoint")
    return is_of_client or isinstance(error, (ConnectionError, TimeoutError, socket.gaierror))


def _unknown_option(error: TypeError) -> str:
    """Return the name of an option that the client of a store does not have, as its error gives it; else nothing."""
    match = re.search(r"unexpected keyword argument '([^']*)'", str(error))
    return match[1] if match is not None else ""


def _wrong_option(location: str, fs: Any, options: Mapping[str, Any], error: TypeError) -> FileFormatError:
    """Return the error of an option that the file system of a location passes to its client, which refuses it."""
    name, protocol = _unknown_option(error), location.partition("://")[0]
    parameters = inspect.signature(type(fs).__init__).parameters.values()
    names = [p.name for p in parameters if p.name != "self" and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    groups = [key for key, value in options.items() if isinstance(value, Mapping) and name in value]
    close = [] if groups else difflib.get_close_matches(name, names, 1, 0.75)
    reason = f"the client of {protocol}:// has no option {name!r}{f' for {groups[0]}' if groups else ''}"
    advice = f"Did you mean {close[0]}? " if close else "Remove it. " if groups else ""
    advice += f"Options of {type(fs).__name__} are {', '.join(names)}."
    return FileFormatError(reason, advice, file="storage_options")


def _reached(
    method: Callable[Concatenate[LakeFolder, Arguments], Result],
) -> Callable[Concatenate[LakeFolder, Arguments], Result]:
    """Make a method raise LakeUnreachable for the errors of the clients of object stores."""

    @functools.wraps(method)
    def reached(self: LakeFolder, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return method(self, *args, **kwargs)
        except Exception as error:
            if isinstance(error, TypeError) and self.storage_options and _unknown_option(error):
                raise _wrong_option(self.location, self.fs, self.storage_options, error) from None
            if self.is_local or isinstance(error, ProvmlError) or not _is_of_network(error):
                raise
            raise LakeUnreachable(self.location, " ".join(str(error).split())) from error

    return reached


class LakeFolder:
    """The files of a lake."""

    def __init__(self, location: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None) -> None:
        self.location = os.fspath(location)
        options: Any = storage_options or {}  # of a caller without types
        if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
            advice = 'Pass a dict of options, such as {"endpoint_url": "https://host"}.'
            raise FileFormatError("options are names with values", advice, file="storage_options")
        self.storage_options = dict(options)
        self.fs, self.path = _open_file_system(self.location, self.storage_options)
        self.is_local = "file" in (self.fs.protocol if isinstance(self.fs.protocol, tuple) else (self.fs.protocol,))

    def join(self, path: str) -> str:
        """Return the full path of a file, as the file system names it."""
        return f"{self.path}/{path}"

    def url(self, path: str) -> str:
        """Return the full path of a file, as an engine names it."""
        return self.join(path) if self.is_local else f"{self.location.rstrip('/')}/{path}"

    # ---- manifest

    @_reached
    def find(self, *, is_replaced: bool = False) -> Manifest | None:
        """Return the newest manifest; None if there is no lake. Raise FileFormatError for a newer schema.

        A damaged manifest is an error too, unless the lake `is_replaced`: then it is an empty one with its number.
        """
        for _ in range(5):
            names = self._manifests()
            if not names:
                return None
            try:
                content = self.fs.cat_file(self.join(f"{MANIFESTS}/{names[-1]}"))
            except FileNotFoundError:  # replaced just now
                continue
            return self._decode(content, names[-1], is_replaced=is_replaced)
        raise LakeChanged(self.location)

    @_reached
    def require(self) -> Manifest:
        """Return the newest manifest, or raise LakeNotFound."""
        manifest = self.find()
        if manifest is None:
            reason = "no such folder" if not self.fs.exists(self.path) else "it has no manifest"
            if self.is_local and Path(self.path, "runs").is_dir():
                reason = "it has no manifest; it may be the home of runs itself"
            raise LakeNotFound(self.location, reason)
        if manifest.version < SCHEMA_VERSION:
            reason = f"schema version {manifest.version} is older than the version {SCHEMA_VERSION} of this provml"
            advice = f"Renew the lake: `provml lake update HOME -o {self.location}`."
            raise FileFormatError(reason, advice, file=self.location)
        return manifest

    @_reached
    def require_free(self) -> None:
        """Raise LakeNotFound if the folder holds something else: a lake is not mixed with other files."""
        bucket = "" if self.is_local else self.path.partition("/")[0]
        if bucket and not self.fs.exists(bucket):  # to write into it would create it, also if its name is mistyped
            raise LakeNotFound(self.location, f"there is no bucket {bucket}", "Check the name, or create the bucket.")
        if self.is_local and Path(self.path).is_file():
            raise LakeNotFound(self.location, "it is a file", "Choose an empty folder for the lake.")
        with contextlib.suppress(FileNotFoundError):
            own = {*TABLES, MANIFESTS}
            others = [name for name in map(_base_name, self.fs.ls(self.path, detail=False)) if name not in own]
            if others:
                reason = f"it holds other files, such as {sorted(others)[0]}"
                raise LakeNotFound(self.location, reason, "Choose an empty folder for the lake.")

    def _manifests(self) -> list[str]:
        self.fs.invalidate_cache()
        try:
            names = self.fs.ls(self.join(MANIFESTS), detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(name for name in map(_base_name, names) if name.endswith(".json"))

    def _decode(self, content: bytes, name: str, *, is_replaced: bool) -> Manifest:
        file = self.url(f"{MANIFESTS}/{name}")
        try:
            version = msgspec.json.decode(content, type=_Version).version
            if version > SCHEMA_VERSION:
                reason = f"schema version {version} is newer than the latest supported version {SCHEMA_VERSION}"
                raise FileFormatError(reason, "Upgrade provml.", file=file)
            return msgspec.json.decode(content, type=Manifest)
        except msgspec.MsgspecError as error:
            number = name.removesuffix(".json")
            if is_replaced and number.isdecimal():
                return Manifest(number=int(number))
            raise FileFormatError(f"the manifest is damaged ({error})", "Build the lake again.", file=file) from None

    @_reached
    def commit(self, manifest: Manifest, previous: Manifest | None) -> Manifest:
        """Make a manifest the newest one, and remove the files that it no longer names. Raise LakeChanged if another
        process was faster."""
        number = (previous.number if previous is not None else 0) + 1
        manifest = msgspec.structs.replace(manifest, number=number, written=time.time())
        path = self.join(manifest.path)
        self.fs.makedirs(self.join(MANIFESTS), exist_ok=True)
        if not self._create(path, msgspec.json.encode(manifest)):
            raise LakeChanged(self.location)
        if previous is not None:
            old = {previous.path, *previous.files()} - set(manifest.files())
            self._remove(map(self.join, old))
        return manifest

    def _create(self, path: str, content: bytes) -> bool:
        """Write a file unless it exists; return whether it was written."""
        if self.is_local:
            part = Path(f"{path}.{uuid.uuid4().hex[:8]}{TEMPORARY}")
            with part.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(part, path)
            except FileExistsError:
                return False
            finally:
                part.unlink()
            return True
        self.fs.invalidate_cache()
        if self.fs.exists(path):
            return False
        try:
            self.fs.pipe_file(path, content, mode="create")
        except FileExistsError:
            return False
        except (TypeError, NotImplementedError, ValueError):  # an object store without conditional writes
            self.fs.pipe_file(path, content)
        return True

    # ---- files

    @_reached
    def write_part(self, tables: Mapping[str, pyarrow.Table]) -> Part:
        """Write the tables that have rows as a part, which is complete when this returns."""
        import pyarrow.parquet as pq

        name, files = uuid.uuid4().hex[:16], dict[str, FileEntry]()
        for table, rows in tables.items():
            if not rows.num_rows:
                continue
            path = self.join(file_path(table, name))
            self.fs.makedirs(self.join(table), exist_ok=True)
            with self.fs.open(f"{path}{TEMPORARY}", "wb") as file:
                pq.write_table(rows, file, compression="zstd", compression_level=3)
            files[table] = FileEntry(rows.num_rows, self.fs.size(f"{path}{TEMPORARY}"))
        for table in files:
            path = self.join(file_path(table, name))
            self.fs.mv(f"{path}{TEMPORARY}", path)
        return Part(name, files)

    @_reached
    def read_table(self, table: str, part: Part, columns: list[str] | None = None) -> pyarrow.Table:
        """Return the rows of a table in a part."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = arrow_schema(table)
        if table not in part.files:
            return schema.empty_table() if columns is None else schema.empty_table().select(columns)
        path = file_path(table, part.name)
        try:
            with self.fs.open(self.join(path), "rb") as file:  # a column of a newer schema is empty
                return pq.read_table(file, columns=columns, schema=schema)
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError) as error:
            if _is_of_network(error):
                raise
            raise damaged_file(self.url(path), error) from error

    @_reached
    def remove_part(self, part: Part) -> None:
        """Remove the files of a part that no manifest names."""
        self._remove([self.join(file_path(table, part.name)) for table in part.files])

    @_reached
    def files(self) -> dict[str, dict[str, Any]]:
        """Return what the file system says of the files of all tables and of the manifests, by path."""
        infos = {}
        for name in (*TABLES, MANIFESTS):
            with contextlib.suppress(FileNotFoundError):
                for info in self.fs.ls(self.join(name), detail=True):
                    if info["type"] == "file":
                        infos[self.join(f"{name}/{_base_name(info['name'])}")] = info
        return infos

    @_reached
    def remove_leftovers(self, manifest: Manifest, files: Mapping[str, Mapping[str, Any]]) -> None:
        """Remove files that a killed process left more than a day ago."""
        named = {self.join(path) for path in (*manifest.files(), manifest.path)}
        self._remove(path for path in files.keys() - named if _age(files[path]) > LEFTOVER_SECONDS)

    def damaged(self, manifest: Manifest, files: Mapping[str, Mapping[str, Any]]) -> set[str]:
        """Return the names of parts with a file that is gone or has another size."""
        return {
            part.name
            for part in manifest.all_parts
            for table, entry in part.files.items()
            if files.get(self.join(file_path(table, part.name)), {}).get("size") != entry.size
        }

    def _remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                self.fs.rm_file(path)


def _age(info: Mapping[str, Any]) -> float:
    """Return the seconds since a file was written."""
    modified = info.get("mtime") or info.get("LastModified") or 0.0
    return time.time() - (modified.timestamp() if hasattr(modified, "timestamp") else float(modified))


def _base_name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _open_file_system(location: str, storage_options: dict[str, Any]) -> tuple[Any, str]:
    """Return the file system of a location, and the path in it."""
    try:
        import fsspec
        import pyarrow  # noqa: F401  # needed by all that follows
    except ImportError as error:
        raise MissingDependency(error.name or "pyarrow", "lake") from None
    if not location.strip():
        raise LakeNotFound(location, "the name is empty", "Pass a folder, or a URL such as s3://bucket/lake.")
    protocol = location.partition("://")[0] if "://" in location else ""
    try:
        fs, path = fsspec.core.url_to_fs(location if protocol else os.path.abspath(location), **storage_options)  # noqa: PTH100
    except ImportError as error:
        named = re.search(r"\b[Ii]nstall (\S+)", str(error))
        package = named[1] if named is not None else f"a package for {protocol}://"
        advice = "" if protocol in INSTALL else f"{first_line(error)}."
        raise MissingDependency(package, INSTALL.get(protocol, ""), advice) from None
    except ValueError as error:
        advice = "Pass a folder, or a URL such as s3://bucket/lake."
        raise LakeNotFound(location, str(error).rstrip("."), advice) from None
    except OSError as error:
        if not _is_of_network(error):
            raise
        raise LakeUnreachable(location, first_line(error)) from error
    return fs, str(path).rstrip("/")
