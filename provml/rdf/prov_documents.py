"""Documents of W3C PROV that are not RDF: PROV-N, PROV-JSON, PROV-XML and PROV-JSONLD, read by the package `prov`.

`read_document` is the only reader of them. `document_quads` maps a document to PROV-O; each bundle is a named graph.
"""

from __future__ import annotations

import json
import logging
import re
import warnings
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from provml.errors import FileFormatError, MissingDependency
from provml.rdf.namespaces import DCTERMS, PROV, RDF_TYPE, RDFS, XSD
from provml.rdf.text_files import check_depth, parse_json, read_text, sniff

_log = logging.getLogger("provml")

FORMATS = {"provn": "PROV-N", "json": "PROV-JSON", "xml": "PROV-XML", "jsonld": "PROV-JSONLD"}
"""The formats in words of the package `prov`, with their names."""
PROV_MARK = PROV.rstrip("#").encode()
"""What a file that uses PROV contains, whatever its format."""
JSON_KEYS = ("entity", "activity", "agent", "used", "wasGeneratedBy", "bundle", "wasDerivedFrom")
OTHER_JSON_KEYS = (
    "wasInvalidatedBy", "wasStartedBy", "wasEndedBy", "wasInformedBy", "wasAttributedTo", "wasAssociatedWith",
    "actedOnBehalfOf", "wasInfluencedBy", "specializationOf", "alternateOf", "hadMember", "mentionOf",
)  # fmt: skip
EXTENSION = "extensibility expression"
"""What the package `prov` calls a statement of another vocabulary, which PROV-N allows and PROV does not define."""
_PROVN_START = re.compile(rb"\s*(?:(?://[^\n]*|/\*.*?\*/)\s*)*document\b", re.DOTALL)
_LINE = re.compile(r"^line (\d+)(?:, column \d+)?: ")


class RelationTerms(NamedTuple):
    """How PROV-O states a relation: the short form, the class of the qualified form, and the properties of its parts.

    The subject is the first part and has no property. Without a class there is only the short form.
    """

    short: str
    qualified: str = ""
    parts: tuple[str, ...] = ()


RELATIONS = {
    "Generation": RelationTerms("wasGeneratedBy", "Generation", ("activity", "atTime")),
    "Invalidation": RelationTerms("wasInvalidatedBy", "Invalidation", ("activity", "atTime")),
    "Usage": RelationTerms("used", "Usage", ("entity", "atTime")),
    "Start": RelationTerms("wasStartedBy", "Start", ("entity", "hadActivity", "atTime")),
    "End": RelationTerms("wasEndedBy", "End", ("entity", "hadActivity", "atTime")),
    "Communication": RelationTerms("wasInformedBy", "Communication", ("activity",)),
    "Derivation": RelationTerms("wasDerivedFrom", "Derivation", ("entity", "hadActivity", "hadGeneration", "hadUsage")),
    "Attribution": RelationTerms("wasAttributedTo", "Attribution", ("agent",)),
    "Association": RelationTerms("wasAssociatedWith", "Association", ("agent", "hadPlan")),
    "Delegation": RelationTerms("actedOnBehalfOf", "Delegation", ("agent", "hadActivity")),
    "Influence": RelationTerms("wasInfluencedBy", "Influence", ("influencer",)),
    "Specialization": RelationTerms("specializationOf"),
    "Alternate": RelationTerms("alternateOf"),
    "Membership": RelationTerms("hadMember"),
    "Mention": RelationTerms("mentionOf", "", ("mentionOf", "asInBundle")),
}
"""The relations of PROV-DM; the parts are in the order of PROV-DM."""
DERIVATIONS = {"Revision": "wasRevisionOf", "Quotation": "wasQuotedFrom", "PrimarySource": "hadPrimarySource"}
"""The kinds of derivations, which PROV-DM states by a type."""
ATTRIBUTES = {
    "label": f"{RDFS}label",
    "location": f"{PROV}atLocation",
    "role": f"{PROV}hadRole",
    "value": f"{PROV}value",
}
"""The attributes of PROV-DM with their properties; prov:type is mapped separately."""
ELEMENT_TIMES = {"startTime": f"{PROV}startedAtTime", "endTime": f"{PROV}endedAtTime"}


