"""Tests of `provml.cli`."""
