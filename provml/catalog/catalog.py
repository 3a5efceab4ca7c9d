"""The questions of some folders by name: those of provml and those of users."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from provml import paths
from provml.catalog.query import Query
from provml.catalog.query_file import read_query
from provml.errors import FileFormatError, QueryNotFound, plural

_NAMES = re.compile(r"^#\+ (name|aliases): (.+)$", re.MULTILINE)
"""The names of a question in the header of a file of provml."""


class Catalog(Mapping[str, Query]):
    """Questions by name: those of provml, and those of the given folders.

    A question is also found by an alias, such as `q6`, and by the name of its file, in any case. `errors` has the user
    files that cannot be read.
    """

    def __init__(self, folders: Iterable[Path] = ()) -> None:
        self._queries: dict[str, Query | Path] = {}
        self._names: dict[str, str] = {}
        self.errors: dict[Path, FileFormatError] = {}
        for path in sorted(paths.queries().glob("*.rq")):
            self._add_packaged(path)
        for folder in folders:
            if not folder.is_dir():
                reason = "a file, not a folder of queries" if folder.exists() else "no such folder"
                self.errors[folder] = FileFormatError(reason, "Check PROVML_QUERIES.", file=str(folder))
            for path in sorted(folder.glob("*.rq")):
                try:
                    self.add(read_query(path))
                except FileFormatError as error:
                    self.errors[path] = error

    def _add_packaged(self, path: Path) -> None:
        """Add a question of provml, whose file is read when the question is needed: reading all of them is slow."""
        fields = dict(_NAMES.findall(path.read_text(encoding="utf-8")))
        aliases = [alias.strip() for alias in fields.get("aliases", "").strip("[]").split(",")]
        self._add(fields["name"], filter(None, aliases), path, path)

    def add(self, query: Query) -> None:
        """Add a question; raise FileFormatError if another one has its name."""
        self._add(query.name, query.aliases, query.path, query)

    def _add(self, name: str, aliases: Iterable[str], path: Path, query: Query | Path) -> None:
        names = (name, *aliases)
        for item in names:
            existing = self._names.get(item.lower())
            if existing is not None:
                reason = f"the name {item} is already used by {_path(self._queries[existing]).name}"
                raise FileFormatError(reason, "Choose another name.", file=str(path))
        self._queries[name] = query
        for item in names:
            self._names[item.lower()] = name
        self._names.setdefault(path.stem.lower(), name)

    def find(self, name: object) -> Query | None:
        """Return the question of a name, an alias or a file name, in any case."""
        key = self._names.get(name.lower()) if isinstance(name, str) else None
        if key is None:
            return None
        query = self._queries[key]
        if isinstance(query, Path):
            query = self._queries[key] = read_query(query)
        return query

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._names

    def __getitem__(self, name: str) -> Query:
        query = self.find(name)
        if query is not None:
            return query
        if not isinstance(name, str):
            raise QueryNotFound(name, ())
        for path, error in self.errors.items():  # the name in an invalid file is unknown, so compare the file name
            if name in (path.stem, path.stem.partition("-")[0]):
                raise error
        similar = difflib.get_close_matches(name.lower(), self._names, 3)
        raise QueryNotFound(name, tuple(similar))

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._queries))

    def __len__(self) -> int:
        return len(self._queries)

    def __repr__(self) -> str:
        errors = f", {plural(len(self.errors), 'error')}" if self.errors else ""
        return f"<Catalog {plural(len(self), 'question')}{errors}>"

    def _repr_html_(self) -> str:
        from html import escape

        rows = [(name, self[name].summary, ", ".join(self[name].params)) for name in self]
        cells = ("".join(f"<td>{escape(text)}</td>" for text in row) for row in rows)
        head = "<tr><th>name</th><th>question</th><th>parameters</th></tr>"
        return f"<table>\n{head}\n" + "\n".join(f"<tr>{row}</tr>" for row in cells) + "\n</table>"


def _path(query: Query | Path) -> Path:
    return query if isinstance(query, Path) else query.path


def user_folders(home: Path | None = None) -> list[Path]:
    """Return the folders of user queries: those in PROVML_QUERIES, and `queries` in the home."""
    named = [Path(part) for part in os.environ.get("PROVML_QUERIES", "").split(os.pathsep) if part]
    inside = [home / "queries"] if home is not None and (home / "queries").is_dir() else []
    return [*named, *inside]
