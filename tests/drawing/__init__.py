"""Tests of the pictures: layout, provenance graphs, charts and documents, without a store."""
