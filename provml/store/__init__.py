"""The read side: an index over the journals of a home that can be queried while runs are active.

store            the store itself
remote           the store of a service
endpoint         the store of a SPARQL endpoint, and the way of journals there
opening          open any of them
execute          checks, limits and errors of a query
questions        questions of the catalog
name_lookup      the nodes that names refer to
backend          the protocol of an engine, and the embedded Oxigraph
dialects         the table of SPARQL engines: addresses, rewrites, what each cannot do
index            the index and its checkpoint: open, copy, snapshot
file_checksums   checksums of the data files of an index
healing          rebuild a damaged index, and start again
index_comparison where the index disagrees with the journals
sync             from the journals to the index: discover, read, map, load
journal_mapping  new events of one journal as N-Triples
mapping_process  the mapping of many events in a process of its own
chunk_stream     N-Triples as a file, mapped while it is loaded
siblings         the journals of one run
checkpoint       how far the index has read
sealed_runs      what the index remembers of runs that have ended
statements       digests of what each run states about nodes that it shares with others
background_rebuild  rebuild a large index of another version while it still answers
removal          remove runs from an index without a rebuild
run_status       the status of each run, and its statements in the graph
run_info         the summary of a run
run_table        the runs by hyperparameters and measures
run_filter       conditions on the rows of that table
compare          what differs between runs
leakage          the trainings that learned from data of their evaluation
annotations      tags, notes and names of runs
artifacts        contents that runs have stored
run_graph        the graph of one run, in memory
run_tables       stages, settings, measures, data and models of a run as tables
run_facts        what a report says about a run, and what is missing
run_report       a report about a run
curves           measures and settings of runs by epoch
lineage_walk     the steps and data behind a node, or after it
lineage          the lineage of a thing, described for a picture
imports          files that were added by hand
loaded_graphs    the graphs of those files, and the replacement of their content
background_sync  sync in a thread
memory_throttle  the memory of a bulk load
lock             the write lock of an index
fork             open stores in forked children
query_guard      what a query may be
query_process    a query in a process of its own
query_worker     a process that executes many queries on a copy of the index
export           a run or all as RDF
export_formats   the table of all export formats
exporting        an export to any format: checks, atomic writes, the result
validate         a run or all against shapes
maintenance      verify journals, remove runs, copy a home
gc               remove temporary files of dead processes
"""

from provml.journal.annotations import Annotation
from provml.store.artifacts import Artifact
from provml.store.opening import open_store
from provml.store.run_info import RunInfo
from provml.store.store import Store

__all__ = ["Annotation", "Artifact", "RunInfo", "Store", "open_store"]
