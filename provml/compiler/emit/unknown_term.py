"""Generate the shape that finds undefined terms in the namespaces of provml."""

from __future__ import annotations

from collections.abc import Iterable

import pyoxigraph as ox

from provml.compiler.sources import Source, split
from provml.rdf.namespaces import PROV, RDF, RDFS, SH, SHAPES, XSD

LABEL = "Terms are defined by the ontology"
COMMENT = (
    "Every class, property and role of the namespaces {namespaces} is defined by an ontology of provml: "
    "no question would find a misspelt term."
)
MESSAGE = (
    "The ontology defines no such {namespaces} term. Check the spelling in the vocabulary reference, "
    "or define the term in an ontology and a namespace of your own."
)


def unknown_term_shape(sources: Iterable[Source], namespaces: Iterable[str], header: str) -> str:
    """Return a shape that finds predicates, classes and roles of some namespaces that the sources do not define.

    Its queries group predicates and classes before they compare them, because there are few of them and many triples.
    """
    sources, namespaces = list(sources), sorted(namespaces)
    prefixes = {iri: name for source in sources for name, iri in source.prefixes.items() if iri in namespaces and name}
    defined = sorted(
        {
            node.value
            for source in sources
            for node, cell in source.subjects.items()
            if isinstance(node, ox.NamedNode) and split(node.value)[0] in namespaces and RDF + "type" in cell
        }
    )
    names = [f"{prefixes[split(iri)[0]]}:{split(iri)[1]}" for iri in defined]
    terms = ",".join(f"\n            {name}" for name in names)
    in_namespaces = " || ".join(f'STRSTARTS(STR(?value), "{iri}")' for iri in namespaces)
    prefixes_text = " and ".join(f"{prefixes[iri]}:" for iri in namespaces)
    declared = {**{prefixes[iri]: iri for iri in namespaces}, "prov": PROV, "rdf": RDF}
    declarations = " ,\n".join(
        f'        [ sh:prefix "{name}" ; sh:namespace "{iri}"^^xsd:anyURI ]' for name, iri in sorted(declared.items())
    )

    def constraint(name: str, pattern: str) -> str:
        return f'''shape:unknown-term-{name} a sh:SPARQLConstraint ;
    sh:prefixes shape:unknown-term ;
    sh:message "{MESSAGE.format(namespaces=prefixes_text.replace(" and ", " or "))}"@en ;
    sh:select """
        SELECT $this ?value WHERE {{ {pattern} }}
        GROUP BY $this ?value
        HAVING (({in_namespaces}) && ?value NOT IN ({terms}
        ))""" .
'''

    lines = "".join(
        f"@prefix {name}: <{iri}> .\n" for name, iri in {"rdfs": RDFS, "sh": SH, "shape": SHAPES, "xsd": XSD}.items()
    )
    return f"""{header}
{lines}
shape:unknown-term a sh:NodeShape ;
    rdfs:label "{LABEL}" ;
    rdfs:comment "{COMMENT.format(namespaces=prefixes_text)}" ;
    sh:targetNode <{namespaces[-1].rstrip("#")}> ;
    sh:severity sh:Violation ;
    sh:sparql shape:unknown-term-property , shape:unknown-term-class ;
    sh:declare
{declarations} .

{constraint("property", "?subject ?value ?object")}
{constraint("class", "?subject rdf:type|prov:hadRole ?value")}"""
