"""Tests of `provml.store`."""
