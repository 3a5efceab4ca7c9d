"""Paths of the packaged data folders, in a checkout or an installed wheel, and of the home of runs."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

PACKAGE = Path(__file__).resolve().parent
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
"""Flag for each file of a home that is opened to be written: a symbolic link in its place leads elsewhere."""
DEFAULT_NAME = ".provml"
"""Name of a home, in the working directory, unless another one is chosen."""
SPARQL_SCHEMES = ("sparql+http://", "sparql+https://")
"""How the URL of a SPARQL endpoint begins."""
MISSING_ERRNOS = (errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP, errno.EINVAL)
"""Error numbers of `stat` for a path that does not exist."""


def open_no_follow(path: str, flags: int) -> int:
    """Open a file of a home to write it, unless it is a symbolic link; an `opener` of `open`."""
    return os.open(path, flags | NO_FOLLOW, 0o666)


def is_utf8(path: Path) -> bool:
    """Return whether a path is text: the engine opens no other."""
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError:
        return False
    return True


def folder(name: str) -> Path:
    """Return a data folder: inside the package in a wheel, next to the package in a checkout."""
    inside = PACKAGE / name
    return inside if inside.is_dir() else PACKAGE.parent / name


def ontologies() -> Path:
    """Return the folder of the OWL files."""
    return folder("ontologies")


def shapes() -> Path:
    """Return the folder of the SHACL files."""
    return folder("shapes")


def queries() -> Path:
    """Return the folder of the query files."""
    return folder("queries")


def default_home() -> Path:
    """Return the default home of runs: $PROVML_HOME, or `.provml` in the working directory.

    If $PROVML_HOME is the URL of a service, recording keeps its journals in `.provml`, or in $PROVML_SPOOL.
    """
    home = os.environ.get("PROVML_HOME", "")
    return Path((os.environ.get("PROVML_SPOOL", "") if is_url(home) else home) or DEFAULT_NAME)


def is_url(home: object) -> bool:
    """Return whether a home is the URL of a service, not a directory."""
    return isinstance(home, str) and home.lower().startswith(("http://", "https://"))


def service_url(home: object = None) -> str:
    """Return the URL of the service that a home, by default $PROVML_HOME, stands for; empty if it is a directory."""
    home = home or os.environ.get("PROVML_HOME", "")
    return home if isinstance(home, str) and is_url(home) else ""


def endpoint_url(home: object) -> str:
    """Return the URL of the SPARQL endpoint that a home stands for; empty if it is none."""
    return home if isinstance(home, str) and re.match(r"sparql\+\w*://", home.lower()) else ""


def store_location(home: Path | str | None) -> Path | str | None:
    """Return where to read: a home, or $PROVML_STORE if none is passed."""
    return home or os.environ.get("PROVML_STORE") or None


def absolute(home: Path) -> Path:
    """Return an absolute path, so that the home stays the same if the training changes its working directory."""
    try:
        return home.resolve()
    except (OSError, RuntimeError):  # a deleted directory or a cycle of links: writing there will raise a clear error
        return home


def path_mode(path: Path) -> int:
    """Return the `st_mode` of a path, or 0 if it does not exist.

    Other errors, such as a missing permission, are raised; `Path.exists` hides them from Python 3.14 on.
    """
    try:
        return path.stat().st_mode
    except OSError as error:
        if error.errno not in MISSING_ERRNOS:
            raise
    except ValueError:  # not a valid path, such as text with a null byte
        pass
    return 0


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces `path` on success. A device or a pipe is written to directly."""
    path = path.resolve()
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    import tempfile  # loads random and hashlib, which reading a path does not need

    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~umask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
