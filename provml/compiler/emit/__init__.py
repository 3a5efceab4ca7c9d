"""Generators: Python, SHACL, JSON-LD context, pages, pictures, one merged ontology file."""
