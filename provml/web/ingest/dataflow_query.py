"""DfAnalyzer's query interface: rows of data sets, joined along the transformations between them.

    mapping(physical)
    source(itrainingmodel)
    target(otrainingmodel)
    projection(itrainingmodel.learning_rate; otrainingmodel.epoch; otrainingmodel.loss)
    selection(otrainingmodel.loss < 0.5)

The physical mapping joins rows by tasks: those that a task reads with those that it writes. The logical one joins rows
of one execution that are equal in the attributes that both data sets have. The hybrid one asks for both.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Literal, NamedTuple, cast
from urllib.parse import unquote_plus

from provml.answers import Answer
from provml.compat.dfa_lib_python.dataflow import Dataflow
from provml.compat.dfa_lib_python.messages import (
    Message,
    SentRows,
    dependencies_of,
    objects_in,
    rows_of,
    sub_id_of,
    task_key,
)
from provml.compat.dfa_lib_python.set_type import SetType
from provml.web.problems import Problem

MAX_ROWS = 100_000
"""Rows of an answer, and of each step of a join."""
MAX_SHOWN = 30
PARTS = ("mapping", "source", "target", "include", "exclude", "projection", "selection")
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": le, ">=": ge, "<>": ne, "!=": ne, "==": eq, "=": eq, "<": lt, ">": gt,
}  # fmt: skip
_NAME = r"[^\s.;,()<>=!'\"]+"
_KEYWORD = rf"\b(?:{'|'.join(PARTS)})\s*\("
_PART = re.compile(rf"\b({'|'.join(PARTS)})\s*\((.*?)\)\s*(?={_KEYWORD}|\Z)", re.IGNORECASE | re.DOTALL)
_ATTRIBUTE = re.compile(rf"({_NAME})\.({_NAME})")
_CONDITION = re.compile(rf"({_NAME})\.({_NAME})\s*(<=|>=|<>|!=|==|=|<|>)\s*(.+)", re.DOTALL)


def invalid(detail: str) -> Problem:
    """Return the problem of a query that cannot be executed."""
    return Problem(400, "InvalidDataflowQuery", detail)


# ---- what is asked


class Attribute(NamedTuple):
    """An attribute of a data set, both in lower case."""

    data_set: str
    name: str

    def __str__(self) -> str:
        return f"{self.data_set}.{self.name}"


class Condition(NamedTuple):
    """A comparison of an attribute with another one, or with a text."""

    attribute: Attribute
    operator: str
    value: Attribute | str

    @property
    def attributes(self) -> list[Attribute]:
        """The attributes that are compared."""
        return [self.attribute, *([self.value] if isinstance(self.value, Attribute) else [])]


@dataclass(frozen=True)
class Specification:
    """A query: the data sets at the ends of the path, those on it, the columns and the conditions."""

    mapping: Literal["physical", "logical", "hybrid"] = "physical"
    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    projection: tuple[Attribute, ...] = ()
    selection: tuple[Condition, ...] = ()

    @property
    def attributes(self) -> list[Attribute]:
        """All attributes that the query names."""
        return [*self.projection, *(item for condition in self.selection for item in condition.attributes)]


def parse_specification(text: str) -> Specification:
    """Parse a query, also in the form `message=…` that DfAnalyzer's own pages send."""
    if text.startswith("message="):
        text = unquote_plus(text.removeprefix("message="))
    parts: dict[str, list[str]] = defaultdict(list)
    end = 0
    for match in _PART.finditer(text):
        if text[end : match.start()].strip():
            break
        parts[match[1].lower()] += [item.strip() for item in re.split("[;\n]", match[2]) if item.strip()]
        end = match.end()
    if text[end:].strip() or not parts:
        reason = f"{text[end:].strip()[:80]!r} is not a part of a query" if text.strip() else "The query is empty"
        raise invalid(f"{reason}. A query has the parts {', '.join(f'{name}(…)' for name in PARTS)}.")
    mapping = (parts["mapping"] or ["physical"])[-1].lower()
    if mapping not in ("physical", "logical", "hybrid"):
        raise invalid(f"mapping takes physical, logical or hybrid, not {mapping[:50]!r}.")

    def names(part: str) -> tuple[str, ...]:
        return tuple(name.strip().lower() for item in parts[part] for name in item.split(",") if name.strip())

    return Specification(
        cast(Any, mapping),
        names("source"),
        names("target"),
        names("include"),
        names("exclude"),
        tuple(map(_attribute, parts["projection"])),
        tuple(map(_condition, parts["selection"])),
    )


