"""A database dump of DNNProv, Keras-Prov or CNNProv (MonetDB), as journals of a home.

The dumps do not say which run a row belongs to: all runs point to the same tasks. A run begins with the row of
hyperparameters of its training; what was recorded from then on belongs to it, and so do the filters just before. The
originals count epochs from 0, write no number as -9999999, and write an adaptation that changes nothing; here epochs
count from 1, no number is NaN, and such adaptations are left out. What a dump does not tell (the technique of an
adaptation, the model's file) is not made up.
"""

from __future__ import annotations

import hashlib
import math
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from provml import event
from provml.errors import BrokenFile

Cell = str | float | int | None
Table = list[dict[str, Cell]]
NO_NUMBER = -9999999
MADE, GIVEN = "model", "training data"
"""A training was given data and made a model also where a dump tells nothing else of them."""
_CREATE = re.compile(r'CREATE TABLE "(?P<schema>[^"]+)"\."(?P<table>[^"]+)" \((?P<body>.*?)^\);', re.M | re.S)
_COLUMN = re.compile(r'^\s+"(?P<name>[^"]+)"\s+(?P<type>[A-Z]+)', re.M)
_COPY = re.compile(r'COPY (?P<count>\d+) RECORDS INTO "(?P<schema>[^"]+)"\."(?P<table>[^"]+)" FROM stdin')
_CELL = re.compile(r'"((?:[^"\\]|\\.)*)"|(\S+)')
_BOOKKEEPING = re.compile(r"id|timestamp|\w+_task_id")


@dataclass
class Training:
    """The rows of one run."""

    began: float
    settings: dict[str, Cell] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)

    def rows(self, name: str) -> Table:
        """Its rows of a set, in the order of their times."""
        return self.tables.get(name, [])


def tables(path: Path) -> dict[str, dict[str, Table]]:
    """The rows of each table of each schema of a dump, numbers as numbers."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BrokenFile(f"it cannot be read ({error})", "Give a dump of MonetDB.", file=str(path)) from error
    made = {(m["schema"], m["table"]): dict(_COLUMN.findall(m["body"])) for m in _CREATE.finditer(text)}
    found: dict[str, dict[str, Table]] = {}
    lines = text.splitlines()
    for at, line in enumerate(lines):
        copy = _COPY.match(line)
        if copy is None:
            continue
        key = (copy["schema"], copy["table"])
        rows = found.setdefault(key[0], {})[key[1]] = []
        for number in range(at + 1, at + 1 + int(copy["count"])):
            rows.append(_row(path, number + 1, lines[number] if number < len(lines) else "", made.get(key, {})))
    if not found:
        raise BrokenFile("it holds no rows of a database", "Give a dump of MonetDB.", file=str(path))
    return found


def _row(path: Path, number: int, line: str, columns: dict[str, str]) -> dict[str, Cell]:
    cells = _CELL.findall(line)
    if len(cells) != len(columns):
        reason = f"a row has {len(cells)} values for {len(columns)} columns"
        raise BrokenFile(reason, "Make the dump again, or mend the row.", file=str(path), line=number)
    row: dict[str, Cell] = {}
    for (name, kind), (quoted, bare) in zip(columns.items(), cells, strict=True):
        try:
            row[name] = _cell(kind, quoted, bare)
        except ValueError as error:
            reason = f"{name} is no number ({bare or quoted!r})"
            raise BrokenFile(reason, "Mend the row.", file=str(path), line=number) from error
    return row


def _cell(kind: str, quoted: str, bare: str) -> Cell:
    """A value by the type of its column; a whole number stays one, also where the column holds doubles."""
    if bare == "NULL":
        return None
    if kind not in ("INTEGER", "DOUBLE", "BIGINT"):
        return re.sub(r"\\(.)", r"\1", quoted) or bare
    number = float(bare)
    if number == NO_NUMBER:
        return math.nan
    return int(bare) if re.fullmatch(r"-?\d+", bare) else number


# ---- whose row it is


def trainings(schema: dict[str, Table]) -> list[Training]:
    """The runs of a dataflow, told apart by time."""
    starts = sorted(schema.get("ds_itrainingmodel", []), key=_time)
    found = [Training(_time(row), row) for row in starts]
    if not found:
        return []
    times = [one.began for one in found]
    for name, rows in schema.items():
        kind = name.removeprefix("ds_")
        if kind == "itrainingmodel":
            continue
        for row in sorted(rows, key=_time):
            place = bisect_right(times, _time(row))
            # a filter comes before the training that it is for, all else after the beginning of its training
            index = min(place, len(found) - 1) if kind in ("ifilters", "ofilters") else max(place - 1, 0)
            found[index].tables.setdefault(kind, []).append(row)
    return found


def _time(row: dict[str, Cell]) -> float:
    return float(row["timestamp"] or 0.0)


# ---- a run as events


def journals(path: Path, *, model: str = "") -> dict[str, list[event.AnyEvent]]:
    """The events of each run of a dump, by the run's id; the model's name is the dataflow's unless it is given."""
    found = {}
    for tag, schema in tables(path).items():
        for one in trainings(schema):
            stamp = f"{datetime.fromtimestamp(one.began, UTC):%Y%m%d-%H%M%S}"
            run = f"{stamp}-{hashlib.sha256(f'{tag} {one.began!r}'.encode()).hexdigest()[:6]}"
            found[run] = list(_Telling(path, tag, run, one, model or tag).all())
    return found


