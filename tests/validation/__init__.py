"""Tests of `provml.validation`."""
