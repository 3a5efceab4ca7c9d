"""Tests of `provml.mapping`."""
