"""A question: its description, its parameters, and its SPARQL, with values bound safely."""

from __future__ import annotations

import difflib
import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from provml import paths
from provml.errors import InvalidParameter
from provml.model.values import IRI, plain
from provml.rdf.literals import format_literal

TYPES: dict[str, tuple[str, tuple[type, ...]]] = {
    "string": ("text", (str,)),
    "integer": ("a whole number", (int,)),
    "double": ("a number", (float, int)),
    "boolean": ("true or false", (bool,)),
    "dateTime": ("a datetime", (datetime,)),
    "iri": ("an IRI", (str,)),
}
"""The types of parameters, in words and in Python."""
UNLIMITED = 1_000_000_000
"""A default that means no limit; it is not shown to people."""

INTEGER_LIMIT = 2**63
"""The integers of the engine are smaller."""
INTENTS = (
    "find the best",
    "follow a training",
    "where does it come from",
    "compare",
    "audit",
    "data preparation",
)
"""What people want to know: the groups of provml's own questions."""

USER_INTENT = "yours"
PAPERS = {
    "pina-2021": "Pina et al., IPAW 2021",
    "pina-2020": "Pina, dissertation, 2020",
    "souza-2021": "Souza et al.",
}
"""The papers that headers name as sources."""
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
BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True)
class Parameter:
    """A parameter of a question.

    An IRI with a `node_kind` also takes the name of such a node. `name_kind` says what a text is the name of. With
    `multiple` it takes several values. `min` is the least value: a number, or the name of another parameter.
    """

    name: str
    type: str
    help: str = ""
    optional: bool = False
    default: Any = None
    multiple: bool = False
    example: Any = None
    node_kind: str = ""
    name_kind: str = ""
    min: float | str | None = None

    @property
    def expected(self) -> str:
        """What values it takes, in words."""
        words = f"the name or IRI of a {self.node_kind}" if self.node_kind else TYPES[self.type][0]
        if self.min is not None:
            words += f" that is not less than {self.min}" if isinstance(self.min, str) else f" from {self.min} on"
        return f"one or more of: {words}" if self.multiple else words

    @property
    def as_argument(self) -> str:
        """The name as an argument of a Python call: `from_` for a parameter that is named like a keyword."""
        return f"{self.name}_" if keyword.iskeyword(self.name) else self.name

    @property
    def required(self) -> bool:
        """True if it has to be passed."""
        return not self.optional and self.default is None

    def from_text(self, text: str) -> Any:
        """Convert a value from the command line; text that does not fit is returned as it is."""
        try:
            if self.type == "integer":
                return int(text)
            if self.type == "double":
                return float(text)
            if self.type == "dateTime":
                return datetime.fromisoformat(text)
        except ValueError:
            return text
        return BOOLEANS.get(text.lower(), text) if self.type == "boolean" else text


