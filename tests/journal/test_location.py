"""Locations: what is written is parsed again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provml.journal.location import MAX_INDEX, Location, split_batch

NAME = st.text(st.characters(codec="utf-8", exclude_characters="/@"), min_size=1, max_size=20)
WRITER = st.just("") | NAME
INDEX = st.integers(0, MAX_INDEX)
LOCATION = st.one_of(
    st.builds(Location, NAME, st.none(), st.none(), WRITER),
    st.builds(Location, NAME, INDEX, st.none(), WRITER),
    st.builds(Location, NAME, INDEX, INDEX, WRITER),
)


@given(LOCATION)
def test_a_location_is_parsed_from_its_text(location: Location) -> None:
    assert Location.parse(str(location)) == location


@given(st.text(max_size=30))
def test_a_text_is_a_location_or_refused(text: str) -> None:
    try:
        location = Location.parse(text)
    except ValueError:
        return
    assert str(location) == text


def test_the_parts_of_a_location() -> None:
    location = Location.parse("training@host-1/3/17")
    assert location == Location("training", 3, 17, "host-1")
    assert location.stage_location == "training@host-1"
    assert location.section_location == "training@host-1/3"
    assert split_batch(str(location)) == ("training@host-1/3", 17)
    assert Location.parse("clean").section_location == "clean"


@pytest.mark.parametrize("text", ["training/x", "training/03", "training/1/2/3", "training//1", "training@/1", "a/1.0"])
def test_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a location"):
        Location.parse(text)


@pytest.mark.parametrize("index", ["-1", str(MAX_INDEX + 1), "9" * 5000, "x"])
def test_an_index_is_a_number_that_a_checkpoint_can_hold(index: str) -> None:
    for text in (f"training/{index}", f"training/1/{index}"):
        with pytest.raises(ValueError):
            Location.parse(text)
    with pytest.raises(ValueError):
        split_batch(f"training/1/{index}")
