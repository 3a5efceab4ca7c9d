"""The catalog: query files with a header, as questions with parameters that are bound safely.

A file is SPARQL 1.1 that any editor reads, with a YAML header in comments that begin with `#+`. `$name` is a declared
parameter, `?name` a variable. Binding replaces `$name` outside strings, IRIs and comments by a term, never by text, so
a value cannot change a query, and what is shown is what runs.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from provml import resources
from provml.errors import BrokenFile, NoSuchQuery, WrongParameter
from provml.rdf.literal import object_of
from provml.values import IRI, plain

TYPES: dict[str, tuple[str, tuple[type, ...]]] = {
    "string": ("text", (str,)),
    "integer": ("a whole number", (int,)),
    "double": ("a number", (float, int)),
    "boolean": ("true or false", (bool,)),
    "dateTime": ("a datetime", (datetime,)),
    "iri": ("an IRI", (str,)),
}
NUMBERS = ("integer", "double")
HEADER = {
    "id", "summary", "class", "scope", "timing", "source", "params", "columns", "data", "direction", "plot", "needs"
}  # fmt: skip
PARAMETER = {"type", "help", "optional", "default", "many", "example", "of", "names", "min"}
OF = ("run", "model", "dataset")
"""What an IRI can be that of, so that a name will do."""
NAMES = ("model", "measure", "hyperparameter", "person", "content")
"""What a text can be the name of, so that one that nothing has is told."""
ENDLESS = 1_000_000_000
"""A default of so much means all, and is not worth saying to people."""

LARGEST = 2**63
"""Where the whole numbers of the engine end."""
PLOT = {"x", "y", "by", "named", "unit"}
FAMILIES = {
    "q": "One training or many",
    "h": "Hyperparameters, while a training goes on",
    "l": "The whole life cycle, from raw files to models",
    "b": "Beyond the papers",
    "e": "For figures",
}
"""The families of provml's own questions, by the first letter of their ids."""

YOURS = "Yours"
PAPERS = {
    "seed 000": "Pina et al., IPAW 2021",
    "seed 001": "Pina, dissertation, 2020",
    "seed 002": "Souza et al.",
}
"""The papers that the headers name as sources."""
_TOKEN = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"""'
    r"|'''(?:[^'\\]|\\.|'(?!''))*'''"
    r'|"(?:[^"\\\n\r]|\\.)*"'
    r"|'(?:[^'\\\n\r]|\\.)*'"
    r"|<[^<>\"{}|^`\\\x00-\x20]*>"
    r"|#[^\n]*"
    r"|\$(?P<name>\w+)",
    re.DOTALL,
)
_COUNT = re.compile(r"\b(?:limit|offset)\s+\Z", re.IGNORECASE)
"""What stands before a parameter that is a count of rows."""
TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a query."""

    name: str
    type: str
    help: str = ""
    optional: bool = False
    default: Any = None
    many: bool = False
    example: Any = None
    of: str = ""
    names: str = ""
    min: float | str | None = None
    """The least that it may be: a number, or the parameter that it may not be less than."""

    @property
    def expected(self) -> str:
        """What it takes, in words."""
        what = f"the name or IRI of a {self.of}" if self.of else TYPES[self.type][0]
        if self.min is not None:
            what += f" that is not less than {self.min}" if isinstance(self.min, str) else f" from {self.min} on"
        return f"one or more of: {what}" if self.many else what

    @property
    def required(self) -> bool:
        """Whether the query cannot be asked without it."""
        return not self.optional and self.default is None

    def from_text(self, text: str) -> Any:
        """A value typed on a command line."""
        try:
            if self.type == "integer":
                return int(text)
            if self.type == "double":
                return float(text)
            if self.type == "dateTime":
                return datetime.fromisoformat(text)
        except ValueError:
            return text
        return TRUTH.get(text.lower(), text) if self.type == "boolean" else text


