"""Example runs for questions: built event by event, with chosen times.

journal          a builder of journals
recorded         the same methods, recorded by a real run with a chosen clock and machine
asking           the graph of example runs, and queries on it
cases            the parameters of each golden answer
alexnet          the trainings whose numbers are in the papers
seismic          a life cycle from raw seismic files to models, with a domain graph
expected_values  the questions about the life cycle, answered in plain Python over the events
"""
