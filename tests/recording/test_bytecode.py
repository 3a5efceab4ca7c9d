"""The loops of a function in its bytecode."""

from __future__ import annotations

import time

import pytest

from provml.recording.frames import knows_bytecode
from provml.recording.frames._bytecode import loops_in

pytestmark = pytest.mark.skipif(not knows_bytecode(), reason="the bytecode of this Python is not known")

FOR = """
    for i in range(3):
        a = [i, str(i)]
        if a:
            print(a)
"""
WHILE = """
    i = 0
    while i < 4:
        i += 1
        try:
            print(i)
        except ValueError:
            raise KeyError
"""


@pytest.mark.parametrize("loop", [FOR, WHILE], ids=["for", "while"])
def test_the_loops_of_a_long_function_are_listed_at_once(loop: str):
    namespace: dict[str, object] = {}
    exec("def function():" + loop * 400, namespace)
    began = time.process_time()
    loops = loops_in(namespace["function"].__code__)  # type: ignore[attr-defined]
    assert len(loops) == 400
    assert time.process_time() - began < 5, "it took half a minute when each loop read the whole function"
