"""A question: its words, its parameters, and its SPARQL, in which values are bound safely."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from provml import resources
from provml.errors import WrongParameter
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
ENDLESS = 1_000_000_000
"""A default of so much means all, and is not worth saying to people."""

LARGEST = 2**63
"""Where the whole numbers of the engine end."""
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
TOKEN = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"""'
    r"|'''(?:[^'\\]|\\.|'(?!''))*'''"
    r'|"(?:[^"\\\n\r]|\\.)*"'
    r"|'(?:[^'\\\n\r]|\\.)*'"
    r"|<[^<>\"{}|^`\\\x00-\x20]*>"
    r"|#[^\n]*"
    r"|\$(?P<name>\w+)",
    re.DOTALL,
)
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
        written = {name: self.written(one, values.get(name)) for name, one in self.params.items()}
        self._check_ranges(values)

        def put(match: re.Match[str]) -> str:
            return written[match["name"]] if match["name"] else match[0]

        return TOKEN.sub(put, self.text)

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

    def written(self, one: Parameter, given: Any) -> str:
        """A parameter as it stands in the SPARQL, given or not."""
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
