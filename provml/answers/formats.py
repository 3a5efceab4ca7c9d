"""Rows as JSON, CSV and TSV, in the result formats of SPARQL with exact terms, and as RDF.

The `iter_` functions yield pieces of text, so that a large result need not be in memory.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import IO, TYPE_CHECKING, Any

from provml.answers.table import Row, format_special
from provml.errors import WrongValue
from provml.rdf.namespaces import PREFIXES, XSD

if TYPE_CHECKING:
    import pyoxigraph as ox

    Term = ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple
    Terms = tuple[Term | None, ...]

STRING = f"{XSD}string"
SPARQL_FORMATS = ("json", "xml", "csv", "tsv")
"""The result formats of W3C's SPARQL 1.1."""
RDF_FORMATS = ("ttl", "nt", "jsonld")

_NOT_XML = "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
"""Characters that XML does not allow; compiled when needed, since that takes 5 ms."""
_OUTER_BLANKS = re.compile(r"^[ \t\n]+|[ \t\n]+\Z")
"""Whitespace that parsers trim, Oxigraph's among them, unless it is escaped."""
_XML_ESCAPES = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord('"'): "&quot;", ord("\r"): "&#xD;"}
_XML_START = '<?xml version="1.0"?>\n<sparql xmlns="http://www.w3.org/2005/sparql-results#">\n'


def check_name(class_name: str, field: str, fmt: str, formats: Sequence[str]) -> None:
    """Raise an error for a format that is not among some."""
    if fmt not in formats:
        listed = ", ".join(formats)
        raise WrongValue(class_name, field, fmt, f"one of {listed}", "Use one of these formats.")


# ---- values


def as_json(value: Any, *, indent: int | None = 2) -> str:
    """Return dictionaries, lists and values as JSON; values that JSON does not have become text."""
    return json.dumps(plain(value), indent=indent, ensure_ascii=False, default=_nearest_double)


def _nearest_double(value: Decimal) -> float | str:
    """Return the double that is nearest to a decimal, which is what a JSON parser makes of it anyway."""
    nearest = float(value)
    return nearest if nearest - nearest == 0.0 else str(value)


def iter_json(columns: Sequence[str], rows: Iterable[Row]) -> Iterator[str]:
    """Yield rows as a JSON list of objects, as `as_json` writes it."""
    separator = "[\n  "
    for row in rows:
        # The JSON text of a string has no line breaks of its own, so this indents the lines of the object.
        yield separator + as_json(dict(zip(columns, row, strict=True))).replace("\n", "\n  ")
        separator = ",\n  "
    yield "[]" if separator.startswith("[") else "\n]"


FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""How a text begins that a spreadsheet takes for a formula."""


def escape_formula(value: Any) -> Any:
    """Return a cell with an apostrophe before a text that a spreadsheet takes for a formula; numbers stay."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_STARTS) else value


def iter_csv(
    columns: Sequence[str], rows: Iterable[Row], delimiter: str = ",", *, escape_formulas: bool = False
) -> Iterator[str]:
    """Yield rows as CSV, after a line with the names of the columns."""
    lines = _Lines()
    writer = csv.writer(lines, lineterminator="\n", delimiter=delimiter)
    escape = escape_formula if escape_formulas else None
    writer.writerow(columns if escape is None else map(escape, columns))
    for row in rows:
        cells = row if escape is None else map(escape, row)
        writer.writerow([str(value).lower() if value.__class__ is bool else plain(value) for value in cells])
        yield lines.take()
    yield lines.take()


