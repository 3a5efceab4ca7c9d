"""The calls of the systems that came before, on the recorder: a script of theirs records here by another import."""