@dataclass(frozen=True)
class Query:
    """One question: its words, its parameters, its columns, and its SPARQL."""

    id: str
    summary: str
    text: str
    path: Path
    params: Mapping[str, Parameter] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def family(self) -> str:
        """What kind of question it is; those of users are one family."""
        return FAMILIES.get(self.id[0], YOURS) if self.path.parent == resources.queries() else YOURS

    @property
    def source(self) -> str:
        """The paper that asks it, and where."""
        paper, comma, place = str(self.about.get("source", "")).partition(",")
        return PAPERS.get(paper, paper) + comma + place

    @property
    def needs(self) -> str:
        """What has to be recorded for it to have an answer, where that is not plain."""
        return str(self.about.get("needs", ""))

    @property
    def plot(self) -> Mapping[str, Any] | None:
        """Which of its columns make a curve (x, y, by), which parameter names y (named), and in what unit y is."""
        return self.about.get("plot")

    def given(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values by the names of the parameters: one that is a word of Python may be given as `from_`."""
        found: dict[str, Any] = {}
        for said, value in values.items():
            name = said[:-1] if said not in self.params and said[-1:] == "_" and said[:-1] in self.params else said
            if name in found:
                raise WrongParameter(self.id, name, value, "one value", f"It is given twice, as {name} and {name}_.")
            found[name] = value
        return found

    def bind(self, values: Mapping[str, Any]) -> str:
        """The SPARQL that runs for these values; what does not fit is a clear error."""
        unknown = [name for name in values if name not in self.params]
        if unknown:
            near = difflib.get_close_matches(unknown[0], self.params)
            advice = f"Did you mean {near[0]}?" if near else f"It has {', '.join(self.params) or 'no parameters'}."
            raise WrongParameter(self.id, unknown[0], values[unknown[0]], "", advice)
        written = {name: self._written(one, values.get(name)) for name, one in self.params.items()}
        self._check_ranges(values)

        def put(match: re.Match[str]) -> str:
            return written[match["name"]] if match["name"] else match[0]

        return _TOKEN.sub(put, self.text)

    def _check_ranges(self, values: Mapping[str, Any]) -> None:
        """Refuse a number that is less than the parameter where its range begins: nothing could be the answer."""
        for one in self.params.values():
            if not isinstance(one.min, str):
                continue
            first, last = (self._number(name, values) for name in (one.min, one.name))
            if first is not None and last is not None and last < first:
                advice = f"{one.min} is {first}: give {one.name} as that or more, or change the two about."
                raise WrongParameter(self.id, one.name, last, one.expected, advice)

    def _number(self, name: str, values: Mapping[str, Any]) -> Any:
        """The number that a parameter is, given or not."""
        return plain(self.params[name].default if values.get(name) is None else values[name])

    def _written(self, one: Parameter, given: Any) -> str:
        value = one.default if given is None else given
        if value is None:
            if one.required:
                raise WrongParameter(self.id, one.name, None, one.expected, f"Give {one.name}=…, or --{one.name} ….")
            return "UNDEF"
        if one.many and isinstance(value, (list, tuple, set, frozenset)):
            if not value and one.required:
                raise WrongParameter(self.id, one.name, value, one.expected, f"Give at least one {one.name}.")
            return " ".join(self._term(one, item) for item in value) or "UNDEF"
        return self._term(one, value)

    def _term(self, one: Parameter, value: Any) -> str:
        scalar = plain(value)
        kinds = TYPES[one.type][1]
        advice = f"Give {one.name} as {one.expected}."
        fits = isinstance(scalar, kinds) and (bool in kinds or not isinstance(scalar, bool))
        least = None if isinstance(one.min, str) else one.min
        if not fits or (least is not None and not scalar >= least):  # type: ignore[operator]  # it is a number
            raise WrongParameter(self.id, one.name, value, one.expected, advice)
        try:
            if one.type == "iri":
                advice = "Give an absolute IRI, such as http://example.org/run/1."
                return f"<{IRI(scalar)}>"  # type: ignore[arg-type]  # the check above says it is text
            if one.type == "integer":
                if abs(scalar) >= LARGEST:  # type: ignore[arg-type]  # the check above says it is a number
                    advice = f"The engine counts to {LARGEST - 1}."
                    raise OverflowError
                return str(scalar)
            if one.type == "double":
                return object_of(float(scalar))  # type: ignore[arg-type]  # the check above says it is a number
            if isinstance(scalar, str):
                advice = "It has characters that are no text: give it in UTF-8."
                return object_of(str(scalar).encode().decode())
            return object_of(scalar)
        except (ValueError, OverflowError) as error:  # a number that is too great is told like one that is none
            raise WrongParameter(self.id, one.name, value, one.expected, advice) from error


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
    used = {match["name"]: match.start() for match in _TOKEN.finditer(text) if match["name"]}
    counts = {
        match["name"] for match in _TOKEN.finditer(text) if _COUNT.search(text, match.start() - 20, match.start())
    }
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
            Query("", "", "", path)._written(one, None)
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


class Catalog(Mapping[str, Query]):
    """The queries of some folders, by id; provml's own first. A file of a user that is broken is in `broken`."""

    def __init__(self, folders: Iterable[Path] = ()) -> None:
        self._queries: dict[str, Query] = {}
        self.broken: dict[Path, BrokenFile] = {}
        for path in sorted(resources.queries().glob("*.rq")):
            self._take(path)
        for folder in folders:
            if not folder.is_dir():
                reason = "it is a file, not a folder of queries" if folder.exists() else "there is no such folder"
                self.broken[folder] = BrokenFile(reason, "See what PROVML_QUERIES names.", file=str(folder))
            for path in sorted(folder.glob("*.rq")):
                try:
                    self._take(path)
                except BrokenFile as error:
                    self.broken[path] = error

    def _take(self, path: Path) -> None:
        query = read_query(path)
        taken = self._queries.get(query.id)
        if taken is not None:
            raise BrokenFile(f"the id {query.id} is that of {taken.path.name}", "Choose another id.", file=str(path))
        self._queries[query.id] = query

    def find(self, name: object) -> Query | None:
        """The question that goes by a name, its id or that of its file, in small letters or capitals."""
        if not isinstance(name, str):
            return None
        like = (one for one in self._queries.values() if name.lower() in (one.id.lower(), one.path.stem.lower()))
        return self._queries.get(name) or next(like, None)

    def __contains__(self, name: object) -> bool:
        return self.find(name) is not None

    def __getitem__(self, name: str) -> Query:
        found = self.find(name)
        if found is not None:
            return found
        if not isinstance(name, str):
            raise NoSuchQuery(name, tuple(self)[:5])
        for path, error in self.broken.items():  # its id may not be known, so its file is what it goes by
            if name in (path.stem, path.stem.partition("-")[0]):
                raise error
        like = difflib.get_close_matches(name, self._queries, 5) or [own for own in self if own[:1] == name[:1]]
        raise NoSuchQuery(name, tuple(like or self))

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._queries, key=_natural))

    def __len__(self) -> int:
        return len(self._queries)


def _natural(name: str) -> tuple[str, int, str]:
    match = re.fullmatch(r"(\D*)(\d*)(.*)", name)
    letters, digits, rest = match.groups() if match else (name, "", "")
    return letters, int(digits or 0), rest


def user_folders(home: Path | None = None) -> list[Path]:
    """Where users keep queries of their own: PROVML_QUERIES, and the folder `queries` of a home."""
    named = [Path(part) for part in os.environ.get("PROVML_QUERIES", "").split(os.pathsep) if part]
    inside = [home / "queries"] if home is not None and (home / "queries").is_dir() else []
    return [*named, *inside]
