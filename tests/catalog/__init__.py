"""Tests of `provml.catalog`."""
