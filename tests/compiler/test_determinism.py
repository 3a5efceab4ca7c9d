"""The same ontology gives the same bytes on any machine, in any order of statements, with any hash seed."""

from __future__ import annotations

import hashlib
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pyoxigraph as ox
import pytest

from provml import paths
from provml.compiler import own_files, stale, user_files
from provml.compiler.build import checkout
from provml.compiler.sources import BUNDLED

DIGEST = """
import hashlib
from provml.compiler import own_files
files, notes = own_files()
print(hashlib.sha256(repr((sorted((p.as_posix(), t) for p, t in files.items()), notes)).encode()).hexdigest())
"""


def test_output_does_not_depend_on_the_hash_seed():
    def run(seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(paths.PACKAGE.parent)}
        command = [sys.executable, "-c", DIGEST]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    files, notes = own_files()
    here = hashlib.sha256(repr((sorted((p.as_posix(), t) for p, t in files.items()), notes)).encode()).hexdigest()
    assert {run("0"), run("1"), run("4242")} == {f"{here}\n"}


def test_committed_files_are_up_to_date():
    assert stale(own_files()[0], checkout()) == []


@pytest.mark.parametrize("folder", ["docs/reference/vocabulary", "provml/vocab", "shapes/generated"])
def test_generated_folders_have_no_obsolete_files(folder):
    committed = {path.relative_to(checkout()) for path in (checkout() / folder).rglob("*") if path.is_file()}
    generated = {path for path in own_files()[0] if path.is_relative_to(folder)}
    assert {path for path in committed - generated if "__pycache__" not in path.parts} == set()


def test_output_contains_no_path_date_or_blank_node():
    for name, text in own_files()[0].items():
        for trace in (str(Path.cwd()), str(Path.home()) + "/", "file://", "/tmp/"):
            assert trace not in text, name
        assert not re.search(r"_:\w|c14n\d", text), name
        assert not re.search(r"Generated[^\n]*\b20\d\d-\d\d", text), name


def shuffled(source: Path, seed: int) -> bytes:
    """Return a file as N-Triples in another order, with other names of blank nodes."""
    names: dict[str, ox.BlankNode] = {}

    def renamed(node):
        if isinstance(node, ox.BlankNode):
            return names.setdefault(node.value, ox.BlankNode(f"n{random.getrandbits(64):x}"))
        return node

    quads = list(ox.parse(path=source, format=ox.RdfFormat.TURTLE))
    random.Random(seed).shuffle(quads)
    triples = [ox.Triple(renamed(quad.subject), quad.predicate, renamed(quad.object)) for quad in quads]
    return ox.serialize(triples, format=ox.RdfFormat.N_TRIPLES)


def as_foreign(data: bytes) -> bytes:
    """Return the ontology under another IRI, so that it compiles as a user's ontology."""
    for iri in BUNDLED:
        data = data.replace(f"<{iri}>".encode(), f"<http://example.org/{BUNDLED[iri]}>".encode())
    return data.replace(b"http://www.w3.org/ns/prov#", b"http://example.org/prov#")


@pytest.mark.parametrize("name", ["prov-o.ttl", "mls.ttl"])
def test_output_does_not_depend_on_the_order_of_triples(name, tmp_path):
    texts = set()
    for seed in range(4):
        path = tmp_path / str(seed) / "some.nt"
        path.parent.mkdir()
        path.write_bytes(as_foreign(shuffled(paths.ontologies() / name, seed)).replace(b"/ns/mls#", b"/ns/mls2#"))
        files, notes = user_files(
            [path], tmp_path / "some.py", shapes=tmp_path / "s.ttl", jsonld=tmp_path / "c.jsonld", docs=tmp_path / "d"
        )
        plain = [re.sub(r"sha256 [0-9a-f]{16}", "sha256", text) for text in files.values()]
        texts.add("\0".join([*plain, *sorted(re.sub(r":\d+:", ":", note) for note in notes)]))
    assert len(texts) == 1
    assert "class " in texts.pop()


def test_restrictions_in_any_order_give_the_same_fields(compile_turtle):
    only = """ex:{} rdfs:subClassOf [ owl:onProperty ex:n ; owl:allValuesFrom [
        a rdfs:Datatype ; owl:onDatatype xsd:integer ; owl:withRestrictions ( {} ) ] ] ."""
    lines = [
        "ex:A a owl:Class .",
        "ex:B a owl:Class ; rdfs:subClassOf ex:A .",
        "ex:n a owl:DatatypeProperty ; rdfs:domain ex:A ; rdfs:range xsd:integer , xsd:nonNegativeInteger .",
        only.format("A", "[ xsd:minInclusive 3 ] [ xsd:maxInclusive 9 ]"),
        only.format("B", "[ xsd:minInclusive 5 ]"),
    ]
    tables = set()
    for seed in range(6):
        random.Random(seed).shuffle(lines)
        field = compile_turtle("\n".join(lines)).B.FIELDS["n"]
        tables.add((field.limits, field.datatype))
    assert tables == {
        ((("maxInclusive", 9), ("minInclusive", 5)), "http://www.w3.org/2001/XMLSchema#nonNegativeInteger")
    }


def test_blank_nodes_of_two_files_are_different(compile_turtle):
    """Many tools name blank nodes by counting from zero."""
    first = compile_turtle.write(
        "ex:A a owl:Class . ex:p a owl:ObjectProperty ; rdfs:range _:b0 . _:b0 owl:unionOf ( ex:A ) ."
    )
    second = compile_turtle.write(
        "ey:B a owl:Class . ey:q a owl:ObjectProperty ; rdfs:range _:b0 . _:b0 owl:unionOf ( ey:B ) .", "two.ttl"
    )
    vocab = compile_turtle.compile(first, second)
    assert vocab.A.FIELDS["p"].ranges == (frozenset({"http://example.org/zoo#A"}),)
    assert vocab.B.FIELDS["q"].ranges == (frozenset({"http://example.org/other/B"}),)
