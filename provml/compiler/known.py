"""The terms that our namespaces hold, as a shape that finds what uses any other."""

from __future__ import annotations

from collections.abc import Iterable

import pyoxigraph as ox

from provml.compiler.source import RDF, XSD, Source, split

SH = "http://www.w3.org/ns/shacl#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
PROV = "http://www.w3.org/ns/prov#"
SHAPE = "https://w3id.org/provml/shape/"
LABEL = "Every term of ours is one that the ontology defines"
COMMENT = (
    "Nothing uses a class, a property or a role of the namespaces {spaces} that no ontology of ours defines: "
    "a word that is misspelt would never be found by a question."
)
MESSAGE = (
    "Every {spaces} term is one that the ontology defines. This one is not: check its spelling in docs/vocabulary, "
    "or define it in an ontology of your own, under a namespace of your own."
)


def known_terms(sources: Iterable[Source], namespaces: Iterable[str], header: str) -> str:
    """A shape that finds predicates, classes and roles of some namespaces that the sources say nothing of.

    Predicates and classes are grouped before they are compared, since there are few of them and many triples.
    """
    sources, namespaces = list(sources), sorted(namespaces)
    prefixes = {iri: name for source in sources for name, iri in source.prefixes.items() if iri in namespaces and name}
    spaces = " and ".join(f"{prefixes[iri]}:" for iri in namespaces)
    known = sorted(
        {
            node.value
            for source in sources
            for node, said in source.subjects.items()
            if isinstance(node, ox.NamedNode) and split(node.value)[0] in namespaces and RDF + "type" in said
        }
    )
    names = [f"{prefixes[split(iri)[0]]}:{split(iri)[1]}" for iri in known]
    listed = "".join(f"\n            {name}{',' if name != names[-1] else ''}" for name in names)
    ours = " || ".join(f'STRSTARTS(STR(?value), "{iri}")' for iri in namespaces)
    declared = {**{prefixes[iri]: iri for iri in namespaces}, "prov": PROV, "rdf": RDF}
    declares = " ,\n".join(
        f'        [ sh:prefix "{name}" ; sh:namespace "{iri}"^^xsd:anyURI ]' for name, iri in sorted(declared.items())
    )

    def constraint(name: str, pattern: str) -> str:
        return f'''shape:known-term-{name} a sh:SPARQLConstraint ;
    sh:prefixes shape:known-term ;
    sh:message "{MESSAGE.format(spaces=spaces)}"@en ;
    sh:select """
        SELECT $this ?value WHERE {{ {pattern} }}
        GROUP BY $this ?value
        HAVING (({ours}) && ?value NOT IN ({listed}
        ))""" .
'''

    heads = {"rdfs": RDFS, "sh": SH, "shape": SHAPE, "xsd": XSD}
    lines = "".join(f"@prefix {name}: <{iri}> .\n" for name, iri in heads.items())
    return f"""{header}
{lines}
shape:known-term a sh:NodeShape ;
    rdfs:label "{LABEL}" ;
    rdfs:comment "{COMMENT.format(spaces=spaces)}" ;
    sh:targetNode <{namespaces[-1].rstrip("#")}> ;
    sh:severity sh:Violation ;
    sh:sparql shape:known-term-property , shape:known-term-class ;
    sh:declare
{declares} .

{constraint("property", "?subject ?value ?object")}
{constraint("class", "?subject rdf:type|prov:hadRole ?value")}"""
