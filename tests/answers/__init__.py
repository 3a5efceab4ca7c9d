"""Tests of `provml.answers`."""
