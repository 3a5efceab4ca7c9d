"""Errors of provml as one tree: catch `ProvmlError` for any of them, a leaf for a single kind.

ProvmlError
├── InvalidIRI          (ValueError)   a node name that is not an absolute IRI
├── InvalidValue                       a field value that the ontology does not allow
│   ├── WrongType       (TypeError)    a value of the wrong type
│   ├── WrongValue      (ValueError)   a value of the right type that is out of range
│   └── MissingField    (TypeError)    a required field without a value
├── HomeNotFound        (LookupError)  a directory that is not a home of runs
├── ServiceError        (ConnectionError) a service that refuses a request
│   └── ServiceUnreachable               a service that does not answer
├── NodeNotFound        (LookupError)  an IRI that the graph does not describe
├── GraphNotFound       (LookupError)  a graph, or a file, that was not loaded
├── ProtectedGraph      (PermissionError) a graph of recorded runs, or of the ontology, that cannot be changed
├── RunNotFound         (LookupError)  a run name that matches no run, or several
├── ArtifactNotFound    (LookupError)  an artifact that is not stored, or one of several
├── QueryNotFound       (LookupError)  a question that is not in the catalog
├── TagNotFound         (LookupError)  a tag that a dataflow does not declare
├── InvalidAnnotation   (ValueError)   a tag, note or name that a run cannot have
├── InvalidParameter    (ValueError)   a question parameter with an unsuitable value
├── ColumnNotFound      (LookupError)  a column that a table of runs does not have
├── FilterError         (ValueError)   a condition on runs that cannot be understood
├── QueryError          (ValueError)   SPARQL that cannot be executed
├── ServiceNotAllowed   (PermissionError) a query that would call another machine
├── QueryTimeout        (TimeoutError) a query that reached its time limit
├── PlotError           (ValueError)   an answer that cannot be plotted
├── ForkedStore         (RuntimeError) a store that was opened before a fork
├── LakeNotFound        (LookupError)  a folder that holds no lake
├── LakeUnreachable     (ConnectionError) a lake in a store that does not answer
├── LakeChanged         (RuntimeError) two processes wrote a lake at the same time
├── IndexDamaged        (RuntimeError) an index whose files are damaged; it can be rebuilt
├── OntologyError       (ValueError)   an ontology that cannot be read or compiled
├── StaleFiles          (RuntimeError) generated files that differ from the ontology
├── FileFormatError     (ValueError)   an RDF or query file that cannot be read
├── ValidationFailed    (ValueError)   a graph that violates constraints
├── ReasonerFailed      (RuntimeError) HermiT returned no result
├── CannotRepeat        (RuntimeError) a run that cannot be executed again
└── MissingDependency   (ImportError)  an optional package that is not installed

Each class has the exit code of a command (`exit_code`: 1 for a failed check, 2 for wrong usage or input, 3 for
a run that cannot be repeated) and the status code of a service (`http_status`). Each message ends with what to do next.
"""

from __future__ import annotations

from typing import ClassVar

MAX_SUGGESTIONS = 3
"""Similar names that a message lists at most."""


class ProvmlError(Exception):
    """Base class of all errors that provml raises on purpose."""

    exit_code: ClassVar[int] = 2
    http_status: ClassVar[int] = 400

    def __reduce__(self) -> tuple[object, ...]:
        return (_restore, (type(self), self.args, self.__dict__))


class InvalidIRI(ProvmlError, ValueError):
    """A node name that is not an absolute IRI."""

    def __init__(self, text: object) -> None:
        self.text = text
        super().__init__(
            f"{text!r} is not an absolute IRI. Use one with a scheme and no spaces, such as 'http://example.org/run/1'."
        )


class InvalidValue(ProvmlError):
    """A field value that the ontology does not allow: `class_name`, `field`, `value`, and what was `expected`."""

    def __init__(self, class_name: str, field: str, value: object, expected: str, advice: str) -> None:
        self.class_name = class_name
        self.field = field
        self.value = value
        self.expected = expected
        super().__init__(f"{class_name}.{field} takes {expected}, not {_shown(value)}. {advice}")


