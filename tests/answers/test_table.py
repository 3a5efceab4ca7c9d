"""Tables for a terminal: texts are wrapped to a width, and rows become lists where columns would be too narrow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from provml.answers import Answer
from provml.answers.table import MIN_CELL_WIDTH, display_width, wrap_text
from provml.model.values import IRI

RUN = IRI("https://w3id.org/provml/run/20261118-045300-74a411/training")


def test_a_table_that_fits_is_not_changed():
    answer = Answer(["run", "loss"], [("a", 0.5), ("b", None)])
    assert answer.to_text(80) == str(answer)


def test_long_texts_are_wrapped_and_numbers_are_not():
    answer = Answer(["settings", "loss"], [("learning_rate=0.001, optimizer=Adam, batch_size=64", 0.123456)])
    lines = answer.to_text(32).splitlines()
    assert [line[24:].strip() for line in lines] == ["loss", "────────", "0.123456", "", ""]
    assert " ".join(line[:22].strip() for line in lines[2:]) == "learning_rate=0.001, optimizer=Adam, batch_ size=64"


def test_a_narrow_table_leaves_out_the_time_in_the_ids_of_runs():
    answer = Answer(["training", "loss"], [(RUN, 0.5)])
    assert "run/20261118-045300-74a411/training" in answer.to_text(80)
    assert "run/74a411/training" in answer.to_text(30)


def test_many_columns_become_a_list_of_values_without_the_empty_ones():
    names = [f"column {number}" for number in range(10)]
    rows = [("value " * 3, None, *range(8)), ("x", "y", *range(8))]
    lines = Answer(names, rows).to_text(40).splitlines()
    assert lines[:2] == ["column 0  value value value", "column 2  0"]
    assert lines[9:12] == ["", "column 0  x", "column 1  y"]


def test_a_long_message_is_complete_where_it_is_wrapped():
    message = "word " * 60 + "end"
    assert "end" in Answer(["error", "count"], [(message, 1)]).to_text(80)


@given(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z", "M"]) | st.just(" "), max_size=200))
def test_wrapped_text_fits_and_loses_nothing(text: str):
    lines = wrap_text(text, MIN_CELL_WIDTH)
    assert all(display_width(line) <= MIN_CELL_WIDTH for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())
