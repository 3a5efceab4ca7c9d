"""Journals: events, the files that hold them, and the status of a run."""
