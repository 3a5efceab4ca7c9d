"""The questions of some folders by name: those of provml and those of users."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from provml import paths
from provml.catalog.query import Query
from provml.catalog.query_file import read_query
from provml.errors import FileFormatError, QueryNotFound, plural


class Catalog(Mapping[str, Query]):
    """Questions by name: those of provml, and those of the given folders.

    A question is also found by an alias, such as `q6`, and by the name of its file, in any case. `errors` has the user
    files that cannot be read.
    """

    def __init__(self, folders: Iterable[Path] = ()) -> None:
        self._queries: dict[str, Query] = {}
        self._names: dict[str, Query] = {}
        self.errors: dict[Path, FileFormatError] = {}
        for path in sorted(paths.queries().glob("*.rq")):
            self._add(path)
        for folder in folders:
            if not folder.is_dir():
                reason = "a file, not a folder of queries" if folder.exists() else "no such folder"
                self.errors[folder] = FileFormatError(reason, "Check PROVML_QUERIES.", file=str(folder))
            for path in sorted(folder.glob("*.rq")):
                try:
                    self._add(path)
                except FileFormatError as error:
                    self.errors[path] = error

    def _add(self, path: Path) -> None:
        self.add(read_query(path))

    def add(self, query: Query) -> None:
        """Add a question; raise FileFormatError if another one has its name."""
        for name in (query.name, *query.aliases):
            existing = self._names.get(name.lower())
            if existing is not None:
                reason = f"the name {name} is already used by {existing.path.name}"
                raise FileFormatError(reason, "Choose another name.", file=str(query.path))
        self._queries[query.name] = query
        for name in (query.name, *query.aliases):
            self._names[name.lower()] = query
        self._names.setdefault(query.path.stem.lower(), query)

    def find(self, name: object) -> Query | None:
        """Return the question of a name, an alias or a file name, in any case."""
        return self._names.get(name.lower()) if isinstance(name, str) else None

    def __contains__(self, name: object) -> bool:
        return self.find(name) is not None

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


def user_folders(home: Path | None = None) -> list[Path]:
    """Return the folders of user queries: those in PROVML_QUERIES, and `queries` in the home."""
    named = [Path(part) for part in os.environ.get("PROVML_QUERIES", "").split(os.pathsep) if part]
    inside = [home / "queries"] if home is not None and (home / "queries").is_dir() else []
    return [*named, *inside]
