"""Helpers of the tests of PROV-CONSTRAINTS."""
