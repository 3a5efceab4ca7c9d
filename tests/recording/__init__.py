"""Tests of `provml.recording`."""
