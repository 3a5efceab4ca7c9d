"""Hostile and broken ontologies: no code of theirs runs, no traceback is shown, and every compilation ends."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pyoxigraph as ox
import pytest

from provml.compiler import user_files, write
from provml.errors import OntologyError, ProvmlError
from provml.rdf.namespaces import OWL, RDF, RDFS, XSD

PREFIXES = (
    f"@prefix ex: <http://example.org/h#> . @prefix owl: <{OWL}> . @prefix rdfs: <{RDFS}> . @prefix xsd: <{XSD}> .\n"
)
TEXTS = (
    '"""\nimport os; os.mkdir("RAN")\n"""',
    "'''\n__import__('os').mkdir('RAN')\n'''",
    "\\",
    "{__import__('os').mkdir('RAN')}",
    "\r\nimport os; os.mkdir('RAN')",
    "\u2028import os; os.mkdir('RAN')",
    "#\n-->\n<script>alert(1)</script>",
)
NAMES = (
    "__import__('os').mkdir('RAN')",
    "x);import%20os",
    "'''",
    "__class__",
    "class",
    "__init__",
    "FIELDS",
    "eval",
    "Thing",
)
IMPORT = """
import pydoc, evil_vocab
from provml import rdf
classes = [each for name in evil_vocab.__all__ if isinstance(each := getattr(evil_vocab, name), type)]
for cls in classes:
    pydoc.render_doc(cls)
    rdf.ntriples(cls("urn:x")) if not cls.REQUIRED else None