class WrongType(InvalidValue, TypeError):
    """A value of the wrong type: text for a number, an agent for an activity, two values where one is allowed."""


class WrongValue(InvalidValue, ValueError):
    """A value of the right type that is out of range: a negative count, an unknown status."""


class MissingField(InvalidValue, TypeError):
    """A field that the ontology requires and that has no value."""

    def __init__(self, class_name: str, field: str, expected: str) -> None:
        super().__init__(class_name, field, None, expected, f"Pass {field}=… to {class_name}().")


class HomeNotFound(ProvmlError, LookupError):
    """A directory that is not a home of runs; `reason` says why where the directory exists.

    `suggestions` lists homes with a similar name.
    """

    http_status = 404

    def __init__(self, home: str, reason: str = "", suggestions: tuple[str, ...] = ()) -> None:
        self.home = home
        self.reason = reason
        self.suggestions = suggestions
        problem = f"No provml home at {home}" + (f": {reason}" if reason else "")
        similar = f" Did you mean {', '.join(suggestions[:MAX_SUGGESTIONS])}?" if suggestions else ""
        super().__init__(
            f"{problem}.{similar} Record a run there first, or choose another home: provml.open(home), --home or "
            "PROVML_HOME."
        )


SAYS_WHEN = (408, 429, 503, 504, 507)
"""Statuses of a service that is busy or full: it says itself when to try again."""


class ServiceError(ProvmlError, ConnectionError):
    """A service at `url` that refused a request: `status` is its HTTP status, `reason` says why."""

    exit_code = 1
    http_status = 502

    def __init__(self, url: str, reason: str, advice: str = "", *, status: int = 0) -> None:
        self.url = url
        self.reason = reason
        self.status = status
        if not advice and status not in SAYS_WHEN:
            advice = "Pass its token: PROVML_TOKEN or token=…." if status in (401, 403) else "Check the request."
        super().__init__(f"{url}: {reason.rstrip('.')}. {advice}".rstrip())


class ServiceUnreachable(ServiceError):
    """A service, or a SPARQL endpoint, that does not answer."""

    def __init__(self, url: str, reason: str, advice: str = "") -> None:
        super().__init__(url, reason, advice or "Check the URL, and that `provml serve` is running there.")


class NodeNotFound(ProvmlError, LookupError):
    """An IRI that the graph does not describe."""

    http_status = 404

    def __init__(self, iri: str) -> None:
        self.iri = iri
        super().__init__(f"The graph does not describe <{iri}>. Check the IRI, or load the graph that describes it.")


class GraphNotFound(ProvmlError, LookupError):
    """A graph, or a file, that was not loaded; `graphs` lists those that were."""

    http_status = 404

    def __init__(self, name: str, graphs: tuple[str, ...]) -> None:
        self.name = name
        self.graphs = graphs
        listed = ", ".join(graphs[:MAX_SUGGESTIONS]) + (", …" if len(graphs) > MAX_SUGGESTIONS else "")
        hint = f"Loaded are: {listed}." if graphs else "Nothing was loaded here."
        super().__init__(f"No loaded graph or file {name!r}. {hint} `provml graphs` lists them.")


class ProtectedGraph(ProvmlError, PermissionError):
    """A change of what runs recorded, or of a graph that provml writes."""

    http_status = 403

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"Not done: {reason}. Only loaded graphs can be changed: write GRAPH <IRI> {{ … }}.")


