"""The endpoints of DfAnalyzer that dfa-lib-python calls: DNNProv, Keras-Prov and other scripts record with DFA_URL.

A client prints the status of an answer and goes on, so a request that is refused is lost without notice. Therefore
everything that can be kept is kept and answered with 200.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from provml.compat.dfa_lib_python.messages import (
    Message,
    ReceivedExecution,
    parse_dataflow,
    predefined_dataflow,
    sub_id_of,
)
from provml.exchange.user_agent import software_of
from provml.journal import events
from provml.journal.redaction import mask
from provml.journal.secret_rules import strength_of
from provml.recording.event_list import EventListRun
from provml.web.api.tables import encode
from provml.web.ingest.dataflow_query import DataSets, parse_specification
from provml.web.ingest.endpoint import add_ingest, keep, read_request
from provml.web.ingest.received import Received
from provml.web.ingest.translation import SILENCE_SECONDS, Ingest, TranslatedRun
from provml.web.negotiation import content_type, negotiate
from provml.web.problems import Problem
from provml.web.routing import JSON, Endpoint, json_response, read_body, route
from provml.web.service import Service

PROTOCOL = "dfanalyzer"
DATAFLOW, TASK = "dataflow", "task"
MAX_SLUG_CHARS = 60
MAX_QUERY_BYTES = 64 << 10
QUERY_FORMATS = {"csv": "text/csv", "tsv": "text/tab-separated-values", "json": JSON}
"""Formats of the query interface. The first is that of DfAnalyzer."""


@dataclass
class TaskMessages:
    """The messages of one execution of a dataflow."""

    exec_tag: str
    requests: list[Received] = field(default_factory=list)
    bodies: set[str] = field(default_factory=set)
    ended: set[tuple[str, str, str]] = field(default_factory=set)
    """Tasks that have ended, by transformation, id and sub-id."""

    @property
    def last_time(self) -> float:
        """Time of the last message."""
        return self.requests[-1].time


class DataflowSource:
    """A dataflow with its executions.

    An execution is known by its tag. Clients without such a tag use the same ids of tasks in every execution: then a
    task that begins after it ended starts another one. As long as that one repeats an earlier one word for word, it may
    be the same requests again, and is not a run.
    """

    def __init__(self) -> None:
        self.tag = ""
        self.dataflows: list[Received] = []
        self.tagged: dict[str, TaskMessages] = {}
        self.untagged: list[TaskMessages] = []

    def apply(self, request: Received) -> Iterable[str]:
        """Take in a dataflow or a task."""
        message = request.body
        if not isinstance(message, dict):
            return ()
        self.tag = source_key(message)
        if request.action == DATAFLOW:
            if any(other.body == message for other in self.dataflows):
                return ()
            self.dataflows.append(request)
            return self.run_ids()
        execution = self._execution(message)
        body = json.dumps(message, sort_keys=True)
        if body not in execution.bodies or not execution.exec_tag:
            execution.bodies.add(body)
            execution.requests.append(request)
            key = _task_key(message)
            (execution.ended.add if _is_end(message) else execution.ended.discard)(key)
        return [run_id for run_id, other in self._runs().items() if other is execution]

    def owners(self, request: Received) -> Mapping[str, str]:
        """Return the owner of the execution that a task belongs to."""
        if request.action == DATAFLOW or not isinstance(request.body, dict):
            return {}
        execution = self._present_execution(request.body)
        if execution is None or not execution.requests:
            return {}
        ids = [run_id for run_id, other in self._runs().items() if other is execution]
        return {ids[0] if ids else self.tag: execution.requests[0].owner}

    def _execution(self, message: Message) -> TaskMessages:
        execution = self._present_execution(message)
        if execution is None:
            execution = TaskMessages(str(message.get("exec") or ""))
            if execution.exec_tag:
                self.tagged[execution.exec_tag] = execution
            else:
                self.untagged.append(execution)
        return execution

    def _present_execution(self, message: Message) -> TaskMessages | None:
        """Return the execution that a task belongs to; None if the task begins another one."""
        exec_tag = str(message.get("exec") or "")
        if exec_tag:
            return self.tagged.get(exec_tag)
        if not self.untagged or (not _is_end(message) and _task_key(message) in self.untagged[-1].ended):
            return None
        return self.untagged[-1]

    def _runs(self) -> dict[str, TaskMessages]:
        runs = {_run_id(self.tag, exec_tag): messages for exec_tag, messages in self.tagged.items()}
        distinct: list[list[Any]] = []
        for messages in self.untagged:
            bodies = [request.body for request in messages.requests]
            if not any(bodies == earlier[: len(bodies)] for earlier in distinct):
                distinct.append(bodies)
                runs[_run_id(self.tag, f"execution {len(distinct)}")] = messages
        return runs

    def forget(self) -> None:
        """Do nothing: there are no other references."""

    def run_ids(self) -> Iterable[str]:
        """Return the ids of all runs."""
        return list(self._runs())

    def translate(self, run_id: str, now: float) -> TranslatedRun:
        """Return the run of an execution. It is over when the plan is complete, after an error, or by silence."""
        messages = self._runs()[run_id]
        first, last_time = messages.requests[0], messages.last_time
        is_silent = now - last_time >= SILENCE_SECONDS or self._is_followed(messages)
        dataflow = self._dataflow(messages)
        if dataflow is None:
            return TranslatedRun((), last_time, is_silent)
        header = events.Header(events.VERSION, run_id, PROTOCOL, dataflow.tag, first.time, dataflow.tag)
        header.host, header.run_name = first.client, messages.exec_tag
        run = EventListRun(header, store=first.client)
        software = software_of(first.agent)
        if software:
            run._emit(events.Environment(software=software))
        execution = ReceivedExecution(dataflow, run, repeats_rows=not messages.exec_tag)
        for request in messages.requests:
            execution.feed(request.body, request.time)
        is_over = execution.is_over and (execution.is_complete or execution.has_failed or is_silent)
        if is_over:
            status = "FAILED" if execution.has_failed else "FINISHED"
            run._emit(events.End(last_time, status, ["TaskError", execution.error] if execution.has_failed else []))
        return TranslatedRun(run.events, last_time, is_over or is_silent)

    def data_sets(self, execution: str = "") -> DataSets:
        """Return the rows of the data sets, of one execution by its tag or its run, or of all."""
        data_sets = DataSets()
        for run_id, messages in self._runs().items():
            dataflow = self._dataflow(messages)
            if dataflow is not None and execution in ("", run_id, messages.exec_tag):
                bodies = (request.body for request in messages.requests)
                data_sets.add_execution(run_id, dataflow, bodies, repeats_rows=not messages.exec_tag)
        return data_sets

    def _is_followed(self, messages: TaskMessages) -> bool:
        """Return whether another execution of a client without tags has begun: the earlier one has ended."""
        return messages in self.untagged[:-1]

    def _dataflow(self, messages: TaskMessages) -> Any:
        """Return the dataflow of an execution: the last that was sent before its end, else the first that was sent."""
        earlier = [request for request in self.dataflows if request.time <= messages.last_time]
        for request in [*earlier[-1:], *self.dataflows[:1]]:
            return parse_dataflow(request.body)
        tags = (str(request.body.get("transformation", "")) for request in messages.requests)
        return predefined_dataflow(self.tag, tags)

    def redact_rows(self, message: Any) -> Any:
        """Return a task without values of attributes that have the name of a secret: rows have no names themselves."""
        if not isinstance(message, dict) or not self.dataflows or not isinstance(message.get("sets"), list):
            return message
        try:
            return self._redact_rows(message)
        except (AttributeError, TypeError):  # not of the expected form: it is kept, and has no rows
            return message

    def _redact_rows(self, message: Message) -> Message:
        names = {
            str(item.get("tag")): [str(column.get("name")) for column in item.get("attributes") or ()]
            for step in self.dataflows[-1].body.get("transformations") or ()
            for item in step.get("sets") or ()
        }
        sets = [
            _redact_set(item, names.get(str(item.get("tag")), [])) if isinstance(item, dict) else item
            for item in message["sets"]
        ]
        return {**message, "sets": sets}


def _redact_set(fields: Message, names: list[str]) -> Message:
    secret = [number for number, name in enumerate(names) if strength_of(name)]
    if not secret or not isinstance(fields.get("elements"), list):
        return fields
    rows = [
        [mask(names[number], value) if number in secret else value for number, value in enumerate(row)]
        if isinstance(row, list)
        else row
        for row in fields["elements"]
    ]
    return {**fields, "elements": rows}


def source_key(message: Any) -> str:
    """Return the tag of the dataflow that a message is about; empty if it names none."""
    if not isinstance(message, dict):
        return ""
    return str(message.get("dataflow") or ("" if "transformation" in message else message.get("tag")) or "").lower()


def _task_key(message: Message) -> tuple[str, str, str]:
    return str(message.get("transformation", "")).lower(), str(message.get("id", "")), sub_id_of(message)


def _is_end(message: Message) -> bool:
    return str(message.get("status", "")).upper() == "FINISHED" or bool(message.get("error"))


def _run_id(tag: str, execution: str) -> str:
    slug = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in tag)[:MAX_SLUG_CHARS].strip("-.")
    return f"{slug or 'dataflow'}-{hashlib.sha256(f'{tag} {execution}'.encode()).hexdigest()[:12]}"


# ---- endpoints


def routes(service: Service) -> list[BaseRoute]:
    """Return the routes of DfAnalyzer. Clients send a double slash: the default DFA_URL ends with one."""
    ingest = Ingest(service.home, PROTOCOL, lambda key: DataflowSource())
    add_ingest(service, ingest)

    def endpoint(action: str) -> Endpoint:
        async def receive_message(request: Request) -> Response:
            """Take a message of a DfAnalyzer client; no token is needed on a port of `--also-listen`."""
            message = await read_request(request, action)
            key = source_key(message.body)
            if key:
                message.body = await run_in_threadpool(lambda: ingest.source(key).state.redact_rows(message.body))
            await keep(service, ingest, key, message)
            if action == DATAFLOW and key:  # tasks may have come before the names of their columns
                await run_in_threadpool(lambda: ingest.rewrite(key, ingest.source(key).state.redact_rows))
            return json_response(message.body) if message.body is not None else Response()

        return receive_message

    async def query(request: Request) -> Response:
        """Answer a query of DfAnalyzer's query interface with the rows of data sets that its clients sent."""
        fmt = request.query_params.get("format", "")
        media = negotiate(request.headers.get("accept", ""), fmt, QUERY_FORMATS)
        specification = parse_specification((await read_body(request)).decode("utf-8", "replace"))
        dataflow, execution = request.path_params["dataflow"], request.path_params["execution"]

        def answer() -> bytes:
            table = find_data_sets(ingest, dataflow, execution).answer(specification)
            return table.to_json().encode() if media == JSON else encode(table, media)

        body = await run_in_threadpool(answer)
        return Response(body, headers={"Vary": "Accept", "Cache-Control": "no-store"}, media_type=content_type(media))

    return [
        route(
            "/query_interface/{dataflow}/{execution:path}",
            query,
            methods=["POST"],
            max_body=MAX_QUERY_BYTES,
            merge_slashes=True,
        ),
        *_recording_routes(endpoint),
    ]


def find_data_sets(ingest: Ingest[DataflowSource], dataflow: str, execution: str) -> DataSets:
    """Return the data sets of a dataflow. DfAnalyzer's number of a dataflow stands for all executions."""
    key = dataflow.lower()
    if not ingest.log.size(key):
        raise Problem(404, "DataflowNotFound", f"No client sent a dataflow {dataflow[:100]!r} to this service.")
    source = ingest.source(key)
    with source.lock:
        data_sets = source.state.data_sets("" if execution.isdecimal() else execution)
    if not data_sets.columns:
        detail = f"The dataflow {dataflow[:100]!r} has no execution {execution[:100]!r}. A number stands for all."
        raise Problem(404, "ExecutionNotFound", detail)
    return data_sets


def _recording_routes(endpoint: Callable[[str], Endpoint]) -> list[BaseRoute]:
    return [
        route(
            f"/pde/{action}/json",
            endpoint(action),
            methods=["POST"],
            access="write",
            content_types=[JSON],
            merge_slashes=True,
            open_on_further_ports=True,
            protocol=PROTOCOL,
        )
        for action in (DATAFLOW, TASK)
    ]
