"""Tests of `provml.journal`."""
