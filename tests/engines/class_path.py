"""The class path of Apache Jena in a folder that `.ci/engines` filled."""

from __future__ import annotations

from pathlib import Path

UNUSED = ("slf4j-", "log4j-", "jul-", "jcl-", "commons-logging")
LOGGING = ("slf4j-api", "slf4j-nop")
"""Of several libraries for logging, which exclude each other, one that logs nothing."""


def class_path(folder: Path) -> list[str]:
    """Return the jars; the corrected messages of Xerces come first."""
    jars = [path for path in sorted((folder / "usr" / "share" / "java").glob("*.jar")) if not path.is_symlink()]
    needed = [path for path in jars if not path.name.startswith(UNUSED) or path.name.startswith(LOGGING)]
    return [str(folder / "messages"), *map(str, needed)]
