"""Journals that come from elsewhere complete: they are sealed when they arrive, and the ledger says if one is replaced.

Without the line about a replacement, `provml verify` would report a journal that was changed, or that is missing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable
from pathlib import Path

from provml.journal.seals import Ledger, reseal, seal_arrived, sealed_journals
from provml.journal.status import is_being_written

REASON = "a later state was imported"


def seal_import(home: Path, run: str, added: Iterable[str], removed: Collection[str] = (), *, is_new: bool) -> None:
    """Seal the journals of a run that came in, unless they still grow elsewhere.

    A home that cannot be written to has no seals.
    `is_new` says that the home had no journal of the run before, so that the ledger need not be read.
    """
    names = [name for name in added if "/" not in name and name.endswith(".jsonl")]
    with contextlib.suppress(OSError):
        rewritten = set() if is_new else _record_replacement(home, run, names, removed)
        for name in names:
            journal = home / "runs" / run / name
            if name not in rewritten and not is_being_written(journal):
                seal_arrived(journal, by="import")


def _record_replacement(home: Path, run: str, added: Collection[str], removed: Collection[str]) -> set[str]:
    """Write to the ledger that sealed journals of a run were replaced; return the journals that have a new line."""
    sealed = sealed_journals(home, run)
    missing = set(removed) - set(added)
    if not sealed & {*added, *removed}:
        return set()
    names = sealed & set(added)
    if missing & sealed:
        Ledger(home).append("removed", run=run, reason=REASON)
        names = (sealed - missing) | set(added)
    for name in sorted(names):
        reseal(home / "runs" / run / name, by="import", reason=REASON)
    return names
