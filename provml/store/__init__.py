"""The read side: the journals and the index over them, as one store that can be asked while runs go on.

home       the store itself
index      Oxigraph over the journals
reading    a journal read and lifted
kin        the journals of one run among each other
progress   how far the index has read, and the true status of a run
lock       who may write an index
fork       what a fork does to open stores
asking     questions of the catalog, with the names that people use
export     a run or all of it as RDF files
gc         what readers and indexers that were killed left behind
"""

from provml.store.home import RunInfo, Store, open_store

__all__ = ["RunInfo", "Store", "open_store"]
