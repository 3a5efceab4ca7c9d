"""Read query files: parse the header, check it, and check that the SPARQL uses the declared parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from provml import paths
from provml.catalog.query import INTENTS, TOKEN, TYPES, Parameter, Query
from provml.errors import FileFormatError, InvalidParameter

NODE_KINDS = ("run", "model", "dataset")
"""Kinds of nodes that an IRI parameter can name."""
NAME_KINDS = ("model", "measure", "hyperparameter", "person", "content")
"""Kinds of names that a text parameter can take, so that a misspelt one is an error."""
ALIASES = {"of": "node_kind", "names": "name_kind", "many": "multiple"}
"""Earlier spellings of the keys of a parameter."""
NUMBERS = ("integer", "double")
_ROW_COUNT = re.compile(r"\b(?:limit|offset)\s+\Z", re.IGNORECASE)
"""The text before a parameter that is a number of rows."""


class Header(msgspec.Struct, forbid_unknown_fields=True):
    """The header of a query file."""

    name: Any
    summary: Any
    aliases: list[str | int] = []
    intent: str | None = None
    params: Any = None
    columns: Any = None
    plot: Any = None
    class_: Any = msgspec.field(name="class", default=None)
    scope: Any = None
    timing: Any = None
    source: Any = None
    data: Any = None
    direction: Any = None
    needs: Any = None


class ParameterHeader(msgspec.Struct, forbid_unknown_fields=True):
    """A parameter in a header."""

    type: str
    help: Any = ""
    optional: bool = False
    default: Any = None
    multiple: bool = False
    example: Any = None
    node_kind: str | None = ""
    name_kind: str | None = ""
    min: int | float | str | None = None


class PlotHeader(msgspec.Struct, forbid_unknown_fields=True):
    """The plot in a header."""

    x: str
    y: str | list[str]
    by: str | list[str] | None = None
    named: str | None = None
    unit: Any = ""


AnyHeader = TypeVar("AnyHeader", Header, ParameterHeader, PlotHeader)


def read_query(path: Path) -> Query:
    """Read and check a query file."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError("not UTF-8 text", "Save it as UTF-8.", file=str(path)) from error
    except OSError as error:
        raise FileFormatError(str(error.strerror or error).lower(), "Check the path.", file=str(path)) from error
    return _Reader(path, text).read()


