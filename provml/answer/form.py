"""Rows as JSON, CSV and TSV, and in the result formats of SPARQL, whose terms are exact."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from provml.answer.table import Row, special
from provml.errors import WrongValue

if TYPE_CHECKING:
    import pyoxigraph as ox

    Term = ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple
    Terms = tuple[Term | None, ...]

STRING = "http://www.w3.org/2001/XMLSchema#string"
SPARQL = ("json", "xml", "csv", "tsv")
"""The result formats that W3C's SPARQL 1.1 has."""

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_AT_THE_ENDS = re.compile(r"^[ \t\n]+|[ \t\n]+\Z")
"""Blanks that readers trim, Oxigraph's among them, unless they are written by number."""

_IN_XML = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord('"'): "&quot;", ord("\r"): "&#xD;"}


# ---- plain


def as_json(value: Any, *, indent: int | None = 2) -> str:
    """Anything made of dictionaries, lists and values as JSON; what JSON has no word for is text."""
    return json.dumps(plain(value), indent=indent, ensure_ascii=False, default=_double)


def _double(value: Decimal) -> float | str:
    """A decimal as the double that is nearest to it, which is what readers of JSON make of it anyway."""
    nearest = float(value)
    return nearest if nearest - nearest == 0.0 else str(value)


