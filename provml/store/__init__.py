"""The read side: the journals and the index over them, as one store that can be asked while runs go on.

progress   how far the index has read, and the true status of a run
index      Oxigraph over the journals
export     a run or all of it as RDF files
"""

from provml.store.home import RunInfo, Store, open_store

__all__ = ["RunInfo", "Store", "open_store"]
