"""Loaded literals are exported as they were written, although Oxigraph stores them by value."""

from __future__ import annotations

from pathlib import Path

import pyoxigraph as ox

from provml.store.store import Store

XSD = "http://www.w3.org/2001/XMLSchema#"
WRITTEN = [
    ("4", "int"), ("7", "byte"), ("300", "byte"), ("2024-01-01T00:00:00Z", "dateTimeStamp"), ("04", "integer"),
    ("4.00", "decimal"), ("1e3", "double"), ("1", "boolean"), ("PT60S", "duration"), ("4", "integer"), ("x", "int"),
    ("2024-01-01T00:00:00.000+02:00", "dateTime"), ("1.50", "float"), ("a", "string"), ("2024", "gYear"),
]  # fmt: skip


def test_datatypes_and_texts_survive_a_round_trip(tmp_path: Path):
    lines = [f'<urn:s{n}> <urn:p> "{text}"^^<{XSD}{name}> .' for n, (text, name) in enumerate(WRITTEN)]
    lines += [f'<urn:both> <urn:p> "4"^^<{XSD}{name}> .' for name in ("int", "integer")]
    source, result = tmp_path / "data.nt", tmp_path / "out.nt"
    source.write_text("\n".join(lines) + "\n")
    with Store(tmp_path / "home", create=True) as store:
        store.load(source)
        store.load(source, graph="urn:g")
        assert store.export(None, result) == len(lines)
        store.export(None, tmp_path / "out.nq")
        assert str(store.query("SELECT ?o { <urn:s0> <urn:p> ?o }").rows[0][0]) == "4"  # type: ignore[union-attr]

    def literals(path: Path, rdf_format: ox.RdfFormat) -> set[str]:
        return {str(quad) for quad in ox.parse(path=str(path), format=rdf_format)}

    expected = literals(source, ox.RdfFormat.N_TRIPLES)
    assert literals(result, ox.RdfFormat.N_TRIPLES) == expected
    assert len(literals(tmp_path / "out.nq", ox.RdfFormat.N_QUADS)) == 2 * len(expected)
