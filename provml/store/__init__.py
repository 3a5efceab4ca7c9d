"""The read side: the journals and the index over them, as one store that can be asked while runs go on.

home       the store itself
index      Oxigraph over the journals
reading    a journal read and lifted
kin        the journals of one run among each other
progress   how far the index has read
standing   how each run stands, and the graph kept true to that
adding     what is added by hand, and its way into the index
keeping    taking in from a thread, where that is asked for
pace       how much memory a load may take
lock       who may write an index
fork       what a fork does to open stores
asking     questions of the catalog
naming     the names that people use, and the nodes they stand for
guard      what a query may be
apart      a query in a process of its own, which can be ended
export     a run or all of it as RDF files
checking   a run or all of it, held to shapes
upkeep     journals verified, runs removed, a home copied
gc         what readers and indexers that were killed left behind
"""

from provml.store.home import RunInfo, Store, open_store

__all__ = ["RunInfo", "Store", "open_store"]