class RunNotFound(ProvmlError, LookupError):
    """A run name that matches no run, or several; `suggestions` lists run ids, and names that are similar."""

    http_status = 404

    def __init__(
        self,
        run: str,
        suggestions: tuple[str, ...],
        *,
        ambiguous: bool = False,
        similar: bool = True,
        is_name: bool = False,
    ) -> None:
        self.run = run
        self.suggestions = suggestions
        self.ambiguous = ambiguous
        listed = ", ".join(suggestions[:MAX_SUGGESTIONS])
        if ambiguous and is_name:
            count = f"{len(suggestions)} runs" if len(suggestions) < 10 else "several runs"
            end = ", …" if len(suggestions) > MAX_SUGGESTIONS else ""
            message = f"{run!r} is the name of {count}: {listed}{end}. Pass the id of one, or `latest`."
        elif ambiguous:
            message = f"{run!r} matches several runs: {listed}. Pass more of the id."
        elif suggestions and similar:
            message = f"No run {run!r}. Did you mean {listed}? List the runs with `provml runs`."
        elif suggestions:
            end = ", …" if len(suggestions) > MAX_SUGGESTIONS else "."
            message = f"No run {run!r}. Available: {listed}{end} List the runs with `provml runs`."
        else:
            message = f"No run {run!r}: no run is recorded here yet. Record one, or pass another home."
        super().__init__(message)


class ArtifactNotFound(ProvmlError, LookupError):
    """An artifact that is not stored in the home, or a name that several have; `suggestions` lists names."""

    http_status = 404

    def __init__(self, name: str, reason: str, advice: str, suggestions: tuple[str, ...] = ()) -> None:
        self.name = name
        self.reason = reason
        self.suggestions = suggestions
        super().__init__(f"{reason}. {advice}")


class QueryNotFound(ProvmlError, LookupError):
    """A question that is not in the catalog; `suggestions` lists similar names."""

    http_status = 404

    def __init__(self, name: str, suggestions: tuple[str, ...]) -> None:
        self.name = name
        self.suggestions = suggestions
        similar = f" Did you mean {', '.join(suggestions[:MAX_SUGGESTIONS])}?" if suggestions else ""
        super().__init__(f"No question {name!r}.{similar} List the questions with `provml ask --list`.")


class TagNotFound(ProvmlError, LookupError):
    """A tag that a dataflow does not declare; `declared` lists its tags."""

    http_status = 404

    def __init__(self, kind: str, tag: str, dataflow: str, declared: tuple[str, ...], advice: str) -> None:
        self.kind = kind
        self.tag = tag
        self.dataflow = dataflow
        self.declared = declared
        from difflib import get_close_matches  # slow to import

        similar = get_close_matches(tag, declared, MAX_SUGGESTIONS) if len(declared) > MAX_SUGGESTIONS else []
        names = list(dict.fromkeys([*similar, *declared]))
        end = ", …" if len(names) > MAX_SUGGESTIONS else "."
        listed = f" Declared: {', '.join(names[:MAX_SUGGESTIONS])}{end}" if names else ""
        super().__init__(f"{dataflow} declares no {kind} {tag!r}.{listed} {advice}")


class InvalidAnnotation(ProvmlError, ValueError):
    """A tag, note or name (`kind`) that a run cannot have: it is empty, too long, or has control characters."""

    def __init__(self, kind: str, text: str, reason: str, advice: str) -> None:
        self.kind = kind
        self.text = text
        self.reason = reason
        shown = f" {text!r}" if 0 < len(text) <= 80 else ""
        super().__init__(f"The {kind}{shown} {reason}. {advice}")


class InvalidParameter(ProvmlError, ValueError):
    """A question parameter with an unsuitable value."""

    def __init__(
        self, query: str, parameter: str, value: object, expected: str, advice: str, *, problem: str = ""
    ) -> None:
        self.query = query
        self.parameter = parameter
        self.value = value
        self.expected = expected
        if not problem:
            problem = (
                f"{parameter} takes {expected}, not {_shown(value)}" if expected else f"no parameter {parameter!r}"
            )
        super().__init__(f"{query}: {problem}. {advice}".rstrip())


class ColumnNotFound(ProvmlError, LookupError):
    """A column that a table of runs does not have."""

    http_status = 404

    def __init__(self, name: str, advice: str) -> None:
        self.name = name
        super().__init__(f"No column {name!r}. {advice}")


