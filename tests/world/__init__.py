"""Worlds to ask questions in: runs told event by event, at times of our choosing.

journal     a run as its events, written as a real journal
recorded    the same verbs, said to a recorder with a clock and a machine of our choosing
asking      a world as a graph, and a question to it
alexnet     the trainings whose numbers the papers print
seismic     a life cycle from raw seismic files to models, with a domain graph
reckoning   the questions about the life cycle, answered in plain Python over the events
"""
