"""How a PROV document that provml wrote holds what PROV has no record for, and names that a format does not allow.

The carrier is an entity with N-Triples as attributes; those of a bundle are N-Quads. If it says so, local parts of
names are escaped: a character that the format does not allow in a name is written as `_xHHHH_`, its code point in
hexadecimal digits. PROV-XML has names of XML, which have no slashes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import pyoxigraph as ox

from provml.rdf.namespaces import PROVML

CARRIER = f"{PROVML}carrier"
CARRIER_TYPE = f"{PROVML}Carrier"
STATEMENT = f"{PROVML}statement"
ESCAPED = f"{PROVML}escapedNames"

_NOT_XML = re.compile(r"^[^A-Za-z_]|[^A-Za-z0-9_.-]|_(?=x[0-9A-F]{4,6}_)")
_NOT_PROVN = re.compile(r"[^A-Za-z0-9_.\-/@~&+*?#$!%=',;:()]|%(?![0-9A-Fa-f]{2})|_(?=x[0-9A-F]{4,6}_)")
_ESCAPE = re.compile(r"_x([0-9A-F]{4,6})_")


def escape_name(local: str, *, is_xml: bool) -> tuple[str, bool]:
    """Return the local part of a name that a format allows, and whether it differs."""
    escaped = (_NOT_XML if is_xml else _NOT_PROVN).sub(lambda match: f"_x{ord(match[0]):04X}_", local)
    return escaped, escaped != local


def unescape_name(local: str) -> str:
    """Return the local part of a name before it was escaped."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if int(match[1], 16) <= 0x10FFFF else match[0], local)


def restore(quads: Iterable[ox.Quad]) -> Iterator[ox.Quad]:
    """Yield the quads of a document as they were before provml wrote it; those of any other document as they are."""
    read = list(quads)
    carried = [quad for quad in read if quad.subject == ox.NamedNode(CARRIER)]
    if ox.NamedNode(CARRIER_TYPE) not in [quad.object for quad in carried]:
        yield from read
        return
    is_escaped = any(quad.predicate.value == ESCAPED for quad in carried)
    for quad in read:
        if quad.subject != ox.NamedNode(CARRIER):
            yield ox.Quad(*(_unescape(term) if is_escaped else term for term in quad))
    terms = [quad.object for quad in carried if quad.predicate.value == STATEMENT]
    lines = [term.value for term in terms if isinstance(term, ox.Literal)]
    yield from ox.parse("\n".join(lines), format=ox.RdfFormat.N_QUADS, lenient=True)


def _unescape(term: Any) -> Any:
    return ox.NamedNode(unescape_name(term.value)) if isinstance(term, ox.NamedNode) else term