class FilterError(ProvmlError, ValueError):
    """A condition on runs that cannot be understood; `start` and `end` are the wrong part of the `text`."""

    def __init__(self, problem: str, advice: str, text: str, start: int, end: int) -> None:
        self.problem = problem
        self.advice = advice
        self.text = text
        self.start = start
        self.end = end
        line = "".join(character if character.isprintable() else " " for character in text)
        marks = " " * start + "^" * max(end - start, 1)
        super().__init__(f"Invalid condition: {problem}.\n  {line}\n  {marks}\n{advice}")


class QueryError(ProvmlError, ValueError):
    """SPARQL that cannot be executed; `file` is the query file, if there is one.

    `line` and `column`, from 1, locate the mistake, and `excerpt` shows the line with a mark, where they are known.
    """

    def __init__(
        self,
        reason: str,
        advice: str = "Correct the query.",
        *,
        file: str | None = None,
        line: int | None = None,
        column: int | None = None,
        excerpt: str = "",
    ) -> None:
        self.reason = reason
        self.advice = advice
        self.file = file
        self.line = line
        self.column = column
        self.excerpt = excerpt
        prefix = "Invalid query" if file is None else f"{file}: invalid query"
        place = "" if line is None else f" at line {line}, column {column}"
        super().__init__(f"{prefix}{place}: {reason}. {advice}" + (f"\n{excerpt}" if excerpt else ""))

    def in_file(self, file: str) -> QueryError:
        """Return the error with the query file in its message."""
        return QueryError(self.reason, self.advice, file=file, line=self.line, column=self.column, excerpt=self.excerpt)


class ServiceNotAllowed(ProvmlError, PermissionError):
    """A query with SERVICE, which would call another machine."""

    http_status = 403

    def __init__(self) -> None:
        super().__init__(
            "The query uses SERVICE, which would call another machine. Remove SERVICE, or allow it with service=True "
            "(--allow-service on the command line)."
        )


class QueryTimeout(ProvmlError, TimeoutError):
    """A query that reached its time limit of `seconds`."""

    exit_code = 1
    http_status = 504

    def __init__(self, seconds: float, *, is_of_service: bool = False) -> None:
        self.seconds = seconds
        limit, advice = "its time limit of", "pass a larger timeout=… (--timeout on the command line)"
        if is_of_service:
            limit, advice = "the service's time limit of", "start the service with a larger --timeout"
        restriction = "Restrict it (start from one run, add a LIMIT)"
        super().__init__(f"The query reached {limit} {seconds:g} s. {restriction}, or {advice}.")


class PlotError(ProvmlError, ValueError):
    """An answer that cannot be plotted."""

    def __init__(self, reason: str, advice: str) -> None:
        self.reason = reason
        super().__init__(f"{reason}. {advice}")


class ForkedStore(ProvmlError, RuntimeError):
    """A store used in a forked child of the process that opened it: writing there would corrupt the parent's index."""

    http_status = 500

    def __init__(self) -> None:
        super().__init__("This store was opened before a fork. Open a new one in the child: provml.open_store(home).")


class LakeNotFound(ProvmlError, LookupError):
    """A folder that holds no lake."""

    http_status = 404

    def __init__(self, folder: str, reason: str = "", advice: str = "") -> None:
        self.folder = folder
        self.reason = reason
        advice = advice or f"Build one: `provml lake build HOME -o {folder}`."
        super().__init__(f"{folder} is not a lake{f': {reason}' if reason else ''}. {advice}")


class LakeUnreachable(ProvmlError, ConnectionError):
    """A lake in an object store, or at another URL, that does not answer; whether it is there is not known."""

    exit_code = 1
    http_status = 502

    def __init__(self, folder: str, reason: str) -> None:
        self.folder = folder
        self.reason = reason
        advice = "Check the address, the credentials and the network, and try again."
        super().__init__(f"{folder} cannot be reached: {reason.rstrip('.')}. {advice}")


