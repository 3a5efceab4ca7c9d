"""Layouts: nothing overlaps, the past is above, the same input gives the same output, and large graphs are quick."""

from __future__ import annotations

import random
import time
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provml.drawing.compound import Frame, arrange_groups
from provml.drawing.layout import Gaps, Link, Size, arrange

LABEL = Size(50.0, 15.0)


def rectangles(centres: dict[str, tuple[float, float]], sizes: dict[str, Size]) -> dict[str, tuple[float, ...]]:
    return {
        name: (
            x - sizes[name].width / 2,
            y - sizes[name].height / 2,
            x + sizes[name].width / 2,
            y + sizes[name].height / 2,
        )
        for name, (x, y) in centres.items()
    }


def overlap(a: tuple[float, ...], b: tuple[float, ...], tolerance: float = 0.01) -> bool:
    return a[0] < b[2] - tolerance and b[0] < a[2] - tolerance and a[1] < b[3] - tolerance and b[1] < a[3] - tolerance


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[str, Size], list[Link]]:
    """Nodes of several sizes, and any links between them: also cycles, parallel links and loops."""
    count = draw(st.integers(1, 14))
    sizes = {
        f"n{index}": Size(draw(st.sampled_from([10.0, 80.0, 240.0])), draw(st.sampled_from([10.0, 60.0, 200.0])))
        for index in range(count)
    }
    pairs = draw(st.lists(st.tuples(st.sampled_from(sorted(sizes)), st.sampled_from(sorted(sizes))), max_size=25))
    return sizes, [Link(a, b, LABEL if draw(st.booleans()) else None) for a, b in pairs]


@given(graphs())
def test_nodes_and_labels_never_overlap(graph: tuple[dict[str, Size], list[Link]]):
    sizes, links = graph
    placement = arrange(sizes, links)
    boxes = rectangles(placement.centres, sizes)
    for number, route in enumerate(placement.routes):
        if route.label is not None:
            x, y = route.label
            boxes[f"label {number}"] = (x - 25, y - 7.5, x + 25, y + 7.5)
    for (first, a), (second, b) in combinations(boxes.items(), 2):
        assert not overlap(a, b), f"{first} overlaps {second}"
    for x0, y0, x1, y1 in boxes.values():
        assert x0 >= -0.01
        assert y0 >= -0.01
        assert x1 <= placement.size.width + 0.01
        assert y1 <= placement.size.height + 0.01


@given(graphs())
def test_a_link_goes_down_unless_it_closes_a_cycle(graph: tuple[dict[str, Size], list[Link]]):
    sizes, links = graph
    placement = arrange(sizes, links)
    for link, route in zip(links, placement.routes, strict=True):
        upper, lower = placement.centres[link.upper][1], placement.centres[link.lower][1]
        if link.upper != link.lower:
            assert (upper > lower) if route.reversed else (upper < lower)
    is_acyclic = all(int(link.upper[1:]) < int(link.lower[1:]) for link in links)
    if is_acyclic:
        assert not any(route.reversed for route in placement.routes)


@given(graphs())
def test_a_link_passes_beside_the_nodes(graph: tuple[dict[str, Size], list[Link]]):
    sizes, links = graph
    placement = arrange(sizes, links)
    boxes = rectangles(placement.centres, sizes)
    for route in placement.routes:
        for (x0, y0), (x1, y1) in route.points:
            assert x0 == x1
            for name, box in boxes.items():
                assert not overlap((x0, y0, x1 + 0.1, max(y1, y0 + 0.1)), box), f"a link crosses {name}"


@given(graphs())
def test_a_link_crosses_only_between_the_layers(graph: tuple[dict[str, Size], list[Link]]):
    """Where a link is not vertical, no node is beside it, however high its neighbours are."""
    sizes, links = graph
    placement = arrange(sizes, links)
    boxes = rectangles(placement.centres, sizes)
    for link, route in zip(links, placement.routes, strict=True):
        if link.upper == link.lower:
            continue
        upper, lower = (link.lower, link.upper) if route.reversed else (link.upper, link.lower)
        leave = (placement.centres[upper][0], route.leaves)
        enter = (placement.centres[lower][0], route.enters)
        pairs = [(leave, leave), *route.points, (enter, enter)]
        for (_, (x0, y0)), ((x1, y1), _) in pairwise(pairs):
            assert y0 < y1
            band = (min(x0, x1), y0, max(x0, x1) + 0.1, y1)
            for name, box in boxes.items():
                assert not overlap(band, box), f"the link from {upper} to {lower} crosses {name}"


