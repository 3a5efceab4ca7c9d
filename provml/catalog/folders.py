"""The questions of some folders, by name: provml's own, and those of users."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from provml import resources
from provml.catalog.header import read_query
from provml.catalog.question import Query
from provml.errors import BrokenFile, NoSuchQuery


class Catalog(Mapping[str, Query]):
    """The queries of some folders, by id; provml's own first. A file of a user that is broken is in `broken`."""

    def __init__(self, folders: Iterable[Path] = ()) -> None:
        self._queries: dict[str, Query] = {}
        self.broken: dict[Path, BrokenFile] = {}
        for path in sorted(resources.queries().glob("*.rq")):
            self._take(path)
        for folder in folders:
            if not folder.is_dir():
                reason = "it is a file, not a folder of queries" if folder.exists() else "there is no such folder"
                self.broken[folder] = BrokenFile(reason, "See what PROVML_QUERIES names.", file=str(folder))
            for path in sorted(folder.glob("*.rq")):
                try:
                    self._take(path)
                except BrokenFile as error:
                    self.broken[path] = error

    def _take(self, path: Path) -> None:
        query = read_query(path)
        taken = self._queries.get(query.id)
        if taken is not None:
            raise BrokenFile(f"the id {query.id} is that of {taken.path.name}", "Choose another id.", file=str(path))
        self._queries[query.id] = query

    def find(self, name: object) -> Query | None:
        """The question that goes by a name, its id or that of its file, in small letters or capitals."""
        if not isinstance(name, str):
            return None
        like = (one for one in self._queries.values() if name.lower() in (one.id.lower(), one.path.stem.lower()))
        return self._queries.get(name) or next(like, None)

    def __contains__(self, name: object) -> bool:
        return self.find(name) is not None

    def __getitem__(self, name: str) -> Query:
        found = self.find(name)
        if found is not None:
            return found
        if not isinstance(name, str):
            raise NoSuchQuery(name, tuple(self)[:5])
        for path, error in self.broken.items():  # its id may not be known, so its file is what it goes by
            if name in (path.stem, path.stem.partition("-")[0]):
                raise error
        like = difflib.get_close_matches(name, self._queries, 5) or [own for own in self if own[:1] == name[:1]]
        raise NoSuchQuery(name, tuple(like or self))

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._queries, key=_natural))

    def __len__(self) -> int:
        return len(self._queries)


def _natural(name: str) -> tuple[str, int, str]:
    match = re.fullmatch(r"(\D*)(\d*)(.*)", name)
    letters, digits, rest = match.groups() if match else (name, "", "")
    return letters, int(digits or 0), rest


def user_folders(home: Path | None = None) -> list[Path]:
    """Where users keep queries of their own: PROVML_QUERIES, and the folder `queries` of a home."""
    named = [Path(part) for part in os.environ.get("PROVML_QUERIES", "").split(os.pathsep) if part]
    inside = [home / "queries"] if home is not None and (home / "queries").is_dir() else []
    return [*named, *inside]