def prov_format(path: Path) -> str:
    """Return the format of a PROV document in words of the package `prov`; empty for RDF and any other file."""
    start, suffix = sniff(path), path.suffix.lower()
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n")
    if suffix == ".provn" or _PROVN_START.match(text):
        return "provn"
    if text.startswith(b"{") and b"openprovenance.org/prov-jsonld" in start:
        return "jsonld"
    if text.startswith(b"{") and suffix != ".jsonld" and _has_json_keys(path):
        return "json"
    if text.startswith(b"<") and b"<rdf:RDF" not in start and PROV_MARK in start and _is_xml_document(start):
        return "xml"
    return ""


def _is_xml_document(start: bytes) -> bool:
    return re.search(rb"<(?:[\w.-]+:)?(?:document|bundleContent)[\s>/]", start) is not None


def _has_json_keys(path: Path) -> bool:
    try:
        value = json.loads(read_text(path))
    except (ValueError, RecursionError, FileFormatError):
        return False
    if not isinstance(value, dict) or "@context" in value or "@graph" in value:
        return False
    return any(isinstance(value.get(key), dict) for key in (*JSON_KEYS, *OTHER_JSON_KEYS))


def read_document(path: Path, fmt: str = "", **options: Any) -> Any:
    """Return a document of the package `prov`. Raises FileFormatError, and MissingDependency without the package.

    `options` are those of its reader. Statements of other vocabularies in PROV-N are left out; the log says so.
    """
    fmt = fmt or prov_format(path)
    if not fmt:
        advice = "Pass PROV-N, PROV-JSON, PROV-XML or PROV-JSONLD."
        raise FileFormatError("it is no PROV document", advice, file=str(path))
    text = read_text(path).removeprefix("\ufeff")
    if fmt in ("json", "jsonld") and not check_depth(parse_json(text, path)):
        raise FileFormatError("its values are nested too deep", "Check the file.", file=str(path))
    if fmt in ("xml", "rdf") and ("<!DOCTYPE" in text or "<!ENTITY" in text):
        raise FileFormatError("it defines entities of XML", "Remove the DOCTYPE.", file=str(path))
    try:
        return _deserialize(text, fmt, options)
    except Exception as error:  # the parsers raise errors of several libraries
        if fmt == "provn" and EXTENSION in str(error):
            return _without_extensions(text, path)
        raise _unreadable(error, path, FORMATS.get(fmt, "RDF")) from error


def _deserialize(text: str, fmt: str, options: dict[str, Any]) -> Any:
    try:
        from prov.model import ProvDocument
    except ImportError as error:
        raise MissingDependency("prov", "prov") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about what a later version of `prov` will refuse
        return ProvDocument.deserialize(content=text, format=fmt, **options)


def _without_extensions(text: str, path: Path) -> Any:
    """Read PROV-N and leave out its statements of other vocabularies; any other problem is an error."""
    from prov.serializers.provn_parser import ProvNParser

    parser = ProvNParser(text, profile="lenient")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            document = parser.parse()
    except Exception as error:
        raise _unreadable(error, path, FORMATS["provn"]) from error
    for message in parser.skipped:
        if EXTENSION not in message:
            raise _unreadable(ValueError(message), path, FORMATS["provn"])
    _log.warning("%s: %d statements of other vocabularies were left out.", path, len(parser.skipped))
    return document


def _unreadable(error: Exception, path: Path, name: str) -> Exception:
    if isinstance(error, (FileFormatError, MissingDependency)):
        return error
    first = (str(error) or type(error).__name__).strip().splitlines()[0][:200]
    match = _LINE.match(first)
    line = int(match[1]) if match else getattr(error, "lineno", None)
    first = first[match.end() :] if match else first
    return FileFormatError(f"it cannot be parsed ({first})", f"Correct the {name}.", file=str(path), line=line)


# ---- as RDF


def document_quads(document: Any) -> Iterator[Any]:
    """Iterate over the quads of a document of the package `prov` in PROV-O.

    A relation has its short form, and its qualified form if it has an identifier or more than two parts.
    """
    import pyoxigraph as ox

    yield from _bundle_quads(document, ox.DefaultGraph())
    for bundle in document.bundles:
        yield from _bundle_quads(bundle, _node(bundle.identifier))


