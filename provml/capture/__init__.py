"""Trainings of the common frameworks, recorded by a line or two on their public hooks: one file a framework.

No file here but its own imports a framework, and nothing is patched. A capture stands on the recorder's verbs, records
into a run of its own or one that it is given, and never changes what is trained.
"""