def _attribute(text: str) -> Attribute:
    match = _ATTRIBUTE.fullmatch(text)
    if match is None:
        raise invalid(f"{text[:80]!r} is not an attribute. Write dataset.attribute, separated by semicolons.")
    return Attribute(match[1].lower(), match[2].lower())


def _condition(text: str) -> Condition:
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise invalid(f"{text[:80]!r} is not a condition. Write dataset.attribute > 0.5, separated by semicolons.")
    value = match[4].strip()
    other = _ATTRIBUTE.fullmatch(value) if _number(value) is None else None
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    expected = Attribute(other[1].lower(), other[2].lower()) if other else value[1:-1] if is_quoted else value
    return Condition(Attribute(match[1].lower(), match[2].lower()), match[3], expected)


# ---- what was received


class Task(NamedTuple):
    """A task of an execution."""

    execution: str
    transformation: str
    id: str
    sub_id: str


class Row(NamedTuple):
    """A row of a data set: the task that sent it, and its values by the names of attributes in lower case."""

    task: Task
    values: Mapping[str, str]


class Step(NamedTuple):
    """A transformation between a data set that it reads and one that it writes."""

    source: str
    transformation: str
    target: str


@dataclass
class DataSets:
    """The rows of the data sets of a dataflow, and the transformations between them."""

    columns: dict[str, dict[str, bool]] = field(default_factory=dict)
    """The attributes of each data set, and whether they are numeric."""
    rows: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    steps: dict[Step, None] = field(default_factory=dict)
    _readers: dict[tuple[str, str, str], dict[Task, None]] = field(default_factory=lambda: defaultdict(dict))
    """The tasks that depend on a task, by its execution, transformation and id."""

    def add_execution(self, name: str, dataflow: Dataflow, messages: Iterable[Message], *, repeats_rows: bool) -> None:
        """Add the rows of an execution, and what its dataflow declares.

        With `repeats_rows`, rows that a task has sent before, at the same place of a message, are left out.
        """
        self._declare(dataflow)
        columns = {
            item._tag: [column.name.lower() for column in item.columns]
            for transformation in dataflow.merged()
            for item in transformation.set_objects
        }
        sent_rows = SentRows()
        for message in messages:
            transformation, task_id = task_key(message)
            task = Task(name, transformation, task_id, sub_id_of(message))
            for tag, other_id in dependencies_of(message):
                self._readers[name, tag, other_id][task] = None
            for item in objects_in(message.get("sets")):
                tag, rows = str(item.get("tag", "")).lower(), rows_of(item)
                for row in sent_rows.new((task, tag), rows) if repeats_rows else rows:
                    self.rows[tag].append(Row(task, dict(zip(columns.get(tag, ()), map(str, row), strict=False))))

    def _declare(self, dataflow: Dataflow) -> None:
        for transformation in dataflow.merged():
            sides: dict[SetType, list[str]] = {
                side: [item._tag for item in transformation.sets_of(side)] for side in (SetType.INPUT, SetType.OUTPUT)
            }
            for item in transformation.set_objects:
                columns = self.columns.setdefault(item._tag, {})
                columns |= {column.name.lower(): column.type == "NUMERIC" for column in item.columns}
            for source in sides[SetType.INPUT]:
                for target in sides[SetType.OUTPUT]:
                    self.steps[Step(source, transformation._tag, target)] = None

    def readers(self, row: Row, transformation: str) -> list[Task]:
        """Return the tasks of a transformation that read a row: the one that sent it, or those that depend on it."""
        if row.task.transformation == transformation:
            return [row.task]
        tasks = self._readers.get((row.task.execution, row.task.transformation, row.task.id), {})
        return [task for task in tasks if task.transformation == transformation]

    # ---- paths

    def check(self, specification: Specification) -> None:
        """Raise a problem for a data set or an attribute that the dataflow has not."""
        ends = (*specification.sources, *specification.targets, *specification.includes, *specification.excludes)
        for name in (*ends, *(attribute.data_set for attribute in specification.attributes)):
            if name not in self.columns:
                raise invalid(f"The dataflow has no data set {name[:80]!r}. It has {_listed(self.columns)}.")
        for attribute in specification.attributes:
            if attribute.name not in self.columns[attribute.data_set]:
                names = _listed(self.columns[attribute.data_set])
                raise invalid(f"{attribute.data_set} has no attribute {attribute.name[:80]!r}. It has {names}.")

    def path(self, specification: Specification) -> tuple[list[str], list[Step]]:
        """Return the data sets that a query joins, and the steps between them."""
        needed = dict.fromkeys((*specification.includes, *(item.data_set for item in specification.attributes)))
        sources = specification.sources or specification.targets
        targets = specification.targets or specification.sources
        if not sources:
            if len(needed) == 1:
                return list(needed), []
            raise invalid("Name the ends of the path: source(…) and target(…).")
        steps: dict[Step, None] = {}
        names: dict[str, None] = {}
        for source in sources:
            for target in targets:
                for step in self._chain(source, target, [*needed], set(specification.excludes)):
                    steps[step] = None
                    names |= dict.fromkeys((step.source, step.target))
        names |= dict.fromkeys((*sources, *targets))
        missing = [name for name in needed if name not in names]
        connected = _connected(next(iter(names)), steps)
        missing += [name for name in names if name not in connected]
        if missing:
            ends = f"{', '.join(sources)} to {', '.join(targets)}"
            raise invalid(f"{missing[0]} is not on a path from {ends}. Name other ends, or exclude less.")
        return list(names), list(steps)

    def _chain(self, source: str, target: str, between: Sequence[str], excluded: set[str]) -> list[Step]:
        """Return the shortest path from a data set to another one by those between them; empty if there is none."""
        distances = {name: path for name in between if (path := self._shortest(source, name, excluded)) is not None}
        stops = [name for name in sorted(distances, key=lambda name: len(distances[name])) if name != target]
        steps: list[Step] = []
        for stop in (*stops, target):
            if stop != target and self._shortest(stop, target, excluded) is None:
                continue
            path = self._shortest(source, stop, excluded)
            if path is None:
                return []
            steps += path
            source = stop
        return steps

    def _shortest(self, source: str, target: str, excluded: set[str]) -> list[Step] | None:
        paths: dict[str, list[Step]] = {source: []}
        queue = deque([source])
        while queue:
            name = queue.popleft()
            if name == target:
                return paths[name]
            for step in self.steps:
                if step.source == name and step.target not in paths and step.target not in excluded:
                    paths[step.target] = [*paths[name], step]
                    queue.append(step.target)
        return None

    # ---- the answer

    def answer(self, specification: Specification) -> Answer:
        """Return the rows that a query asks for."""
        self.check(specification)
        names, steps = self.path(specification)
        combinations = self._joined(names, steps, specification)
        columns = specification.projection or tuple(
            Attribute(name, column) for name in names for column in self.columns[name]
        )
        rows = [tuple(self._value(row, column) for column in columns) for row in combinations]
        return Answer(list(map(str, columns)), rows)

    def _value(self, combination: Mapping[str, Row], attribute: Attribute) -> object:
        text = combination[attribute.data_set].values.get(attribute.name)
        number = _number(text) if self.columns[attribute.data_set][attribute.name] else None
        return text if number is None else number

    def _joined(
        self, names: Sequence[str], steps: Iterable[Step], specification: Specification
    ) -> list[dict[str, Row]]:
        first = names[0]
        combinations = [{first: row} for row in self._selected(first, specification)]
        joined, waiting = {first}, list(steps)
        while waiting:
            step = next(item for item in waiting if item.source in joined or item.target in joined)
            waiting.remove(step)
            combinations = list(self._extended(combinations, step, joined, specification))
            joined |= {step.source, step.target}
        return [row for row in combinations if all(_holds(item, row) for item in specification.selection)]

    def _selected(self, name: str, specification: Specification) -> list[Row]:
        """Return the rows of a data set that fulfil the conditions that are about it alone."""
        conditions = [
            item for item in specification.selection if all(attribute.data_set == name for attribute in item.attributes)
        ]
        return [row for row in self.rows[name] if all(_holds(item, {name: row}) for item in conditions)]

    def _extended(
        self, combinations: list[dict[str, Row]], step: Step, joined: set[str], specification: Specification
    ) -> Iterator[dict[str, Row]]:
        """Yield the combinations with the rows of a further data set that fit to them."""
        keys_of = self._keys_of(step, specification)
        present, other = (step.source, step.target) if step.source in joined else (step.target, step.source)
        if other in joined:
            for combination in combinations:
                if set(keys_of(present, combination[present])) & set(keys_of(other, combination[other])):
                    yield combination
            return
        index: dict[Hashable, list[Row]] = defaultdict(list)
        for row in self._selected(other, specification):
            for key in keys_of(other, row):
                index[key].append(row)
        count = 0
        for combination in combinations:
            for key in keys_of(present, combination[present]):
                for row in index.get(key, ()):
                    count += 1
                    if count > MAX_ROWS:
                        detail = f"The query was stopped: {MAX_ROWS:,} rows are joined. Add a selection."
                        raise Problem(413, "ResultTooLarge", detail)
                    yield {**combination, other: row}

    def _keys_of(self, step: Step, specification: Specification) -> Callable[[str, Row], Iterable[Hashable]]:
        """Return a function from a row at an end of a step to keys: rows with an equal one fit together."""
        shared = sorted(self.columns[step.source].keys() & self.columns[step.target].keys())
        if specification.mapping == "logical" and not shared:
            detail = f"{step.source} and {step.target} have no attribute in common. Use mapping(physical)."
            raise invalid(detail)
        is_logical, is_physical = specification.mapping != "physical", specification.mapping != "logical"

        def keys(name: str, row: Row) -> Iterable[Hashable]:
            values = tuple(_comparable(row.values.get(column)) for column in shared) if is_logical else ()
            if not is_physical:
                return [(row.task.execution, values)]
            if name == step.source:
                return [(task, values) for task in self.readers(row, step.transformation)]
            return [(row.task, values)] if row.task.transformation == step.transformation else ()

        return keys


