"""pySHACL, the reference engine: any shapes graph, over data held by Oxigraph."""

from __future__ import annotations

import re
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provml import rdf, resources
from provml.errors import BrokenFile, MissingPart, WrongType
from provml.things import Thing
from provml.validation.report import Report, Result

if TYPE_CHECKING:
    import pyoxigraph
    import rdflib

SH = "http://www.w3.org/ns/shacl#"
LONG = 80


def own_shapes() -> list[Path]:
    """The shape files that come with provml."""
    return sorted(resources.shapes().rglob("*.ttl"))


def validate(
    given: Thing | Iterable[Thing] | bytes | str | PathLike[str], shapes: Path | Iterable[Path] | None = None
) -> Report:
    """The report of some data against shape files, provml's own unless others are given.

    The data is a thing or several (taken with every thing that they refer to), N-Triples as bytes, or the path of an
    RDF file, whose ending names its format; of a file with named graphs, all graphs are taken as one.
    """
    try:
        import pyshacl
        from pyshacl.graph_abstraction import OxigraphDataGraph
    except ImportError as error:
        raise MissingPart("pyshacl", "shacl") from error

    class DataGraph(OxigraphDataGraph):
        def __bool__(
            self,
        ) -> bool:  # pyshacl asks whether there is a graph; counting all triples each time is 45 x slower
            return True

    store = _loaded(given)
    graph = load_shapes(own_shapes() if shapes is None else [shapes] if isinstance(shapes, (str, Path)) else shapes)
    _, said, text = pyshacl.validate(DataGraph(store), shacl_graph=graph, inplace=True)
    if not hasattr(said, "subjects"):
        raise BrokenFile(str(text), "Mend the shapes.", file="shapes")
    return _report(said, store)


def _loaded(given: Thing | Iterable[Thing] | bytes | str | PathLike[str]) -> pyoxigraph.Store:
    """A store that holds the data and nothing else."""
    import pyoxigraph as ox

    if not isinstance(given, (Thing, PathLike, Iterable)):
        expected = "things, N-Triples as bytes, or the path of an RDF file"
        raise WrongType("validation", "validate", given, expected, "Give one of these.")
    store, form, file = ox.Store(), ox.RdfFormat.N_TRIPLES, "N-Triples"
    try:
        if isinstance(given, (str, PathLike)):
            path = Path(given)
            named, file = ox.RdfFormat.from_extension(path.suffix[1:]), str(path)
            if named is None:
                reason = f"has an ending that names no RDF format ({path.suffix!r})"
                raise BrokenFile(reason, "Give a file such as data.ttl or data.nt, or N-Triples as bytes.", file=file)
            form = named
            quads = ox.parse(path=path, format=form, base_iri=path.absolute().as_uri())
            store.bulk_extend(ox.Quad(quad.subject, quad.predicate, quad.object) for quad in quads)
        else:
            store.bulk_load(given if isinstance(given, bytes) else rdf.ntriples(given, follow=True), format=form)
    except SyntaxError as error:
        reason = re.sub(r"^Parser error at .*?: ", "", str(error.msg)).rstrip(".")
        raise BrokenFile(reason, f"Mend the {form.name} there.", file=file, line=error.lineno) from error
    except OSError as error:
        reason = re.sub(r" \(os error.*", "", str(error)).lower()
        raise BrokenFile(reason, "Check the path, or give N-Triples as bytes.", file=file) from error
    return store


def load_shapes(paths: Iterable[Path]) -> rdflib.Graph:
    """Shape files as one graph; a broken one is named with the line.

    Text without a datatype gets xsd:string, which is what Oxigraph gives the data's text: rdflib holds the two apart.
    """
    import rdflib
    from rdflib.plugins.parsers.notation3 import BadSyntax

    graph = rdflib.Graph()
    for path in paths:
        try:
            graph.parse(path)
        except BadSyntax as error:
            raise BrokenFile(error.message, "Mend the Turtle there.", file=str(path), line=error.lines + 1) from error
        except OSError as error:
            raise BrokenFile(str(error.strerror).lower(), "Check the path.", file=str(path)) from error
        except Exception as error:  # each of rdflib's parsers has errors of its own
            reason = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
            raise BrokenFile(reason, "Give shapes in Turtle, or mend the file.", file=str(path)) from error
    for subject, predicate, node in list(graph):
        if isinstance(node, rdflib.Literal) and node.datatype is None and node.language is None:
            graph.remove((subject, predicate, node))
            graph.add((subject, predicate, rdflib.Literal(str(node), datatype=rdflib.XSD.string)))
    return graph


def _report(graph: Any, store: pyoxigraph.Store) -> Report:
    import rdflib

    def one(node: Any, name: str) -> Any:
        return min(graph.objects(node, rdflib.URIRef(SH + name)), key=str, default=None)

    def text(node: Any, name: str) -> str:
        return str(one(node, name) or "").removeprefix(SH)

    def result(node: Any) -> Result:
        focus, path = one(node, "focusNode"), one(node, "resultPath")
        component = text(node, "sourceConstraintComponent").removesuffix("ConstraintComponent")
        values = [_term(value) for value in graph.objects(node, rdflib.URIRef(SH + "value"))]
        if component == "MaxCount" and isinstance(path, rdflib.URIRef):  # which ones are too many, nobody can say: all
            values = [quad.object for quad in store.quads_for_pattern(_term(focus), _term(path), None)]
        return Result(
            focus=f"_:{focus}" if isinstance(focus, rdflib.BNode) else str(focus),
            path=text(node, "resultPath") or None,
            values=tuple(sorted(map(_shown, values))),
            message=text(node, "resultMessage"),
            shape=text(node, "sourceShape"),
            severity=text(node, "resultSeverity"),
            component=component,
        )

    results = [
        result(node)
        for node in graph.subjects(rdflib.RDF.type, rdflib.URIRef(SH + "ValidationResult"))
        if next(graph.subjects(rdflib.URIRef(SH + "detail"), node), None) is None
    ]
    return Report(
        tuple(sorted(results, key=lambda r: (r.severity, r.message, r.focus, r.path or "", r.component, r.values)))
    )


def _term(node: Any) -> Any:
    """A term of rdflib as one of pyoxigraph."""
    import pyoxigraph as ox
    import rdflib

    if isinstance(node, rdflib.Literal):
        datatype = None if node.language or node.datatype is None else ox.NamedNode(node.datatype)
        return ox.Literal(str(node), language=node.language, datatype=datatype)
    return ox.BlankNode(node) if isinstance(node, rdflib.BNode) else ox.NamedNode(node)


def _shown(term: Any) -> str:
    """A term as Turtle writes it, cut where it is long."""
    text = str(term)
    if len(getattr(term, "value", "")) > LONG and text.startswith('"'):
        text = f"{text[:LONG]}…{text[text.rindex(chr(34)) :]}"
    return re.sub(rf"\^\^<{rdf.XSD}(\w+)>$", r"^^xsd:\1", text)
