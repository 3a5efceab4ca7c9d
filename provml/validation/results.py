"""Validation results, grouped by the constraint that they violate, and the scope of a validation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from provml.errors import plural
from provml.rdf.namespaces import GENERATED_SHAPES, SHAPES, XSD

MAX_EXAMPLES = 3
"""Nodes shown per violated constraint."""
MAX_NOTES = 5
"""Lines of notes, and of shapes that were passed to pySHACL, that are shown."""
MAX_TEXT = 80
"""Characters shown of a literal."""
SEVERITIES = ("Violation", "Warning", "Info")
"""The severities of SHACL, the most severe first."""
PATH_SUFFIXES = {"zeroOrMorePath": "*", "oneOrMorePath": "+", "zeroOrOnePath": "?"}
"""Suffix of each repeated SHACL path in SPARQL syntax."""
ENGINE_NAMES = {"sparql": "SPARQL engine", "pyshacl": "pySHACL"}

PROBLEMS = {
    "MinCount": "too few values",
    "MaxCount": "too many values",
    "QualifiedMinCount": "too few values",
    "QualifiedMaxCount": "too many values",
    "Class": "wrong class, or the class is not stated",
    "Datatype": "wrong datatype",
    "NodeKind": "a literal instead of a node, or a node instead of a literal",
    "In": "not one of the allowed values",
    "HasValue": "the required value is missing",
    "Pattern": "does not match the required pattern",
    "MinLength": "too short",
    "MaxLength": "too long",
    "MinInclusive": "outside the limits",
    "MaxInclusive": "outside the limits",
    "MinExclusive": "outside the limits",
    "MaxExclusive": "outside the limits",
    "LessThan": "not less than the other value",
    "LessThanOrEquals": "greater than the other value",
    "Equals": "not equal to the other values",
    "Disjoint": "two properties that must differ share a value",
    "LanguageIn": "not in one of the allowed languages",
    "UniqueLang": "two values in the same language",
    "Not": "has excluded (disjoint) properties or classes",
    "Or": "none of the alternatives fits",
    "Xone": "none, or more than one, of the alternatives fits",
    "Closed": "a property that is not allowed here",
    "SPARQL": "",
}
"""What is wrong, by SHACL constraint component."""

ShapeComponent: TypeAlias = tuple[str, str]
"""A shape and one of its constraint components."""
GroupKey: TypeAlias = tuple[str, str]
"""The severity and message of a group."""


@dataclass(frozen=True)
class CycleStep:
    """One step of a cycle: an event that precedes another, and the constraints that say so.

    `before` and `after` describe the events; `nodes` are their terms in Turtle syntax, or those of their entity or
    activity if they have no identifier. `inferences` are the numbers of those that the events follow from, `rules` the
    IRIs of all of these.
    """

    before: str
    after: str
    constraints: tuple[int, ...]
    strict: bool
    nodes: tuple[str, str] = ("", "")
    inferences: tuple[int, ...] = ()
    rules: tuple[str, ...] = ()

    def __str__(self) -> str:
        relation = "is strictly before" if self.strict else "is not after"
        noun = "constraint" if len(self.constraints) == 1 else "constraints"
        numbers = " and ".join(map(str, self.constraints))
        return f"{self.before} {relation} {self.after} ({noun} {numbers})"


@dataclass(frozen=True)
class Result:
    """One node that violates one constraint.

    `focus` and `shape` are plain IRIs; blank nodes and literals are in N-Triples syntax. `values` are the violating
    values in Turtle syntax, shortened for display. `value` is the complete value of sh:value in N-Triples syntax, or
    empty if there is none. `messages` are all messages of the shape, each with its language, if they have any.

    Results of PROV-CONSTRAINTS also have the `bundle` (an IRI, or empty), the `reason`, the IRIs of all `rules` that
    led to the violation, inferences among them, and the steps of the shortest `cycle` of events.
    """

    focus: str
    path: str | None
    values: tuple[str, ...]
    message: str
    shape: str
    severity: str
    component: str = ""
    value: str = ""
    messages: tuple[tuple[str, str], ...] = ()
    bundle: str = ""
    reason: str = ""
    rules: tuple[str, ...] = ()
    cycle: tuple[CycleStep, ...] = ()

    @property
    def problem(self) -> str:
        """A short description of what is wrong, or an empty string if the message already says it."""
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", self.component).lower()
        return PROBLEMS.get(self.component, f"fails {words}" if words else "")

    @property
    def node(self) -> str:
        """The focus node in Turtle syntax."""
        if self.focus.startswith('"'):
            return show_term(self.focus)
        return self.focus if self.focus.startswith("_:") else f"<{self.focus}>"


@dataclass(frozen=True)
class ValidationScope:
    """What was validated: the data, its number of triples, the number and kind of rules, and the engine.

    `label` names the data, `delegated` are the shapes that were passed to pySHACL, `others` are the scopes of further
    validations of the same data. `triples` counts statements if that is the `unit`. `notes` say
    what was assumed where the shapes are incomplete.
    """

    label: str = ""
    triples: int = 0
    rule_count: int = 0
    engine: str = ""
    delegated: tuple[str, ...] = ()
    rule_kind: str = "shape"
    others: tuple[ValidationScope, ...] = ()
    unit: str = "triple"
    notes: tuple[str, ...] = ()
    inference: str = "types"

    @property
    def rule_kinds(self) -> list[str]:
        """The kinds of rules in the plural: shapes, constraints, axioms."""
        return list(dict.fromkeys(f"{scope.rule_kind}s" for scope in (self, *self.others)))

    def details(self, max_lines: int = MAX_NOTES) -> list[str]:
        """Return which shapes were passed to pySHACL and why, and what was assumed, in `max_lines` lines each."""
        scopes = (self, *self.others)
        delegated = [f"passed to pySHACL: {text}" for scope in scopes for text in scope.delegated]
        notes = [f"note: {text}" for scope in scopes for text in scope.notes]
        lines = []
        for texts, noun in ((delegated, "shapes passed to pySHACL"), (notes, "notes")):
            lines += texts[:max_lines]
            if len(texts) > max_lines:
                lines.append(f"and {len(texts) - max_lines:,} more {noun}; the JSON report has all")
        return lines

    def __str__(self) -> str:
        scopes = (self, *self.others)
        rules = [
            f"{plural(scope.rule_count, scope.rule_kind)} ({ENGINE_NAMES.get(scope.engine, scope.engine)})"
            for scope in scopes
        ]
        with_inference = f" with {self.inference} inference" if self.inference in ("rdfs", "owlrl") else ""
        text = f"{plural(self.triples, self.unit)}{with_inference} against {' and '.join(rules)}"
        delegated = sum(len(scope.delegated) for scope in scopes)
        text += f"; {plural(delegated, 'shape')} passed to pySHACL" if delegated else ""
        return f"{self.label}: {text}" if self.label else text


@dataclass(frozen=True)
class ResultGroup:
    """The results that violate one constraint.

    `count` is the number of all results, including those that were only counted. If a shape has several messages, the
    messages of its counted results are unknown: `count` then covers only `results`, and `has_more` is True.
    """

    severity: str
    message: str
    results: tuple[Result, ...]
    count: int
    has_more: bool = False

    @property
    def description(self) -> str:
        """The message, followed by what is wrong."""
        problems = "; ".join(dict.fromkeys(result.problem for result in self.results if result.problem))
        return f"{self.message} {problems[0].upper()}{problems[1:]}." if problems else self.message

    @property
    def nodes(self) -> dict[str, tuple[str, ...]]:
        """The violating nodes, each with its violating values."""
        nodes: dict[str, dict[str, None]] = {}
        for result in self.results:
            values = nodes.setdefault(result.node, {})
            values.update(dict.fromkeys(value for value in result.values if value != result.node))
        return {node: tuple(values) for node, values in nodes.items()}

    @property
    def is_complete(self) -> bool:
        """Whether `results` holds all results, so that all violating nodes are listed."""
        return self.count == len(self.results) and not self.has_more

    @property
    def extent(self) -> str:
        """The number of violating nodes, or of results if some were only counted."""
        if self.is_complete:
            return f"at {plural(len(self.nodes), 'node')}"
        return f"in {plural(self.count, 'result')}{' or more' if self.has_more else ''}"

    def examples(self, max_examples: int = MAX_EXAMPLES) -> list[str]:
        """Return some of the violating nodes with their values."""
        examples = list(self.nodes.items())[:max_examples]
        return [f"{node} with {', '.join(values)}" if values else node for node, values in examples]

    def remainder(self, max_examples: int = MAX_EXAMPLES) -> str:
        """Return how many nodes there are beyond the examples, or an empty string."""
        if not self.is_complete:
            return "and more"
        return f"and {len(self.nodes) - max_examples:,} more" if len(self.nodes) > max_examples else ""


def group_results(results: Sequence[Result], counts: Mapping[ShapeComponent, int]) -> dict[GroupKey, ResultGroup]:
    """Group results by severity and message, the most severe and most frequent first.

    `counts` gives the number of all results of a shape and component if `results` does not hold all of them.
    """
    frequency = Counter(result.message for result in results)
    members: dict[GroupKey, list[Result]] = {}
    shared_messages: dict[tuple[str, str, str], str] = {}
    for result in _without_repetitions(results, frequency):
        message = result.message
        # A unique message may have values filled in: then results of the same shape and component form one group.
        if frequency[message] == 1:
            message = shared_messages.setdefault((result.severity, result.shape, result.component), message)
        members.setdefault((result.severity, message), []).append(result)
    groups = _with_counts(members, _not_retained(results, counts))
    return dict(sorted(groups.items(), key=lambda item: (_severity_rank(item[0][0]), -item[1].count, item[0])))


def _without_repetitions(results: Iterable[Result], frequency: Counter[str]) -> Iterable[Result]:
    """Return one result per violation of a property.

    Shapes of a class and of its superclasses may state the same constraint. A handwritten shape takes precedence,
    then the least frequent message, which is the most specific one.
    """

    def rank(result: Result) -> tuple[bool, int, str]:
        is_handwritten = result.shape.startswith(SHAPES) and not result.shape.startswith(GENERATED_SHAPES)
        return (not is_handwritten, frequency[result.message], result.message)

    best: dict[object, Result] = {}
    for number, result in enumerate(results):
        key: object = number
        if result.path is not None:
            key = (result.severity, result.focus, result.path, result.component, result.values)
        if key not in best or rank(result) < rank(best[key]):
            best[key] = result
    return best.values()


def _not_retained(results: Iterable[Result], counts: Mapping[ShapeComponent, int]) -> dict[ShapeComponent, int]:
    """Return the number of results that were only counted, by shape and component."""
    retained = Counter((result.shape, result.component) for result in results)
    return {key: count - retained[key] for key, count in counts.items() if count > retained[key]}


def _with_counts(
    members: Mapping[GroupKey, list[Result]], not_retained: Mapping[ShapeComponent, int]
) -> dict[GroupKey, ResultGroup]:
    """Add the counted results to the groups; those of a shape with several groups belong to an unknown one."""
    sources = {
        key: {(result.shape, result.component) for result in results} & not_retained.keys()
        for key, results in members.items()
    }
    group_counts = Counter(source for group in sources.values() for source in group)
    groups = {}
    for key, results in members.items():
        counted = sum(not_retained[source] for source in sources[key] if group_counts[source] == 1)
        has_more = any(group_counts[source] > 1 for source in sources[key])
        groups[key] = ResultGroup(*key, tuple(results), len(results) + counted, has_more)
    return groups


def _severity_rank(severity: str) -> tuple[int, str]:
    return (SEVERITIES.index(severity), "") if severity in SEVERITIES else (len(SEVERITIES), severity)


def sort_messages(messages: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Sort messages with their languages: those for all readers first, then English, then the others."""

    def rank(message: tuple[str, str]) -> tuple[int, str, str]:
        text, language = message
        return (0 if not language else 1 if language.partition("-")[0] == "en" else 2, language, text)

    return tuple(sorted(dict.fromkeys(messages), key=rank))


def show_term(term: object) -> str:
    """Return a term in Turtle syntax; a long literal is shortened."""
    text = str(term)
    end = text.rfind('"')
    if text.startswith('"') and end > MAX_TEXT + 1:
        text = f"{text[:MAX_TEXT]}…{text[end:]}"
    return re.sub(rf"\^\^<{XSD}(\w+)>$", r"^^xsd:\1", text) if text.endswith(">") and end > 0 else text