class _Reader:
    """Read one query file."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.text = text

    def read(self) -> Query:
        """Return the question of the file."""
        data = self._yaml()
        header = self._convert(Header, data, "name", "the header")
        declared = self._names(header.params, "params", "{name: {type: string}}")
        params = {name: self._parameter(name, spec) for name, spec in declared.items()}
        self._check_usage(params)
        params = {name: self._check_parameter(param, params) for name, param in params.items()}
        columns = {name: str(kind) for name, kind in self._names(header.columns, "columns", "{name: string}").items()}
        metadata = {key: value for key, value in data.items() if key not in ("name", "summary", "params", "columns")}
        if self.path.parent == paths.queries() and header.intent not in INTENTS:
            raise self._error("intent", f"the intent is {header.intent!r}", f"Use one of: {', '.join(INTENTS)}.")
        if "plot" in data:
            metadata["plot"] = self._plot(header.plot, columns, params)
        return Query(str(header.name), str(header.summary), self.text, self.path, params, columns, metadata)

    # ---- header

    def _yaml(self) -> dict[str, Any]:
        """Parse the lines that start with `#+`."""
        import yaml

        lines = [line[2:].removeprefix(" ") for line in self.text.splitlines() if line.startswith("#+")]
        try:
            # The loader in C is several times faster, and the command line reads every header.
            data = yaml.load("\n".join(lines), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)) or {}
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            mark = getattr(error, "problem_mark", None)
            line = mark.line + 1 if mark is not None else None
            reason = f"the header is not YAML ({getattr(error, 'problem', None) or error})"
            raise FileFormatError(reason, "Correct the lines with #+.", file=str(self.path), line=line) from error
        if isinstance(data, dict) and "id" in data and "name" not in data:  # the earlier spelling
            data = {"name" if key == "id" else key: value for key, value in data.items()}
        missing = [key for key in ("name", "summary") if not isinstance(data, dict) or not data.get(key)]
        if missing:
            advice = "Start the file with `#+ name: …` and `#+ summary: …`."
            raise FileFormatError(f"the header has no {' and no '.join(missing)}", advice, file=str(self.path))
        return data

    def _convert(self, cls: type[AnyHeader], data: Any, word: str, label: str) -> AnyHeader:
        """Convert a part of the header to its class; `word` is where an error is reported."""
        keys = [field.encode_name for field in msgspec.structs.fields(cls)]
        if not isinstance(data, dict):
            raise self._error(word, f"{label} is not a mapping", f"Keys: {', '.join(keys)}.")
        unknown = next((key for key in data if key not in keys), None)
        if unknown is not None:
            raise self._error(str(unknown), f"{label} has an unknown key {unknown!r}", f"Keys: {', '.join(keys)}.")
        try:
            return msgspec.convert(data, cls)
        except msgspec.ValidationError as error:
            raise self._error(word, f"{label} is invalid ({error})", f"Keys: {', '.join(keys)}.") from error

    def _names(self, data: Any, key: str, example: str) -> dict[str, Any]:
        """Return the parameters or columns of a header by name."""
        if not isinstance(data or {}, dict):
            raise self._error(key, f"{key} is not a mapping of names", f"Write `#+ {key}: {example}`.")
        return {str(name): value for name, value in (data or {}).items()}

    def _error(self, word: str, reason: str, advice: str) -> FileFormatError:
        """Return an error with the line of a word in the header."""
        pattern = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")
        lines = enumerate(self.text.splitlines(), 1)
        numbers = (number for number, line in lines if line.startswith("#+") and pattern.search(line))
        return FileFormatError(reason, advice, file=str(self.path), line=next(numbers, None))

    # ---- parameters

    def _parameter(self, name: str, spec: Any) -> Parameter:
        label = f"the parameter {name}"
        if isinstance(spec, dict):
            spec = {ALIASES.get(key, key): value for key, value in spec.items()}
        header = self._convert(ParameterHeader, spec or {}, name, label)
        if header.type not in TYPES:
            raise self._error(name, f"{label} has type: {header.type}", f"Use one of {', '.join(TYPES)}.")
        for key, kinds, type_ in (("node_kind", NODE_KINDS, "iri"), ("name_kind", NAME_KINDS, "string")):
            kind = getattr(header, key)
            if kind and (kind not in kinds or header.type != type_):
                advice = f"Use one of {', '.join(kinds)}, with the type {type_}."
                raise self._error(name, f"{label} has {key}: {kind}", advice)
        if header.min is not None and not self._is_valid_min(header):
            advice = "Use a number, with the type integer or double."
            raise self._error(name, f"{label} has min: {header.min!r}", advice)
        values = msgspec.structs.asdict(header)
        values.update(node_kind=header.node_kind or "", name_kind=header.name_kind or "")
        return Parameter(name=name, **values)

    @staticmethod
    def _is_valid_min(header: ParameterHeader) -> bool:
        return header.type in NUMBERS and isinstance(header.min, (*TYPES[header.type][1], str))

    def _check_usage(self, params: Mapping[str, Parameter]) -> None:
        """Check that the SPARQL uses the declared parameters and no others."""
        used = {match["name"]: match.start() for match in TOKEN.finditer(self.text) if match["name"]}
        for name, offset in used.items():
            if name not in params:
                line = self.text.count("\n", 0, offset) + 1
                advice = "Declare it in the header."
                raise FileFormatError(f"${name} is not declared", advice, file=str(self.path), line=line)
        for name, param in params.items():
            if name not in used:
                raise self._error(name, f"${name} is declared and not used", "Use it, or remove it.")
            if (param.optional or param.multiple) and not re.search(rf"\{{\s*\${name}\s*\}}", self.text):
                advice = f"Write VALUES ?{name} {{ ${name} }} and use ?{name}."
                raise self._error(name, f"${name} may have no value, or several", advice)

    def _check_parameter(self, param: Parameter, params: Mapping[str, Parameter]) -> Parameter:
        """Check the minimum and the default of a parameter; a number of rows gets the minimum 0."""
        if isinstance(param.min, str) and not _is_range(params.get(param.min), param):
            advice = "Use a number, or the name of another parameter that is a single number."
            raise self._error(param.name, f"the parameter {param.name} has min: {param.min!r}", advice)
        if param.type == "integer" and param.min is None and self._is_row_count(param.name):
            param = replace(param, min=0)
        try:
            if param.default is not None:
                Query("", "", "", self.path).as_sparql(param, None)
        except InvalidParameter as error:
            reason = f"the default of {param.name} is {param.default!r}, not {param.expected}"
            raise self._error(param.name, reason, "Use another, or none.") from error
        return param

    def _is_row_count(self, name: str) -> bool:
        """True if a parameter follows LIMIT or OFFSET."""
        uses = (match.start() for match in TOKEN.finditer(self.text) if match["name"] == name)
        return any(_ROW_COUNT.search(self.text, start - 20, start) for start in uses)

    # ---- plot

    def _plot(self, data: Any, columns: Mapping[str, str], params: Mapping[str, Parameter]) -> dict[str, Any]:
        """Check a plot; return it with y and by as lists."""
        plot = self._convert(PlotHeader, data, "plot", "the plot")
        y, by = _as_list(plot.y), _as_list(plot.by)
        if not plot.x or not y:
            raise self._error("plot", "the plot has no x or y", "Write `#+ plot: {x: epoch, y: loss}`.")
        for name in (plot.x, *y, *by):
            if name not in columns:
                raise self._error(
                    "plot", f"the plot names {name}, which is not a column", f"Columns: {', '.join(columns)}."
                )
        if plot.named is not None and plot.named not in params:
            advice = "`named` is the parameter whose value is the label of y."
            raise self._error("plot", f"the plot has named: {plot.named}, which is not a parameter", advice)
        return {"x": plot.x, "y": y, "by": by, "named": data.get("named", ""), "unit": str(data.get("unit", ""))}


def _as_list(names: str | list[str] | None) -> list[str]:
    return list(names) if isinstance(names, list) else [names] if names else []


def _is_range(lower: Parameter | None, upper: Parameter) -> bool:
    """True if two parameters are single numbers, so that one can be the minimum of the other."""
    return lower is not None and lower != upper and lower.type in NUMBERS and not (lower.multiple or upper.multiple)
