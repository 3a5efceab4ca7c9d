"""What can go wrong, as one tree: catch `ProvmlError` for all of it, a leaf for one thing.

ProvmlError
├── NotAnIRI            (ValueError)   text that was to name a node is no absolute IRI
├── RefusedValue                       a thing refused what its ontology refuses
│   ├── WrongType       (TypeError)    a value of the wrong kind
│   ├── WrongValue      (ValueError)   the right kind, but outside what is allowed
│   └── MissingField    (TypeError)    a required field was left out
├── NoSuchNode          (LookupError)  the graph says nothing about that IRI
├── NoSuchRun           (LookupError)  no run, or more than one, goes by that name
├── NoSuchQuery         (LookupError)  the catalog has no such question
├── NoSuchTag           (LookupError)  a dataflow declares nothing by that tag
├── WrongParameter      (ValueError)   a question was given a value that does not fit
├── BrokenQuery         (ValueError)   SPARQL that cannot be run
├── ServiceRefused      (PermissionError) a query would call another machine
├── QueryTookTooLong    (TimeoutError) a query was ended at its time limit
├── NotACurve           (ValueError)   an answer that cannot be plotted
├── ForkedStore         (RuntimeError) a store used in a forked child of the process that opened it
├── OntologyError       (ValueError)   an ontology that cannot be read or compiled
├── StaleFiles          (RuntimeError) generated files differ from what the ontology gives
├── BrokenFile          (ValueError)   an RDF or query file that cannot be read
├── BrokenPromise       (ValueError)   a graph does not keep what shapes promise
├── ReasonerFailed      (RuntimeError) HermiT gave no answer
└── MissingPart         (ImportError)  an optional package is not installed

Each class says with which code a command ends (`exit_code`: 1 it did not hold, 2 wrong use or input) and which status
a service answers (`http_status`). Every message ends with what to do next.
"""

from __future__ import annotations

from typing import ClassVar


class ProvmlError(Exception):
    """Anything that provml raises on purpose."""

    exit_code: ClassVar[int] = 2
    http_status: ClassVar[int] = 400

    def __reduce__(self) -> tuple[object, ...]:
        return (_restore, (type(self), self.args, self.__dict__))


class NotAnIRI(ProvmlError, ValueError):
    """Text that was to name a node is no absolute IRI."""

    def __init__(self, text: object) -> None:
        self.text = text
        super().__init__(
            f"{text!r} is not an absolute IRI. Give one with a scheme and no spaces, such as 'http://example.org/run/1'."
        )


class RefusedValue(ProvmlError):
    """A thing refused a value: `class_name`, `field` and `value` say which, `expected` what would do."""

    def __init__(self, class_name: str, field: str, value: object, expected: str, advice: str) -> None:
        self.class_name = class_name
        self.field = field
        self.value = value
        self.expected = expected
        super().__init__(f"{class_name}.{field} takes {expected}, not {_shown(value)}. {advice}")


class WrongType(RefusedValue, TypeError):
    """A value of the wrong kind: text for a number, an agent for an activity, two values where one is allowed."""


class WrongValue(RefusedValue, ValueError):
    """A value of the right kind outside what the ontology allows: a negative count, an unknown status."""


class MissingField(RefusedValue, TypeError):
    """A field that the ontology requires was left out."""

    def __init__(self, class_name: str, field: str, expected: str) -> None:
        super().__init__(class_name, field, None, expected, f"Give {field}=… when you make a {class_name}.")


class NoSuchNode(ProvmlError, LookupError):
    """The graph says nothing about that IRI."""

    http_status = 404

    def __init__(self, iri: str) -> None:
        self.iri = iri
        super().__init__(f"Nothing is said about <{iri}>. Check the IRI, or load the graph that describes it.")


class NoSuchRun(ProvmlError, LookupError):
    """No run, or more than one, goes by that name; `near` lists what there is."""

    http_status = 404

    def __init__(self, run: str, near: tuple[str, ...], *, ambiguous: bool = False) -> None:
        self.run = run
        self.near = near
        self.ambiguous = ambiguous
        problem = f"{run!r} fits more than one run" if ambiguous else f"There is no run {run!r}"
        listed = f" There is {', '.join(near)}." if near else " There is no run here yet."
        super().__init__(f"{problem}.{listed} Give more of its id, or see `provml runs`.")


class NoSuchQuery(ProvmlError, LookupError):
    """The catalog has no such question; `near` lists what is like it."""

    http_status = 404

    def __init__(self, name: str, near: tuple[str, ...]) -> None:
        self.name = name
        self.near = near
        super().__init__(f"There is no question {name!r}. Ask one of {', '.join(near)}, or see `provml ask --list`.")


class NoSuchTag(ProvmlError, LookupError):
    """A dataflow declares nothing by that tag; `declared` is what there is."""

    http_status = 404

    def __init__(self, what: str, tag: str, where: str, declared: tuple[str, ...], advice: str) -> None:
        self.what = what
        self.tag = tag
        self.where = where
        self.declared = declared
        listed = f"It declares {', '.join(declared)}." if declared else f"It declares no {what}."
        super().__init__(f"{where} declares no {what} {tag!r}. {listed} {advice}")


