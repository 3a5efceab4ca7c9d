"""Tests of the compiler through the modules, shapes, contexts and pages that it writes."""
