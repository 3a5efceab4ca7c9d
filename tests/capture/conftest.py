"""Use one thread for the small networks of these tests: on few cores, several threads only wait for each other."""

import gc
import os

from hypothesis import given
from hypothesis import strategies as st

os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collection_finish() -> None:
    """Exclude what the frameworks loaded from garbage collection, which closing a store triggers."""
    given(st.none())(lambda nothing: None)()  # on 3.14, Hypothesis warns if it starts after the freeze
    gc.collect()
    gc.freeze()
