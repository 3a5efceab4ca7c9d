"""Ontology in, files out: typed Python modules, SHACL shapes, a JSON-LD context and vocabulary pages.

    place       where in a text a term stands
    source      files and their imports, as read
    language    the words of RDF, RDFS, OWL and XML Schema
    expression  what OWL says with blank nodes about classes
    datarange   what it says about data
    naming      Python names for terms
    schema      classes, properties and individuals, as all the rooms below know them
    terms       which of them there are
    linking     what follows for them
    fields      which fields a class has
    python, shapes, context, pages, picture     a schema as text
    known       the terms there are, as a shape that finds others
    output      which files, and whether they are stale

Data flows down that list; only `output` writes.
"""

from provml.compiler.output import check, own_files, stale, user_files, write

__all__ = ["check", "own_files", "stale", "user_files", "write"]
