"""Execute a query on a backend: check it, apply its limits, and translate the errors of the engine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypedDict

import pyoxigraph as ox

from provml.answers import RowStream
from provml.errors import IndexDamaged, ProvmlError, QueryError, QueryTimeout
from provml.store import query_guard, query_process
from provml.store.backend import Backend, damage_reason, is_damaged
from provml.store.query_bindings import bind
from provml.store.query_diagnosis import diagnose
from provml.store.query_process import RESULT_FRACTION, QueryLimits
from provml.store.query_view import view_of

_ENGINE_ERRORS = (SyntaxError, RuntimeError, OSError, ValueError, MemoryError)  # TimeoutError is an OSError


class QueryOptions(TypedDict, total=False):
    """Options of a query: values of variables, seconds, bytes, whether SERVICE is allowed, and inference."""

    bindings: Mapping[str, Any]
    timeout: float | None
    memory: int
    service: bool
    inference: bool


def execute(
    backend: Callable[[], Backend], sparql: str, options: QueryOptions, *, limit_result: bool
) -> RowStream | bool:
    """Execute a query. `limit_result` limits the size of a result that will be in memory as a whole."""
    if not isinstance(sparql, str):
        raise QueryError(f"a query is text, not {type(sparql).__name__}", "Pass SPARQL as a str.")
    timeout = options.get("timeout")
    if timeout is not None and not query_process.is_valid_timeout(timeout):
        limit = f"{query_process.MAX_TIMEOUT:,}"
        raise QueryError(f"timeout must be a number of seconds from 0 to {limit}, not {timeout!r}", "0 means no limit.")
    service = options.get("service", False)
    query_guard.check(sparql, service=service)
    if options.get("bindings") is not None:
        sparql = bind(sparql, options["bindings"])
        query_guard.check(sparql, service=service)
    limits = None
    if timeout:
        memory = options.get("memory", 0) or query_process.half_of_memory()
        limits = QueryLimits(timeout, memory, memory // RESULT_FRACTION if limit_result else 0)
    view = view_of(sparql, inference=options.get("inference", False))
    engine = backend()
    try:
        result = engine.query(sparql, limits, view)
    except ProvmlError:  # a service has described it
        raise
    except _ENGINE_ERRORS as error:
        failure = _translate(error, sparql, limits)
    else:
        if isinstance(result, ox.QueryBoolean):
            return bool(result)
        if isinstance(result, ox.QuerySolutions):
            columns = [variable.value for variable in result.variables]
            return RowStream(columns, _rows(result, sparql, limits))
        return RowStream(["subject", "predicate", "object"], _rows(result, sparql, limits), is_graph=True)
    # Raised here, the error has no frame with the engine's rows: only their own thread may release them.
    raise failure


def _rows(result: Any, sparql: str, limits: QueryLimits | None) -> Iterator[tuple[Any, ...]]:
    """Yield the terms of each row."""
    try:
        if isinstance(result, ox.QuerySolutions):
            for solution in result:
                yield tuple(solution)
        else:
            for triple in result:
                yield (triple.subject, triple.predicate, triple.object)
        return
    except _ENGINE_ERRORS as error:
        failure = _translate(error, sparql, limits)
    finally:
        del result
    raise failure


def _translate(error: BaseException, sparql: str, limits: QueryLimits | None) -> ProvmlError:
    if is_damaged(error):
        return IndexDamaged(damage_reason(error))
    if isinstance(error, TimeoutError) and limits is not None:
        return QueryTimeout(limits.timeout_seconds)
    if isinstance(error, MemoryError):
        memory = limits.memory_bytes if limits is not None else query_process.half_of_memory()
        return QueryError(f"the query needs more than {memory / 1e9:.3g} GB of memory", "Restrict it, or add a LIMIT.")
    if re.search(r"\bservice\b", sparql, re.IGNORECASE) and not isinstance(error, SyntaxError):
        message = " ".join(str(error).split())
        if not message.startswith("error at"):
            return QueryError(message[:300], "Check that the SERVICE endpoint responds, or write SERVICE SILENT.")
    return diagnose(sparql, str(error))
