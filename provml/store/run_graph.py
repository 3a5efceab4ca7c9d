"""The graph of one run, mapped from its journals into memory.

This is several times faster than reading the run from an index on the disk, and needs memory for one run only.
"""

from __future__ import annotations

from pathlib import Path

import pyoxigraph as ox

from provml.journal.run_files import journals_of_run
from provml.journal.status import is_being_written
from provml.mapping import NewLinks
from provml.store.annotations import annotation_ntriples, read_annotations
from provml.store.checkpoint import JournalCheckpoint
from provml.store.journal_mapping import JournalSource, map_events
from provml.store.links import derive_links
from provml.store.run_status import RunJournals, run_status, status_ntriples
from provml.store.siblings import FirstJournalCache


def run_graph(home: Path, run_id: str, journals: RunJournals) -> ox.Store:
    """Return the triples of a run; `journals` is what the checkpoint of the index has of it."""
    store, first_journals, links = ox.Store(), FirstJournalCache(), NewLinks()
    for path in journals_of_run(home / "runs" / run_id):
        source = JournalSource(path.name, path, first_journals)
        for _, text in map_events(source, JournalCheckpoint(), links=links, is_over=not is_being_written(path)):
            store.bulk_load(text, format=ox.RdfFormat.N_TRIPLES, lenient=True)
    store.load(status_ntriples(journals, *run_status(home, journals)), format=ox.RdfFormat.N_TRIPLES)
    annotations = read_annotations(home, run_id).annotations
    store.load(annotation_ntriples(journals, annotations), format=ox.RdfFormat.N_TRIPLES)
    derive_links(store, links)
    return store
