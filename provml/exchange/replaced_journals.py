"""Journals of imported runs that a later import replaces: the ledger of the home says so, if they were sealed."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from provml.journal.seals import Ledger, digest_journal

REASON = "a later state was imported"


def record_replacement(home: Path, run: str, added: Collection[str], removed: Collection[str]) -> None:
    """Write to the ledger that journals of a run were replaced; nothing if none of them was sealed.

    Without it, `provml verify` would report a journal that was changed, or that is missing.
    """
    ledger, sealed = Ledger(home), set[str]()
    for line in ledger.lines():
        if line.entry.get("run") == run:
            sealed = set() if line.entry.get("kind") == "removed" else sealed | {str(line.entry.get("journal"))}
    missing = set(removed) - set(added)
    if not sealed & {*added, *removed}:
        return
    names = sealed & set(added)
    if missing & sealed:
        ledger.append("removed", run=run, reason=REASON)
        names = (sealed - missing) | set(added)
    for name in sorted(names):
        mark = digest_journal(home / "runs" / run / name)
        ledger.append(
            "rewritten", run=run, journal=name, size=mark.size, sha256=mark.sha256, by="reader", reason=REASON
        )