@given(graphs())
def test_the_same_graph_gives_the_same_layout(graph: tuple[dict[str, Size], list[Link]]):
    assert arrange(*graph) == arrange(*graph)


@given(graphs(), st.integers(0, 3), st.randoms(use_true_random=False))
def test_groups_hold_their_nodes_and_no_others(
    graph: tuple[dict[str, Size], list[Link]], count: int, chance: random.Random
):
    sizes, links = graph
    group_of = {name: f"g{chance.randrange(count)}" for name in sizes if count and chance.random() < 0.7}
    frame = Frame(30.0, 10.0, 10.0, 60.0, Size(150.0, 90.0))
    placement = arrange_groups(sizes, links, group_of, dict.fromkeys(group_of.values(), frame))
    boxes = rectangles(placement.centres, sizes)
    assert boxes.keys() == sizes.keys()
    groups = {name: (b.x, b.y, b.x + b.width, b.y + b.height) for name, b in placement.boxes.items()}
    assert groups.keys() == set(group_of.values())
    for (first, a), (second, b) in combinations(boxes.items(), 2):
        assert not overlap(a, b), f"{first} overlaps {second}"
    for (first, a), (second, b) in combinations(groups.items(), 2):
        assert not overlap(a, b), f"{first} overlaps {second}"
    for group, (x0, y0, x1, y1) in groups.items():
        assert x1 - x0 >= 150
        assert y1 - y0 >= 90
        for name, box in boxes.items():
            if group_of.get(name) == group:
                assert x0 <= box[0]
                assert box[2] <= x1 + 0.01
                assert y0 <= box[1]
                assert box[3] <= y1 + 0.01
            else:
                assert not overlap((x0, y0, x1, y1), box), f"{name} is in the box of {group}"


def test_the_edges_of_a_box_are_exact():
    """Coordinates that are no binary fractions have rounding errors: the box was narrower than its least width."""
    sizes = {f"n{index}": Size(width, 10.0) for index, width in enumerate((80.0, 240.0, 240.0, 80.0))}
    links = [Link("n2", "n3"), Link("n3", "n1"), Link("n1", "n2")]
    frame = Frame(30.0, 10.0, 10.0, 60.0, Size(150.0, 90.0))
    box = arrange_groups(sizes, links, {"n3": "g"}, {"g": frame}).boxes["g"]
    assert (box.x + box.width) - box.x == 150.0
    assert (box.y + box.height) - box.y == 90.0


def test_a_chain_is_straight():
    sizes = {name: Size(width, 40.0) for name, width in (("a", 100.0), ("b", 240.0), ("c", 60.0), ("d", 120.0))}
    links = [Link("a", "b", LABEL), Link("b", "c", LABEL), Link("c", "d", LABEL)]
    placement = arrange(sizes, links)
    assert len({round(x, 3) for x, _ in placement.centres.values()}) == 1


def test_a_source_is_beside_what_uses_it():
    """Test data that only the last step uses is not at the top, far from it."""
    sizes = dict.fromkeys("abcdt", Size(80.0, 40.0))
    links = [Link("a", "b"), Link("b", "c"), Link("c", "d"), Link("t", "d")]
    centres = arrange(sizes, links).centres
    assert centres["t"][1] == centres["c"][1]


def test_no_nodes_have_no_size():
    assert arrange({}, []).size == Size(0.0, 0.0)


def random_graph(count: int) -> tuple[dict[str, Size], list[Link]]:
    chance = random.Random(1)
    sizes = {f"n{index}": Size(150.0, 60.0) for index in range(count)}
    links = [
        Link(f"n{max(0, index - chance.randint(1, 12))}", f"n{index}")
        for index in range(1, count)
        for _ in range(1 if chance.random() < 0.7 else 2)
    ]
    return sizes, links


@pytest.mark.parametrize("count", [300, 1000])
def test_large_graphs_are_laid_out_in_milliseconds(count: int):
    """About 25 and 50 ms of CPU time; the limit leaves space for slow machines."""
    graph = random_graph(count)
    start = time.process_time()
    placement = arrange(*graph)
    assert time.process_time() - start < 1.0
    assert len(placement.centres) == count


def test_gaps_are_respected():
    sizes = dict.fromkeys("abc", Size(50.0, 20.0))
    wide = arrange(sizes, [], gaps=Gaps(nodes=100.0))
    assert wide.size.width == 3 * 50 + 2 * 100