def _bundle_quads(bundle: Any, graph: Any) -> Iterator[Any]:
    import pyoxigraph as ox

    for record in bundle.get_records():
        triples = _element(record) if record.is_element() else _relation(record)
        for subject, predicate, value in triples:
            yield ox.Quad(subject, ox.NamedNode(predicate), value, graph)


def _element(record: Any) -> Iterator[tuple[Any, str, Any]]:
    node = _node(record.identifier)
    yield node, RDF_TYPE, _prov(record.get_type().localpart)
    for name, value in record.formal_attributes:
        if value is not None:
            yield node, ELEMENT_TIMES[name.localpart], term(value)
    yield from _attributes(node, record)


def _relation(record: Any) -> Iterator[tuple[Any, str, Any]]:
    import pyoxigraph as ox

    relation = RELATIONS[record.get_type().localpart]
    names = [name for name, _ in record.formal_attributes]
    subject, other, *more = (sorted(map(term, record.get_attribute(name)), key=str) for name in names)
    if subject:
        for value in other:
            yield subject[0], PROV + relation.short, value
    if not relation.qualified:
        for name, values in zip(relation.parts[1:], more, strict=True):
            for value in values:
                yield subject[0], PROV + name, value
        return
    kind = min(prov_types(record) & DERIVATIONS.keys(), default="")
    if subject and kind:
        for value in other:
            yield subject[0], PROV + DERIVATIONS[kind], value
    if record.identifier is None and subject and other and not any(more) and not record.extra_attributes:
        return
    node = ox.BlankNode() if record.identifier is None else _node(record.identifier)
    yield node, RDF_TYPE, _prov(relation.qualified)
    if subject:
        yield subject[0], f"{PROV}qualified{kind or relation.qualified}", node
    for name, values in zip(relation.parts, (other, *more), strict=True):
        for value in values:
            yield node, PROV + name, value
    yield from _attributes(node, record)


def prov_types(record: Any) -> set[str]:
    """Return the local names of the types of PROV that a record states."""
    types = (value for value in record.get_asserted_types() if hasattr(value, "localpart"))
    return {str(value.localpart) for value in types if value.namespace.uri == PROV}


def _attributes(node: Any, record: Any) -> Iterator[tuple[Any, str, Any]]:
    import pyoxigraph as ox

    for name, value in record.extra_attributes:
        predicate, converted = name.uri, term(value)
        if name.namespace.uri == PROV and name.localpart == "type":  # a text is no class
            predicate = f"{DCTERMS}type" if isinstance(converted, ox.Literal) else RDF_TYPE
        elif name.namespace.uri == PROV:
            predicate = ATTRIBUTES.get(name.localpart, name.uri)
        yield node, predicate, converted


def _node(identifier: Any) -> Any:
    import pyoxigraph as ox

    return ox.NamedNode(identifier.uri)


def _prov(name: str) -> Any:
    import pyoxigraph as ox

    return ox.NamedNode(PROV + name)


def term(value: Any) -> Any:
    """Return an attribute of the package `prov` as a term of pyoxigraph, with the datatype of the document."""
    import pyoxigraph as ox

    if isinstance(value, str):
        return ox.Literal(value)
    if isinstance(value, bool):
        return ox.Literal(value)
    if isinstance(value, datetime):
        return ox.Literal(value.isoformat().replace("+00:00", "Z"), datatype=ox.NamedNode(f"{XSD}dateTime"))
    if isinstance(value, (int, float)):
        from prov.model.records import canonical_xsd_datatype

        text = repr(value).replace("inf", "INF").replace("nan", "NaN")
        datatype = canonical_xsd_datatype(value)
        return ox.Literal(text, datatype=None if datatype is None else ox.NamedNode(datatype.uri))
    if not hasattr(value, "langtag"):
        return ox.NamedNode(value.uri) if hasattr(value, "localpart") else _any_uri(value)
    if value.langtag:
        return ox.Literal(value.value, language=value.langtag)
    return ox.Literal(value.value, datatype=None if value.datatype is None else ox.NamedNode(value.datatype.uri))


def _any_uri(value: Any) -> Any:
    import pyoxigraph as ox

    return ox.Literal(value.uri, datatype=ox.NamedNode(f"{XSD}anyURI"))