class WrongParameter(ProvmlError, ValueError):
    """A question was given a value that does not fit one of its parameters."""

    def __init__(self, query: str, parameter: str, value: object, expected: str, advice: str) -> None:
        self.query = query
        self.parameter = parameter
        self.value = value
        self.expected = expected
        wrong = f"{parameter} takes {expected}, not {_shown(value)}" if expected else f"it has no parameter {parameter}"
        super().__init__(f"{query}: {wrong}. {advice}")


class BrokenQuery(ProvmlError, ValueError):
    """SPARQL that cannot be run; `file` says where it is, if it is in one."""

    def __init__(self, reason: str, advice: str = "Mend it and ask again.", *, file: str | None = None) -> None:
        self.reason = reason
        self.advice = advice
        self.file = file
        place = "The query" if file is None else f"{file}: the query"
        super().__init__(f"{place} cannot be run: {reason}. {advice}")


class ServiceRefused(ProvmlError, PermissionError):
    """A query would call another machine, by SERVICE."""

    http_status = 403

    def __init__(self) -> None:
        super().__init__(
            "The query has SERVICE, which would call another machine. Take it out, or allow it by service=True "
            "(--allow-service on the command line)."
        )


class QueryTookTooLong(ProvmlError, TimeoutError):
    """A query was ended at its time limit; `seconds` is the limit."""

    exit_code = 1
    http_status = 504

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(
            f"The query was ended after {seconds:g} s, its time limit. Ask for less (begin at one run, add a LIMIT), "
            "or give it more time by timeout=… (--timeout on the command line)."
        )


class NotACurve(ProvmlError, ValueError):
    """An answer that cannot be plotted."""

    def __init__(self, reason: str, advice: str) -> None:
        self.reason = reason
        super().__init__(f"{reason}. {advice}")


class ForkedStore(ProvmlError, RuntimeError):
    """A store used in a forked child of the process that opened it; writing there would destroy the parent's work."""

    http_status = 500

    def __init__(self) -> None:
        super().__init__("This store was opened before a fork. Open it again in the child with provml.open(home).")


class OntologyError(ProvmlError, ValueError):
    """An ontology that cannot be read or compiled; `file` and `line` point at the place where they are known."""

    def __init__(self, reason: str, advice: str, *, file: str | None = None, line: int | None = None) -> None:
        self.reason = reason
        self.file = file
        self.line = line
        place = "" if file is None else f"{file}: " if line is None else f"{file}:{line}: "
        super().__init__(f"{place}{reason}. {advice}")


class StaleFiles(ProvmlError, RuntimeError):
    """Generated files differ from what the ontology gives; `files` names them."""

    exit_code = 1
    http_status = 409

    def __init__(self, files: tuple[str, ...], command: str) -> None:
        self.files = files
        self.command = command
        listed = "".join(f"\n  {name}" for name in files)
        super().__init__(
            f"{len(files)} generated file(s) are stale:{listed}\nRun `{command}` and commit what it writes."
        )


class BrokenFile(ProvmlError, ValueError):
    """An RDF or query file that cannot be read; `file` and `line` point at the place."""

    def __init__(self, reason: str, advice: str, *, file: str, line: int | None = None) -> None:
        self.reason = reason
        self.file = file
        self.line = line
        super().__init__(f"{file}{'' if line is None else f':{line}'}: {reason}. {advice}")


class BrokenPromise(ProvmlError, ValueError):
    """A graph does not keep what shapes promise; `promises` are those that it breaks, in words."""

    exit_code = 1
    http_status = 422

    def __init__(self, promises: tuple[str, ...]) -> None:
        self.promises = promises
        listed = "".join(f"\n  {promise}" for promise in promises)
        super().__init__(
            f"The graph breaks {len(promises)} promise{'s'[: len(promises) != 1]}:{listed}\n"
            "Mend what the report names, or see `provml validate --help`."
        )


class ReasonerFailed(ProvmlError, RuntimeError):
    """HermiT gave no answer; `reason` says why."""

    http_status = 500

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"HermiT gave no answer: {reason}. Give it less (one run, or a part of it), or leave it out.")


class MissingPart(ProvmlError, ImportError):
    """An optional package is not installed."""

    http_status = 501

    def __init__(self, package: str, extra: str, advice: str = "") -> None:
        self.package = package
        self.extra = extra
        advice = advice or f"Run `pip install 'provml[{extra}]'`."
        super().__init__(f"This needs {package}, which is not installed. {advice}")


def _shown(value: object) -> str:
    """A value and its type, short enough for one line of a message."""
    if value is None:
        return "nothing"
    try:
        text = repr(value)
    except Exception:  # an integer too long to print, an object whose repr fails: the message still has to be made
        text = "…"
    if len(text) > 80:
        text = text[:77] + "…"
    return f"{text} ({type(value).__name__})"


def _restore(cls: type[ProvmlError], args: tuple[object, ...], state: dict[str, object]) -> ProvmlError:
    """Rebuild an error from a pickle without running its constructor (errors cross process borders)."""
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error
