"""Limits of ontologies are checked in linear time, and do not refuse what people write."""

from __future__ import annotations

import pytest
from pyoxigraph import BlankNode

from provml.compiler.limits import MAX_NESTING, _is_nested_deeper


def chain(length: int) -> dict[object, list[object]]:
    nodes = [BlankNode(f"b{number}") for number in range(length + 1)]
    return {nodes[number]: [nodes[number + 1]] for number in range(length)}


A, B, C = (BlankNode(name) for name in "abc")


@pytest.mark.parametrize(
    ("children", "is_deeper"),
    [
        ({}, False),
        (chain(MAX_NESTING), False),
        (chain(MAX_NESTING + 1), True),
        (chain(50_000), True),
        ({A: [A]}, False),
        ({A: [B], B: [A]}, True),
        ({A: [B, B, C], B: [C]}, False),
        ({A: [A], B: [B]}, True),
    ],
)
def test_nesting_is_limited(children: dict[object, list[object]], is_deeper: bool):
    assert _is_nested_deeper(children, MAX_NESTING) is is_deeper
