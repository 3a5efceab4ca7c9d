"""Tests of the ontology files: reasoning and loading, pitfalls of modelling, texts."""
