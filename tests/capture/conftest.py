"""Networks this small are trained by one thread: several on few cores only wait for each other."""

import gc
import os

from hypothesis import given
from hypothesis import strategies as st

os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collection_finish() -> None:
    """What the frameworks have loaded stays: closing a store sweeps, and need not look through all of it each time."""
    given(st.none())(lambda nothing: None)()  # on 3.14, Hypothesis warns where it begins with what holds it frozen
    gc.collect()
    gc.freeze()
