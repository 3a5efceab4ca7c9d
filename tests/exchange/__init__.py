"""Tests of `provml.exchange`."""
