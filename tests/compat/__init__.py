"""Tests of `provml.compat`."""
