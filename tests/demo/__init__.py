"""Tests of `provml.demo`."""