class LakeChanged(ProvmlError, RuntimeError):
    """Two processes wrote a lake at the same time."""

    exit_code = 1
    http_status = 409

    def __init__(self, folder: str) -> None:
        self.folder = folder
        super().__init__(f"Another process changed the lake {folder} meanwhile; nothing was written. Run it again.")


class IndexDamaged(ProvmlError, RuntimeError):
    """An index whose files are damaged, noticed after a part of the result was delivered: elsewhere it is healed."""

    exit_code = 1
    http_status = 503

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"The index is damaged ({reason}). Nothing is lost: it is rebuilt from the journals. Run this again."
        )


class OntologyError(ProvmlError, ValueError):
    """An ontology that cannot be read or compiled; `file` and `line` locate the problem where they are known."""

    def __init__(self, reason: str, advice: str, *, file: str | None = None, line: int | None = None) -> None:
        self.reason = reason
        self.file = file
        self.line = line
        place = "" if file is None else f"{file}: " if line is None else f"{file}:{line}: "
        super().__init__(f"{place}{reason}. {advice}")


class StaleFiles(ProvmlError, RuntimeError):
    """Generated files that differ from what the ontology generates; `files` lists them."""

    exit_code = 1
    http_status = 409

    def __init__(self, files: tuple[str, ...], command: str) -> None:
        self.files = files
        self.command = command
        listed = "".join(f"\n  {name}" for name in files)
        super().__init__(
            f"{plural(len(files), 'generated file')} out of date:{listed}\nRun `{command}` and commit the result."
        )


class FileFormatError(ProvmlError, ValueError):
    """An RDF or query file that cannot be read; `file` and `line` locate the problem."""

    def __init__(self, reason: str, advice: str, *, file: str, line: int | None = None) -> None:
        self.reason = reason
        self.file = file
        self.line = line
        super().__init__(f"{file}{'' if line is None else f':{line}'}: {reason}. {advice}")


class ValidationFailed(ProvmlError, ValueError):
    """A graph that violates constraints; `constraints` describes each of them."""

    exit_code = 1
    http_status = 422

    def __init__(self, constraints: tuple[str, ...]) -> None:
        self.constraints = constraints
        listed = "".join(f"\n  {constraint}" for constraint in constraints)
        super().__init__(
            f"The graph violates {plural(len(constraints), 'constraint')}:{listed}\n"
            "Correct the nodes that the report names, or see `provml validate --help`."
        )


class ReasonerFailed(ProvmlError, RuntimeError):
    """HermiT returned no result; `reason` says why."""

    http_status = 500

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"HermiT returned no result: {reason}. Check less at once (one run), or run without it.")


class CannotRepeat(ProvmlError, RuntimeError):
    """A run that cannot be executed again: `run` is its id, `reason` says what is missing or different."""

    exit_code = 3
    http_status = 409

    def __init__(self, run: str, reason: str, advice: str = "") -> None:
        self.run = run
        self.reason = reason
        super().__init__(f"{run} cannot be repeated: {reason.rstrip('.')}. {advice}".rstrip())


class MissingDependency(ProvmlError, ImportError):
    """An optional package that is not installed."""

    http_status = 501

    def __init__(self, package: str, extra: str, advice: str = "") -> None:
        self.package = package
        self.extra = extra
        advice = advice or f"Run `pip install 'provml[{extra}]'`."
        super().__init__(f"This needs {package}, which is not installed. {advice}")


def plural(count: int, noun: str) -> str:
    """Return a count and its noun: "1 run", "2,000 runs"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _shown(value: object) -> str:
    """Return a value and its type, short enough for one line of a message."""
    if value is None:
        return "None"
    try:
        text = repr(value)
    except Exception:  # an integer too long to print, or an object whose repr fails
        text = "…"
    if len(text) > 80:
        text = text[:77] + "…"
    return f"{text} ({type(value).__name__})"


def _restore(cls: type[ProvmlError], args: tuple[object, ...], state: dict[str, object]) -> ProvmlError:
    """Rebuild an error from a pickle without calling its constructor: errors are sent between processes."""
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error
