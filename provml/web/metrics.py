"""Counters of requests, queries and the index, in the text format of Prometheus."""

from __future__ import annotations

import os
import resource
from collections import Counter
from collections.abc import Iterable

from starlette.types import Scope

from provml import __version__
from provml.web.service import Service

TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8"
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
Sample = tuple[str, float]


class RequestMetrics:
    """Counts requests by method, route and status."""

    def __init__(self) -> None:
        self.running = 0
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: Counter[str] = Counter()
        self._bytes = 0

    def count(self, scope: Scope, status: int, size: int, seconds: float) -> None:
        """Count a request; routes, not paths, so that their number is bounded."""
        route = scope.get("route_path", "")
        method = scope["method"] if scope["method"] in METHODS else "other"
        self._requests[method, route, status] += 1
        self._seconds[route] += seconds  # type: ignore[assignment]  # a Counter adds any numbers
        self._bytes += size

    def text(self) -> str:
        """Return the counters."""
        requests = [
            (f'{{method="{method}",route="{route}",status="{status}"}}', float(count))
            for (method, route, status), count in sorted(self._requests.items())
        ]
        seconds = [(f'{{route="{route}"}}', float(value)) for route, value in sorted(self._seconds.items())]
        return (
            _metric("provml_http_requests_total", "counter", "Requests that were answered.", requests)
            + _metric("provml_http_request_seconds_total", "counter", "Time to answer requests.", seconds)
            + _metric("provml_http_response_bytes_total", "counter", "Bytes of answers.", [("", self._bytes)])
            + _metric("provml_http_requests_running", "gauge", "Requests being answered.", [("", self.running)])
        )


def service_text(service: Service) -> str:
    """Return the counters of a service."""
    pool = service.pool
    queries = [
        ('{result="answered"}', float(pool.answered)),
        ('{result="killed"}', float(pool.killed)),
        ('{result="refused"}', float(pool.refused)),
    ]
    refused = [
        (f'{{protocol="{protocol}",code="{code}"}}', float(count))
        for (protocol, code), count in sorted(service.refusals.totals.items())
    ]
    usage = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = usage.ru_utime + usage.ru_stime + children.ru_utime + children.ru_stime
    rows: list[tuple[str, str, str, Iterable[Sample]]] = [
        ("provml_info", "gauge", "Version of provml.", [(f'{{version="{__version__}"}}', 1.0)]),
        ("provml_queries_total", "counter", "Queries of worker processes.", queries),
        ("provml_queries_waiting", "gauge", "Queries that wait for a worker.", [("", pool.waiting)]),
        ("provml_queries_running", "gauge", "Queries that are executed.", [("", pool.running)]),
        ("provml_workers", "gauge", "Worker processes.", [("", len(pool.workers))]),
        ("provml_refused_requests_total", "counter", "Requests of recording clients that were refused.", refused),
        ("provml_streams", "gauge", "Open live streams.", [("", service.streams)]),
        ("provml_cache_hits_total", "counter", "Answers from the cache.", [("", service.cache.hits)]),
        ("provml_cache_bytes", "gauge", "Bytes of cached answers.", [("", service.cache.size)]),
        ("provml_index_syncs_total", "counter", "Looks at the journals.", [("", service.syncs)]),
        ("provml_index_changed_seconds", "gauge", "Time of the last change.", [("", service.store.position_time)]),
        ("process_cpu_seconds_total", "counter", "CPU time, with children that have ended.", [("", seconds)]),
        ("process_resident_memory_bytes", "gauge", "Resident memory.", [("", _resident_bytes())]),
    ]
    return "".join(_metric(*row) for row in rows)


def _metric(name: str, kind: str, text: str, samples: Iterable[Sample]) -> str:
    lines = [f"{name}{labels} {value:.17g}" for labels, value in samples]
    return "\n".join([f"# HELP {name} {text}", f"# TYPE {name} {kind}", *lines]) + "\n"


def _resident_bytes() -> float:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123  # read at every scrape
            return float(int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
    except OSError:
        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
