"""Query files: their headers, read and checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from provml.catalog.question import TOKEN, TYPES, Parameter, Query
from provml.errors import BrokenFile, WrongParameter

HEADER = {
    "id", "summary", "class", "scope", "timing", "source", "params", "columns", "data", "direction", "plot", "needs"
}  # fmt: skip
PARAMETER = {"type", "help", "optional", "default", "many", "example", "of", "names", "min"}
OF = ("run", "model", "dataset")
"""What an IRI can be that of, so that a name will do."""
NAMES = ("model", "measure", "hyperparameter", "person", "content")
"""What a text can be the name of, so that one that nothing has is told."""
NUMBERS = ("integer", "double")
PLOT = {"x", "y", "by", "named", "unit"}
_COUNT = re.compile(r"\b(?:limit|offset)\s+\Z", re.IGNORECASE)
"""What stands before a parameter that is a count of rows."""


def read_query(path: Path) -> Query:
    """A query file, checked: its header, and that its parameters are those that its text uses."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BrokenFile("it is not text in UTF-8", "Write it anew as such.", file=str(path)) from error
    except OSError as error:
        raise BrokenFile(str(error.strerror or error).lower(), "Check the path.", file=str(path)) from error
    said = _header(path, text)
    params = {name: _parameter(path, text, name, spec) for name, spec in _mapping(path, text, said, "params").items()}
    used = {match["name"]: match.start() for match in TOKEN.finditer(text) if match["name"]}
    counts = {match["name"] for match in TOKEN.finditer(text) if _COUNT.search(text, match.start() - 20, match.start())}
    for name, place in used.items():
        if name not in params:
            line = text.count("\n", 0, place) + 1
            raise BrokenFile(f"${name} is not declared", "Declare it in the header.", file=str(path), line=line)
    for name, one in list(params.items()):
        if name not in used:
            raise _broken(path, text, name, f"${name} is declared and not used", "Use it, or take it out.")
        if (one.optional or one.many) and not re.search(rf"\{{\s*\${name}\s*\}}", text):
            advice = f"Write VALUES ?{name} {{ ${name} }} and use ?{name}."
            raise _broken(path, text, name, f"${name} may be absent or many", advice)
        if isinstance(one.min, str) and not _is_range(params.get(one.min), one):
            advice = "Give a number, or the name of another parameter that is one number."
            raise _broken(path, text, name, f"the parameter {name} has min: {one.min!r}", advice)
        if one.type == "integer" and one.min is None and name in counts:
            params[name] = replace(one, min=0)
        _check_default(path, text, params[name])
    columns = {name: str(value) for name, value in _mapping(path, text, said, "columns").items()}
    about = {key: value for key, value in said.items() if key not in ("id", "summary", "params", "columns")}
    if "plot" in about:
        about["plot"] = _plot(path, text, about["plot"], columns, params)
    return Query(str(said["id"]), str(said["summary"]), text, path, params, columns, about)


def _header(path: Path, text: str) -> dict[str, Any]:
    """The YAML of the lines that begin with `#+`."""
    import yaml

    lines = [line[2:].removeprefix(" ") for line in text.splitlines() if line.startswith("#+")]
    try:
        # The loader in C, where there is one, is several times as fast, and the command line reads every header.
        said = yaml.load("\n".join(lines), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)) or {}
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else None
        reason = f"its header is no YAML ({getattr(error, 'problem', None) or error})"
        raise BrokenFile(reason, "Mend the lines with #+.", file=str(path), line=line) from error
    if not isinstance(said, dict) or not said.get("id") or not said.get("summary"):
        advice = "Begin it with `#+ id: …` and `#+ summary: …`."
        raise BrokenFile("its header has no id and summary", advice, file=str(path))
    extra = sorted(set(said) - HEADER, key=str)
    if extra:
        raise _broken(path, text, extra[0], f"its header says {extra[0]}", f"A header has {', '.join(sorted(HEADER))}.")
    return said


