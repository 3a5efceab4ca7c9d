"""Tests of `provml.model`."""
