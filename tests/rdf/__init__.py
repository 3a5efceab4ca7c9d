"""Tests of `provml.rdf`."""