@dataclass(frozen=True)
class Query:
    """A question. `text` is the SPARQL with `$name` for each parameter, `metadata` the rest of the header."""

    name: str
    summary: str
    text: str
    path: Path
    params: Mapping[str, Parameter] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other names of the question, such as its number in a paper."""
        return tuple(map(str, self.metadata.get("aliases") or ()))

    @property
    def intent(self) -> str:
        """What people want to know who ask it; the questions of users are one group."""
        return str(self.metadata.get("intent", USER_INTENT)) if self.is_packaged else USER_INTENT

    @property
    def is_packaged(self) -> bool:
        """Whether the question is one of provml, not of a user."""
        return self.path.parent == paths.queries()

    @property
    def source(self) -> str:
        """The paper that the question is from, and the place in it."""
        paper, comma, place = str(self.metadata.get("source", "")).partition(",")
        return PAPERS.get(paper, paper) + comma + place

    @property
    def needs(self) -> str:
        """What has to be recorded for an answer, unless it is obvious."""
        return str(self.metadata.get("needs", ""))

    @property
    def plot(self) -> Mapping[str, Any] | None:
        """The columns of a curve (x, y, by), the parameter that names y (named), and the unit of y."""
        return self.metadata.get("plot")

    def normalize(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return values by the names of parameters: a name that is a keyword of Python may be passed as `from_`.

        Raises InvalidParameter for a name that the question does not have, and for one that is passed twice.
        """
        result: dict[str, Any] = {}
        for key, value in values.items():
            name = key[:-1] if key not in self.params and key[-1:] == "_" and key[:-1] in self.params else key
            if name in result:
                problem = f"{name} is passed twice, as {name} and {name}_"
                raise InvalidParameter(self.name, name, value, "one value", "Pass it once.", problem=problem)
            result[name] = value
        self._check_names(result)
        return result

    def _check_names(self, values: Mapping[str, Any]) -> None:
        """Raise an error for a value without a parameter."""
        unknown = next((name for name in values if name not in self.params), None)
        if unknown is not None:
            similar = difflib.get_close_matches(unknown, self.params, 1)
            available = f"Parameters: {', '.join(self.params)}." if self.params else "It takes no parameters."
            advice = f"Did you mean {similar[0]!r}?" if similar else available
            raise InvalidParameter(self.name, unknown, values[unknown], "", advice)

    def bind(self, values: Mapping[str, Any]) -> str:
        """Return the SPARQL with values as RDF terms. Raises InvalidParameter for a value that does not fit."""
        self._check_names(values)
        terms = {name: self.as_sparql(param, values.get(name)) for name, param in self.params.items()}
        self._check_ranges(values)
        return TOKEN.sub(lambda match: terms[match["name"]] if match["name"] else match[0], self.text)

    def _check_ranges(self, values: Mapping[str, Any]) -> None:
        """Raise an error for a number below the parameter that is its minimum: the answer could only be empty."""
        for param in self.params.values():
            if not isinstance(param.min, str):
                continue
            lower, upper = (self._number(name, values) for name in (param.min, param.name))
            if lower is not None and upper is not None and upper < lower:
                advice = f"{param.min} is {lower}: pass at least that, or exchange the two."
                raise InvalidParameter(self.name, param.name, upper, param.expected, advice)

    def _number(self, name: str, values: Mapping[str, Any]) -> Any:
        """Return the value of a parameter, or its default."""
        return plain(self.params[name].default if values.get(name) is None else values[name])

    def as_sparql(self, param: Parameter, value: Any) -> str:
        """Return the value of a parameter as SPARQL; without a value its default, or UNDEF."""
        value = param.default if value is None else value
        if value is None:
            if param.required:
                problem = f"missing required parameter {param.name!r} ({param.expected})"
                advice = f"Pass {param.as_argument}=… or --{param.name} …."
                raise InvalidParameter(self.name, param.name, None, param.expected, advice, problem=problem)
            return "UNDEF"
        if param.multiple and isinstance(value, (list, tuple, set, frozenset)):
            if not value and param.required:
                raise InvalidParameter(self.name, param.name, value, param.expected, f"Pass at least one {param.name}.")
            return " ".join(self._term(param, item) for item in value) or "UNDEF"
        return self._term(param, value)

    def _term(self, param: Parameter, value: Any) -> str:
        """Return one value as an RDF term."""
        scalar = plain(value)
        types = TYPES[param.type][1]
        is_valid = isinstance(scalar, types) and (bool in types or not isinstance(scalar, bool))
        if is_valid and isinstance(param.min, (int, float)):
            is_valid = scalar >= param.min  # type: ignore[operator]  # only numbers have a minimum
        example = param.default if param.example is None else param.example
        advice = f"Pass a value such as {example!r}." if example is not None else ""
        if is_valid:
            try:
                return _write(param.type, scalar)
            except (ValueError, OverflowError):
                advice = _TERM_ADVICE.get(param.type, advice)
        raise InvalidParameter(self.name, param.name, value, param.expected, advice)


_TERM_ADVICE = {
    "iri": "Pass an absolute IRI, such as http://example.org/run/1.",
    "integer": f"The greatest integer is {INTEGER_LIMIT - 1}.",
    "string": "It has characters that are not Unicode: pass valid text.",
}


def _write(kind: str, value: Any) -> str:
    """Write a value of the right Python type as a term. Raises ValueError or OverflowError if RDF cannot have it."""
    if kind == "iri":
        return f"<{IRI(value)}>"
    if kind == "integer":
        if abs(value) >= INTEGER_LIMIT:
            raise OverflowError
        return str(value)
    if kind == "double":
        return format_literal(float(value))
    return format_literal(str(value).encode().decode() if isinstance(value, str) else value)