class _Lines:
    """A file that a csv.writer writes to, emptied after each line."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self.write: Callable[[str], object] = self._text.append

    def take(self) -> str:
        """Return and remove what was written."""
        text = "".join(self._text)
        self._text.clear()
        return text


def plain(value: Any) -> Any:
    """Return a value as JSON or CSV has it: exact numbers, times in ISO 8601, anything else as text."""
    if value is None or value.__class__ in (bool, int, str, Decimal):
        return value
    if isinstance(value, float):
        return value if value - value == 0.0 else format_special(value)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    return str(value)


# ---- RDF


def write_rdf(rows: Iterable[Terms], file: IO[bytes], fmt: str) -> None:
    """Write rows of subject, predicate and object as RDF: ttl, nt or jsonld."""
    import pyoxigraph as ox

    check_name("Answer", "to_rdf", fmt, RDF_FORMATS)
    rdf_format = {"ttl": ox.RdfFormat.TURTLE, "nt": ox.RdfFormat.N_TRIPLES, "jsonld": ox.RdfFormat.JSON_LD}[fmt]
    triples = (ox.Triple(*row) for row in rows)  # type: ignore[arg-type]  # the engine made them of triples
    ox.serialize(triples, file, format=rdf_format, prefixes=PREFIXES if fmt == "ttl" else None)


# ---- results of SPARQL


def as_sparql(columns: Sequence[str], rows: Iterable[Terms], fmt: str) -> str:
    """Return rows of terms in a result format of SPARQL: json, xml, csv or tsv."""
    return "".join(iter_sparql(columns, rows, fmt))


def iter_sparql(columns: Sequence[str], rows: Iterable[Terms], fmt: str) -> Iterator[str]:
    """Yield rows of terms in a result format of SPARQL: json, xml, csv or tsv."""
    check_name("Answer", "to_sparql", fmt, SPARQL_FORMATS)
    return {"json": _iter_json, "xml": _iter_xml, "csv": _iter_csv, "tsv": _iter_tsv}[fmt](columns, rows)


def boolean_as_sparql(value: bool, fmt: str) -> str:
    """Return the result of an ASK in a result format of SPARQL; CSV and TSV have none, so there it is the bare word."""
    check_name("Answer", "to_sparql", fmt, SPARQL_FORMATS)
    word = "true" if value else "false"
    if fmt == "json":
        return f'{{"head":{{}},"boolean":{word}}}\n'
    return f"{_XML_START}<head/>\n<boolean>{word}</boolean>\n</sparql>\n" if fmt == "xml" else f"{word}\n"


def _iter_json(columns: Sequence[str], rows: Iterable[Terms]) -> Iterator[str]:
    head = json.dumps({"vars": list(columns)}, ensure_ascii=False)
    yield f'{{"head": {head},\n"results": {{"bindings": [\n'
    separator = ""
    for row in rows:
        binding = {name: _json_term(term) for name, term in zip(columns, row, strict=True) if term is not None}
        yield separator + json.dumps(binding, ensure_ascii=False)
        separator = ",\n"
    yield "\n]}}\n"


def _json_term(term: Term) -> dict[str, Any]:
    import pyoxigraph as ox

    if isinstance(term, ox.NamedNode):
        return {"type": "uri", "value": term.value}
    if isinstance(term, ox.BlankNode):
        return {"type": "bnode", "value": term.value}
    if isinstance(term, ox.Triple):
        parts = {"subject": term.subject, "predicate": term.predicate, "object": term.object}
        return {"type": "triple", "value": {name: _json_term(part) for name, part in parts.items()}}
    literal = {"type": "literal", "value": term.value}
    if term.language is not None:
        literal["xml:lang"] = term.language
        if term.direction is not None:
            literal["its:dir"] = term.direction.value
    elif term.datatype.value != STRING:
        literal["datatype"] = term.datatype.value
    return literal


def _iter_xml(columns: Sequence[str], rows: Iterable[Terms]) -> Iterator[str]:
    variables = "".join(f'<variable name="{_escape("column", name)}"/>\n' for name in columns)
    yield f"{_XML_START}<head>\n{variables}</head>\n<results>\n"
    for row in rows:
        bindings = [
            f'<binding name="{_escape("column", name)}">{_xml_term(name, term)}</binding>\n'
            for name, term in zip(columns, row, strict=True)
            if term is not None
        ]
        yield f"<result>\n{''.join(bindings)}</result>\n"
    yield "</results>\n</sparql>\n"


def _xml_term(column: str, term: Term) -> str:
    import pyoxigraph as ox

    if isinstance(term, ox.Triple):
        parts = {"subject": term.subject, "predicate": term.predicate, "object": term.object}
        inner = "".join(f"<{name}>{_xml_term(column, part)}</{name}>" for name, part in parts.items())
        return f"<triple>{inner}</triple>"
    text = _escape(column, term.value)
    if isinstance(term, ox.NamedNode):
        return f"<uri>{text}</uri>"
    if isinstance(term, ox.BlankNode):
        return f"<bnode>{text}</bnode>"
    attributes = ""
    if term.language is not None:
        attributes = f' xml:lang="{term.language}"'
        if term.direction is not None:
            its = 'xmlns:its="http://www.w3.org/2005/11/its" its:version="2.0"'
            attributes += f' {its} its:dir="{term.direction.value}"'
    elif term.datatype.value != STRING:
        attributes = f' datatype="{_escape(column, term.datatype.value)}"'
    return f"<literal{attributes}>{text}</literal>"


def _escape(column: str, text: str) -> str:
    if re.search(_NOT_XML, text):
        advice = "Use sparql-json or sparql-tsv for these rows."
        raise WrongValue("XML", column, text, "text of the characters that XML has", advice)
    return _OUTER_BLANKS.sub(lambda blanks: "".join(f"&#{ord(c)};" for c in blanks[0]), text.translate(_XML_ESCAPES))


def _iter_csv(columns: Sequence[str], rows: Iterable[Terms]) -> Iterator[str]:
    lines = _Lines()
    writer = csv.writer(lines, lineterminator="\r\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(["" if term is None else _bare(term) for term in row])
        yield lines.take()
    yield lines.take()


def _bare(term: Term) -> str:
    import pyoxigraph as ox

    return term.value if isinstance(term, (ox.NamedNode, ox.Literal)) else str(term)


def _iter_tsv(columns: Sequence[str], rows: Iterable[Terms]) -> Iterator[str]:
    yield "\t".join(f"?{name}" for name in columns) + "\n"
    for row in rows:
        yield "\t".join("" if term is None else _turtle(term) for term in row) + "\n"


def _turtle(term: Term) -> str:
    import pyoxigraph as ox

    return f"<<( {term} )>>" if isinstance(term, ox.Triple) else str(term)
