"""A SPARQL 1.1 endpoint as the place of the graph: the same store over HTTP, and the way of the journals there.

address       the URL of an endpoint, its options and credentials
client        requests: queries, updates, graphs; authentication, retries and errors
backend       the endpoint as the engine of a store
run_nodes     the runs of an endpoint, and the graph of each
store         the store
remote_quads  single patterns of triples, fetched together
progress      what of each run is at the endpoint, written there
sync          from the journals of a home to the endpoint
removal       remove a run
bulk_files    files for the bulk loaders of engines
"""
