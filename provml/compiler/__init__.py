"""Compile an ontology into typed Python modules, SHACL shapes, a JSON-LD context and vocabulary pages.

    positions          lines of terms in a text
    limits             hierarchies and expressions that are too deep
    problems           what a file lacks, and what is assumed instead
    owl_syntax         functional syntax, Manchester syntax and OWL/XML
    sources            ontology files and their imports
    builtins           the terms of RDF, RDFS, OWL and XML Schema
    class_expressions  unions, intersections and restrictions
    data_ranges        datatypes, facets and enumerations
    naming             Python names of terms
    schema             classes, properties and individuals
    well_known         facts about FOAF, DCMI, SKOS, vCard and schema.org
    references         terms in use, and the declaration of those that nobody declares
    collect            which terms there are
    infer              the trees of classes and properties
    fields             the fields of each class
    emit               generators: Python, SHACL, JSON-LD context, pages, pictures, one merged file
    build              which files there are, and whether they are stale

Imports go up this list. Only `build` writes files.
"""

from provml.compiler.build import check, own_files, stale, user_files, write

__all__ = ["check", "own_files", "stale", "user_files", "write"]