def _mapping(path: Path, text: str, said: Mapping[str, Any], word: str) -> dict[str, Any]:
    """What a header says of each parameter or column, by name."""
    held = said.get(word) or {}
    if not isinstance(held, dict):
        wanted = "{name: {type: string}}" if word == "params" else "{name: string}"
        raise _broken(path, text, word, f"its {word} are no names with what they are", f"Write `#+ {word}: {wanted}`.")
    return {str(key): value for key, value in held.items()}


def _parameter(path: Path, text: str, name: str, spec: Any) -> Parameter:
    spec = spec or {}
    kind = spec.get("type") if isinstance(spec, dict) else None
    if not isinstance(kind, str) or kind not in TYPES or set(spec) - PARAMETER:
        advice = f"Give a type of {', '.join(TYPES)}; it may have {', '.join(sorted(PARAMETER))}."
        raise _broken(path, text, name, f"the parameter {name} is not well declared", advice)
    for key, known, of_type in (("of", OF, "iri"), ("names", NAMES, "string")):
        if spec.get(key) and (spec[key] not in known or kind != of_type):
            advice = f"Give one of {', '.join(known)}, with the type {of_type}."
            raise _broken(path, text, name, f"the parameter {name} has {key}: {spec[key]}", advice)
    for key in ("optional", "many"):
        if not isinstance(spec.get(key, False), bool):
            raise _broken(path, text, name, f"the parameter {name} has {key}: {spec[key]!r}", "Give true or false.")
    least = spec.get("min")
    if least is not None and (not isinstance(least, (*TYPES[kind][1], str)) or kind not in NUMBERS):
        advice = "Give a number, with the type integer or double."
        raise _broken(path, text, name, f"the parameter {name} has min: {least!r}", advice)
    return Parameter(name=name, **spec)


def _is_range(first: Parameter | None, last: Parameter) -> bool:
    """Whether two parameters are one number each, so that one may not be less than the other."""
    return first is not None and first != last and first.type in NUMBERS and not (first.many or last.many)


def _check_default(path: Path, text: str, one: Parameter) -> None:
    try:
        if one.default is not None:
            Query("", "", "", path).written(one, None)
    except WrongParameter as error:
        reason = f"the default of {one.name} is {one.default!r}, not {one.expected}"
        raise _broken(path, text, one.name, reason, "Give another, or none.") from error


def _plot(
    path: Path, text: str, said: Any, columns: Mapping[str, str], params: Mapping[str, Parameter]
) -> dict[str, Any]:
    """What a header says of a curve, with y and by as lists."""
    advice = "Write `#+ plot: {x: epoch, y: loss}`; it may have by, named and unit."
    if not isinstance(said, dict) or not said.get("x") or not said.get("y") or set(said) - PLOT:
        raise _broken(path, text, "plot", "its plot is not well declared", advice)
    lists = {key: held if isinstance(held := said.get(key) or [], list) else [held] for key in ("y", "by")}
    if not all(isinstance(name, str) for name in (said["x"], *lists["y"], *lists["by"], said.get("named") or "")):
        raise _broken(path, text, "plot", "its plot is not well declared", advice)
    for name in (said["x"], *lists["y"], *lists["by"]):
        if name not in columns:
            advice = f"The columns are {', '.join(columns)}."
            raise _broken(path, text, "plot", f"its plot names {name}, which is no column", advice)
    if said.get("named") is not None and said["named"] not in params:
        advice = "`named` is the parameter whose value says what y is."
        raise _broken(path, text, "plot", f"its plot is named by {said['named']}, which is no parameter", advice)
    return {"x": said["x"], **lists, "named": said.get("named", ""), "unit": str(said.get("unit", ""))}


def _broken(path: Path, text: str, word: str, reason: str, advice: str) -> BrokenFile:
    """The error about a word of the header, with its line."""
    whole = re.compile(rf"(?<!\w){re.escape(str(word))}(?!\w)")
    found = (n for n, line in enumerate(text.splitlines(), 1) if line.startswith("#+") and whole.search(line))
    return BrokenFile(reason, advice, file=str(path), line=next(found, None))