def as_csv(columns: Sequence[str], rows: Iterable[Row], delimiter: str = ",") -> str:
    """Rows below the names of their columns, with `delimiter` between."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n", delimiter=delimiter)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([str(value).lower() if value.__class__ is bool else plain(value) for value in row])
    return out.getvalue()


def plain(value: Any) -> Any:
    """A value as JSON or CSV has it: numbers exact, times in ISO 8601, all else as text."""
    if value is None or value.__class__ in (bool, int, str, Decimal):
        return value
    if isinstance(value, float):
        return value if value - value == 0.0 else special(value)
    if isinstance(value, dict):
        return {str(key): plain(held) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(held) for held in value]
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    return str(value)


# ---- SPARQL


def as_sparql(columns: Sequence[str], rows: Iterable[Terms], form: str) -> str:
    """Rows of terms in a result format of SPARQL: json, xml, csv or tsv."""
    return {"json": _json, "xml": _xml, "csv": _csv, "tsv": _tsv}[known(form)](columns, rows)


def as_rdf(rows: Iterable[Terms], form: str) -> str:
    """Rows of subject, predicate and object as a graph: ttl, nt or jsonld."""
    import pyoxigraph as ox

    from provml.answer.table import SHORT

    forms = {"ttl": ox.RdfFormat.TURTLE, "nt": ox.RdfFormat.N_TRIPLES, "jsonld": ox.RdfFormat.JSON_LD}
    if form not in forms:
        raise WrongValue("Answer", "to_rdf", form, f"one of {', '.join(forms)}", f"Give {' or '.join(forms)}.")
    prefixes = {short[:-1]: whole for whole, short in SHORT.items() if short}
    triples = [ox.Triple(*row) for row in rows]  # type: ignore[arg-type]  # the engine gave them as triples
    made = ox.serialize(triples, format=forms[form], prefixes=prefixes if form == "ttl" else None)
    return (made or b"").decode()


def truth_as_sparql(truth: bool, form: str) -> str:
    """The answer to an ASK in a result format of SPARQL; CSV and TSV have none, so there it is the bare word."""
    word = "true" if truth else "false"
    if known(form) == "json":
        return f'{{"head":{{}},"boolean":{word}}}\n'
    return f"{_XML_HEAD}<head/>\n<boolean>{word}</boolean>\n</sparql>\n" if form == "xml" else f"{word}\n"


def known(form: str) -> str:
    """The name of a format, if it is one."""
    if form not in SPARQL:
        raise WrongValue("Answer", "to_sparql", form, f"one of {', '.join(SPARQL)}", "Name one of these.")
    return form


def _json(columns: Sequence[str], rows: Iterable[Terms]) -> str:
    bindings = (
        {name: _json_term(term) for name, term in zip(columns, row, strict=True) if term is not None} for row in rows
    )
    lines = ",\n".join(json.dumps(binding, ensure_ascii=False) for binding in bindings)
    head = json.dumps({"vars": list(columns)}, ensure_ascii=False)
    return f'{{"head": {head},\n"results": {{"bindings": [\n{lines}\n]}}}}\n'


def _json_term(term: Term) -> dict[str, Any]:
    import pyoxigraph as ox

    if isinstance(term, ox.NamedNode):
        return {"type": "uri", "value": term.value}
    if isinstance(term, ox.BlankNode):
        return {"type": "bnode", "value": term.value}
    if isinstance(term, ox.Triple):
        parts = {"subject": term.subject, "predicate": term.predicate, "object": term.object}
        return {"type": "triple", "value": {name: _json_term(part) for name, part in parts.items()}}
    said = {"type": "literal", "value": term.value}
    if term.language is not None:
        said["xml:lang"] = term.language
        if term.direction is not None:
            said["its:dir"] = term.direction.value
    elif term.datatype.value != STRING:
        said["datatype"] = term.datatype.value
    return said


_XML_HEAD = '<?xml version="1.0"?>\n<sparql xmlns="http://www.w3.org/2005/sparql-results#">\n'


def _xml(columns: Sequence[str], rows: Iterable[Terms]) -> str:
    lines = ["<head>", *(f'<variable name="{_escaped("column", name)}"/>' for name in columns), "</head>", "<results>"]
    for row in rows:
        lines.append("<result>")
        for name, term in zip(columns, row, strict=True):
            if term is not None:
                lines.append(f'<binding name="{_escaped("column", name)}">{_xml_term(name, term)}</binding>')
        lines.append("</result>")
    return _XML_HEAD + "\n".join([*lines, "</results>", "</sparql>\n"])


def _xml_term(column: str, term: Term) -> str:
    import pyoxigraph as ox

    if isinstance(term, ox.Triple):
        parts = {"subject": term.subject, "predicate": term.predicate, "object": term.object}
        inside = "".join(f"<{name}>{_xml_term(column, part)}</{name}>" for name, part in parts.items())
        return f"<triple>{inside}</triple>"
    text = _escaped(column, term.value)
    if isinstance(term, ox.NamedNode):
        return f"<uri>{text}</uri>"
    if isinstance(term, ox.BlankNode):
        return f"<bnode>{text}</bnode>"
    said = ""
    if term.language is not None:
        said = f' xml:lang="{term.language}"'
        if term.direction is not None:
            its = 'xmlns:its="http://www.w3.org/2005/11/its" its:version="2.0"'
            said += f' {its} its:dir="{term.direction.value}"'
    elif term.datatype.value != STRING:
        said = f' datatype="{_escaped(column, term.datatype.value)}"'
    return f"<literal{said}>{text}</literal>"


def _escaped(column: str, text: str) -> str:
    if _NOT_XML.search(text):
        advice = "Write these rows as sparql-json or sparql-tsv."
        raise WrongValue("XML", column, text, "text of the characters that XML has", advice)
    return _AT_THE_ENDS.sub(lambda blanks: "".join(f"&#{ord(c)};" for c in blanks[0]), text.translate(_IN_XML))


def _csv(columns: Sequence[str], rows: Iterable[Terms]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(["" if term is None else _bare(term) for term in row])
    return out.getvalue()


def _bare(term: Term) -> str:
    import pyoxigraph as ox

    return term.value if isinstance(term, (ox.NamedNode, ox.Literal)) else str(term)


def _tsv(columns: Sequence[str], rows: Iterable[Terms]) -> str:
    lines = ["\t".join(f"?{name}" for name in columns)]
    lines += ["\t".join("" if term is None else _turtle(term) for term in row) for row in rows]
    return "\n".join(lines) + "\n"


def _turtle(term: Term) -> str:
    import pyoxigraph as ox

    return f"<<( {term} )>>" if isinstance(term, ox.Triple) else str(term)