def _connected(start: str, steps: Iterable[Step]) -> set[str]:
    """Return the data sets that steps connect with a data set, in both directions."""
    names, waiting = {start}, [start]
    neighbours: dict[str, set[str]] = defaultdict(set)
    for step in steps:
        neighbours[step.source].add(step.target)
        neighbours[step.target].add(step.source)
    while waiting:
        new = neighbours[waiting.pop()] - names
        names |= new
        waiting += new
    return names


def _listed(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:MAX_SHOWN]) + (", …" if len(listed) > MAX_SHOWN else "") or "none"


def _holds(condition: Condition, combination: Mapping[str, Row]) -> bool:
    texts = [
        combination[item.data_set].values.get(item.name) if isinstance(item, Attribute) else item
        for item in (condition.attribute, condition.value)
    ]
    if None in texts:
        return False
    values = [_comparable(text) for text in texts]
    if not all(isinstance(value, float) for value in values):
        values = list(texts)
    return OPERATORS[condition.operator](*values)


def _comparable(text: str | None) -> float | str | None:
    number = _number(text)
    return text if number is None or math.isnan(number) else float(number)


def _number(text: str | None) -> int | float | None:
    """Return the number that a text is; None if it is not one."""
    for kind in (int, float):
        try:
            return kind(text or "") if "_" not in (text or "") else None
        except ValueError:
            continue
    return None