print(len(classes))
"""


def literal(text: str) -> str:
    return str(ox.Literal(text))


def test_names_and_texts_of_an_ontology_never_become_code(tmp_path: Path):
    texts = ", ".join(map(literal, TEXTS))
    parts = [f"<http://example.org/h> a owl:Ontology ; rdfs:label {texts} ; rdfs:comment {texts} .\n"]
    for number, name in enumerate(NAMES):
        term, prop = f"<http://example.org/h#{name}>", f"<http://example.org/h#{name}P{number}>"
        parts.append(f"{term} a owl:Class ; rdfs:label {texts} ; rdfs:comment {texts} .\n")
        parts.append(
            f"{prop} a owl:DatatypeProperty ; rdfs:domain {term} ; rdfs:comment {texts} ; rdfs:label {texts} ;\n"
        )
        parts.append(f"  rdfs:range [ a rdfs:Datatype ; owl:oneOf ( {texts.replace(', ', ' ')} ) ] .\n")
        parts.append(f"<http://example.org/h#{name}I> a {term} ; rdfs:label {texts} .\n")
    path = tmp_path / "evil.ttl"
    path.write_text(PREFIXES + "".join(parts))
    outputs = {"shapes": tmp_path / "s.ttl", "jsonld": tmp_path / "c.jsonld", "docs": tmp_path / "docs"}
    files, _ = user_files([path], tmp_path / "evil_vocab.py", **outputs)
    write(files)
    command = [sys.executable, "-W", "error", "-c", IMPORT]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert process.returncode == 0, process.stderr
    assert int(process.stdout) == len(NAMES)
    assert not (tmp_path / "RAN").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("".join(f"ex:C{i} a owl:Class ; rdfs:subClassOf ex:C{(i + 1) % 50_000} .\n" for i in range(50_000)), "cycle"),
        ("".join(f"ex:C{i} a owl:Class ; rdfs:subClassOf ex:C{i + 1} .\n" for i in range(5000)), "1,000 terms above"),
        (
            f"ex:A a owl:Class ; rdfs:subClassOf {'[ owl:complementOf ' * 999}ex:A{' ]' * 999} .",
            "nested in more than",
        ),
    ],
    ids=["cycle", "chain", "nesting"],
)
def test_an_endless_hierarchy_is_refused_at_once(tmp_path: Path, text: str, message: str):
    path = tmp_path / "deep.ttl"
    path.write_text(PREFIXES + text)
    with pytest.raises(OntologyError, match=message):
        user_files([path], tmp_path / "vocab.py")


def test_a_literal_of_ten_megabytes_is_compiled(tmp_path: Path):
    path = tmp_path / "long.ttl"
    path.write_text(f"{PREFIXES} ex:A a owl:Class ; rdfs:comment '{'x' * 10_000_000}' .")
    files, _ = user_files([path], tmp_path / "vocab.py")
    assert len(files[tmp_path / "vocab.py"]) > 10_000_000


TERMS = [
    *(f"{OWL}{name}" for name in ("Class", "ObjectProperty", "DatatypeProperty", "Restriction", "Ontology", "unionOf")),
    *(
        f"{OWL}{name}"
        for name in ("onProperty", "someValuesFrom", "hasValue", "cardinality", "equivalentClass", "oneOf")
    ),
    *(
        f"{OWL}{name}"
        for name in ("inverseOf", "equivalentClass", "onDatatype", "withRestrictions", "propertyChainAxiom")
    ),
    *(f"{RDFS}{name}" for name in ("subClassOf", "subPropertyOf", "domain", "range", "label", "Datatype")),
    *(f"{RDF}{name}" for name in ("type", "first", "rest", "nil")),
]
VALUES = ("", "-1", "9" * 30, "x" * 1000, "\x01", "]]>")


def mutate(quads: list[ox.Quad], generator: random.Random) -> list[ox.Quad]:
    """Return a graph in which some triples are removed, added or changed."""
    nodes = [node for quad in quads for node in (quad.subject, quad.object)]
    terms = [ox.NamedNode(term) for term in TERMS]
    mutated = list(quads)
    for _ in range(generator.randint(1, 12)):
        quad = mutated.pop(generator.randrange(len(mutated)))
        subject, predicate, value = quad.subject, quad.predicate, quad.object
        kind = generator.randrange(5)
        if kind == 0:
            value = generator.choice(nodes + terms * 3)
        elif kind == 1:
            subject = generator.choice([node for node in nodes if not isinstance(node, ox.Literal)])
        elif kind == 2:
            predicate = generator.choice(terms)
        elif kind == 3:
            datatype = ox.NamedNode(XSD + generator.choice(["integer", "nonNegativeInteger", "string", "no"]))
            value = ox.Literal(generator.choice(VALUES), datatype=datatype)
        if kind < 4:
            mutated.append(ox.Quad(subject, predicate, value))
    return mutated


@pytest.mark.parametrize("seed", range(3))
def test_a_mutated_ontology_compiles_or_is_refused_with_a_reason(tmp_path: Path, seed: int):
    ontologies = Path(__file__).parents[2] / "ontologies"
    quads = list(ox.parse(path=ontologies / "mls.ttl", format=ox.RdfFormat.TURTLE))
    text = (ontologies / "mls.ttl").read_bytes()
    generator, path = random.Random(seed), tmp_path / "mutated.ttl"
    outputs = {"shapes": tmp_path / "s.ttl", "jsonld": tmp_path / "c.jsonld", "docs": tmp_path / "docs"}
    compiled = 0
    for number in range(40):
        if number % 2:
            path.write_bytes(ox.serialize(mutate(quads, generator), format=ox.RdfFormat.TURTLE) or b"")
        else:
            position = generator.randrange(len(text))
            path.write_bytes(text[:position] + generator.randbytes(2) + text[position + generator.randrange(80) :])
        try:
            files, _ = user_files([path], tmp_path / "vocab.py", **outputs)
        except ProvmlError:
            continue
        compile(files[tmp_path / "vocab.py"], "vocab.py", "exec")
        compile(files[tmp_path / "vocab.pyi"], "vocab.pyi", "exec")
        list(ox.parse(files[tmp_path / "s.ttl"], format=ox.RdfFormat.TURTLE))
        compiled += 1
    assert compiled