class _Telling:
    """One run on its way to events."""

    def __init__(self, path: Path, tag: str, run: str, rows: Training, model: str) -> None:
        self.path = path
        self.tag = tag
        self.run = run
        self.rows = rows
        self.model = model
        self.now = rows.began
        self.is_validated = False

    def all(self) -> Iterator[event.AnyEvent]:
        rows = self.rows
        filters = [*rows.rows("ifilters"), *rows.rows("ofilters")]
        began = min([rows.began, *map(_time, filters)])
        yield event.Run(event.VERSION, self.run, "dnnprov", self.tag, began, self.model)
        data = ""
        for row in rows.rows("ifilters"):
            data = str(row["dataset_name"])
            yield event.Data(data, "dataset", data)
        if rows.rows("ofilters"):
            filtered = f"{data or 'dataset'}-filtered"
            yield from self.filters(data, filtered)
            data = filtered
        if not data:
            data = GIVEN
            yield event.Data(data, "dataset", data)
        yield from self.training([data])
        yield from self.test()

    def filters(self, source: str, made: str) -> Iterator[event.AnyEvent]:
        """The filters on the data; each is a step, the last one makes what is trained on."""
        for number, row in enumerate(self.rows.rows("ofilters"), 1):
            at = "filters" if number == 1 else f"filters-{number}"
            said = _settings(row)
            starts = [_time(one) for one in self.rows.rows("ifilters")]
            start = min([_time(row), *starts])
            yield event.Begin(at, "filter", start, "filters", using=[source] if source else [], values=said)
            yield event.Data(made, "dataset", made)
            yield event.Produced(at, made)
            yield event.Done(at, _time(row), _time(row) - start)
            source = made

    def training(self, using: list[str]) -> Iterator[event.AnyEvent]:
        rows = self.rows
        at = "training"
        yield event.Begin(at, "training", rows.began, "training", using=using, values=_settings(rows.settings))
        for ref in using:
            yield event.Used(at, ref, "training")
        layers = [self.layer(row) for row in rows.rows("ilayers")]
        if layers:
            yield event.Layers(at, layers)
        epochs = rows.rows("otrainingmodel")
        self.is_validated = any(name.startswith("val_") for row in epochs for name in row)
        if self.is_validated:
            yield event.Begin("validation", "validation", rows.began, "validation")
        changes = list(self.adaptations())
        for row in epochs:
            number = int(_number(row["epoch"])) + 1
            while changes and int(changes[0].at.partition("/")[2]) <= number:
                yield changes.pop(0)  # the rate is changed as the epoch begins, and is in force in it
            yield from self.epoch(row, number)
        yield from changes
        self.check(epochs)
        if epochs:
            if self.is_validated:
                yield event.Done("validation", self.now, self.now - rows.began)
            yield event.Data(MADE, "model", self.model or self.tag)  # of which nothing else was kept
            yield event.Produced(at, MADE)
            yield event.Done(at, self.now, self.now - rows.began)

    def layer(self, row: dict[str, Cell]) -> dict[str, object]:
        """A layer has a name, and one setting: the kind of it and its value."""
        kind, held = str(row["attribute_type"]), row["value"]
        try:
            return {"name": str(row["name"]), "type": kind, kind: float(str(held))}
        except ValueError:
            return {"name": str(row["name"]), "type": kind, kind: str(held)}

    def epoch(self, row: dict[str, Cell], number: int) -> Iterator[event.AnyEvent]:
        end, seconds = _time(row), float(str(row["elapsed_time"]))
        at = f"training/{number}"
        yield event.Begin(at, "epoch", end - seconds, index=number)
        measures = {
            name: value
            for name, value in row.items()
            if not _BOOKKEEPING.fullmatch(name) and name not in ("epoch", "elapsed_time") and value is not None
        }
        own = {n: _held(v) for n, v in measures.items() if not n.startswith("val_")}
        if own:
            yield event.Measured(at, own)
        seen = {n.removeprefix("val_"): _held(v) for n, v in measures.items() if n.startswith("val_")}
        if seen:
            twin = f"validation/{number}"
            yield event.Begin(twin, "epoch", end, index=number, during=at)
            yield event.Measured(twin, seen)
            yield event.Done(twin, end, 0.0)
        yield event.Done(at, end, seconds)
        self.now = end

    def adaptations(self) -> Iterator[event.Adapted]:
        """Those that changed something, by the epoch in which they came into force."""
        rate = float(_number(self.rows.settings.get("learning_rate")))
        rows = sorted(self.rows.rows("oadaptation"), key=lambda row: (_number(row["epoch_id"]), _time(row)))
        for row in rows:
            new = float(_number(row["new_lrate"]))
            if math.isclose(new, rate, rel_tol=1e-6):
                continue
            rate = new
            at = f"training/{int(_number(row['epoch_id'])) + 1}"
            yield event.Adapted(at, _time(row), {"learning_rate": new})

    def check(self, epochs: Table) -> None:
        """Trainings that ran at the same time cannot be told apart: then an epoch is there twice."""
        numbers = [_number(row["epoch"]) for row in epochs]
        if len(set(numbers)) != len(numbers):
            when = datetime.fromtimestamp(self.rows.began, UTC)
            reason = f"the training of {when:%Y-%m-%d %H:%M:%S} has an epoch twice, so two ran at the same time"
            raise BrokenFile(reason, "Runs of such a dump cannot be told apart.", file=str(self.path))

    def test(self) -> Iterator[event.AnyEvent]:
        """The test, and the end; a run with neither a test nor all of its epochs is lost, and has no end."""
        for row in self.rows.rows("otestingmodel"):
            yield event.Begin("evaluation", "evaluation", self.now, "evaluation")
            if self.rows.rows("otrainingmodel"):
                yield event.Used("evaluation", MADE, "model")
            yield event.Measured("evaluation", {n: _held(v) for n, v in row.items() if not _BOOKKEEPING.fullmatch(n)})
            yield event.Done("evaluation", _time(row), _time(row) - self.now)
            self.now = _time(row)
        wanted = _number(self.rows.settings.get("num_epochs"))
        if self.rows.rows("otestingmodel") or len(self.rows.rows("otrainingmodel")) >= wanted:
            yield event.End(self.now)


def _number(value: Cell) -> float:
    return math.nan if value is None else float(value)


def _settings(row: dict[str, Cell]) -> event.Values:
    """The parameters in a row: all but keys and times."""
    return {
        name: value if isinstance(value, (int, str)) else _held(value)
        for name, value in row.items()
        if not _BOOKKEEPING.fullmatch(name) and value is not None
    }


def _held(value: Cell) -> event.Value:
    """A number as a journal holds it."""
    number = _number(value)
    return ["double", "NaN"] if math.isnan(number) else number


def import_dump(path: str | Path, home: str | Path, *, model: str = "") -> list[str]:
    """Write each run of a dump as a journal of a home; its ids. A run that is there already is left as it is."""
    found = journals(Path(path), model=model)
    for run, events in found.items():
        target = Path(home) / "runs" / run / "dnnprov.jsonl"
        if target.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_suffix(".part")
        temporary.write_bytes(b"".join(map(event.encode, events)))
        temporary.replace(target)
    return list(found)
