"""Typed RDF nodes, their fields and their values."""
