"""Requests of recording clients that were refused: counted, logged once, and stored in the home.

dfa-lib prints the status of an answer, ProvLake logs it, and both go on: what they send is lost without notice.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, OrderedDict
from pathlib import Path

from provml.journal.refusals import Refusal, read_refusals, write_refusals
from provml.journal.run_files import RUN_ID
from provml.web.problems import Problem

logger = logging.getLogger("provml.web")

STATUSES = frozenset((401, 403, 408, 413, 415, 507))
"""Refusals that lose data of a client; others answer a mistake in the request, or a question."""
MAX_REFUSALS = 200
WRITE_SECONDS = 5.0

Key = tuple[str, str, str, str]


class Refusals:
    """The refusals of a home, of this service and of earlier ones."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.totals: Counter[tuple[str, str]] = Counter()
        """Requests since the start, by protocol and code."""
        self._lock = threading.Lock()
        self._refusals: OrderedDict[Key, Refusal] = OrderedDict()
        for refusal in reversed(read_refusals(home)):
            self._refusals[refusal.protocol, refusal.client, refusal.code, refusal.run] = refusal
        self._logged: set[Key] = set()
        self._written = 0.0

    def latest(self) -> list[Refusal]:
        """Return the refusals, the latest first."""
        with self._lock:
            return list(reversed(self._refusals.values()))

    def note(self, protocol: str, client: str, problem: Problem, run: str = "") -> None:
        """Count a refused request; the first of a client, a run and a reason is logged."""
        if problem.status not in STATUSES:
            return
        run = str(problem.extra.get("run", run))
        if problem.status == 401 or not RUN_ID.fullmatch(run):  # without a token, a client may name anything
            run = ""
        key = protocol, client, problem.code, run
        with self._lock:
            self.totals[protocol, problem.code] += 1
            refusal = self._refusals.pop(key, None) or Refusal(
                protocol=protocol, client=client, status=problem.status, code=problem.code, run=run
            )
            refusal.requests += 1
            refusal.time = time.time()
            self._refusals[key] = refusal
            while len(self._refusals) > MAX_REFUSALS:
                self._logged.discard(self._refusals.popitem(last=False)[0])
            is_first = key not in self._logged
            self._logged.add(key)
        if is_first:
            self._log(refusal, problem)
        if is_first or time.monotonic() - self._written >= WRITE_SECONDS:
            self.save()

    def save(self) -> None:
        """Write the refusals to the home."""
        if self.totals:
            self._written = time.monotonic()
            write_refusals(self.home, self.latest())

    def _log(self, refusal: Refusal, problem: Problem) -> None:
        about = f" about run {refusal.run}" if refusal.run else ""
        logger.warning(
            "REFUSED %d: a %s request of %s%s is lost unless its client sends it again. %s Further ones are counted in "
            "/metrics and /api/v1/status.",
            refusal.status,
            refusal.protocol,
            refusal.client or "an unknown client",
            about,
            problem.detail,
        )
