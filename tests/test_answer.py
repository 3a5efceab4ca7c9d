"""An answer prints as a table that stays in line, and loses nothing as JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from provml.answer import WIDEST, Answer
from provml.values import IRI, Literal, Text

NAN, INF = float("nan"), float("inf")


def test_numbers_stand_under_each_other_and_words_at_the_left():
    table = str(Answer(["name", "loss"], [("alexnet", 0.5), ("vgg", 12.25), ("resnet", None)]))
    assert table.splitlines() == ["name      loss", "───────  ─────", "alexnet    0.5", "vgg      12.25", "resnet"]


def test_a_column_of_yes_and_no_is_no_column_of_numbers():
    assert str(Answer(["good"], [(True,), (False,)])).splitlines() == ["good", "─────", "true", "false"]


def test_characters_of_double_width_and_accents_keep_the_columns_in_line():
    lines = str(Answer(["name", "x"], [("花", "a"), ("e\u0301t", "b"), ("abcd", "c")])).splitlines()
    assert lines[2:] == ["花    a", "e\u0301t    b", "abcd  c"]


def test_text_cannot_break_a_table_or_steer_the_terminal():
    table = str(Answer(["said"], [("one\ntwo\x1b[2J",)]))
    assert table.splitlines()[2] == "one two\\x1b[2J"


def test_a_long_cell_is_cut_in_a_table_and_whole_elsewhere():
    answer = Answer(["said"], [("x" * 500,)])
    assert str(answer).splitlines()[2] == "x" * (WIDEST - 1) + "…"
    assert "x" * 500 in answer.to_csv()
    assert "x" * 500 in answer.to_json()


@pytest.mark.parametrize(
    ("iri", "shown"),
    [
        ("https://w3id.org/provml/run/r1/training/3", "run/r1/training/3"),
        ("https://w3id.org/provml#Training", "provml:Training"),
        ("http://www.w3.org/ns/prov#Entity", "prov:Entity"),
        ("http://example.org/flower", "http://example.org/flower"),
        ("https://w3id.org/provml/", "https://w3id.org/provml/"),
    ],
)
def test_a_table_shows_nodes_short_but_apart(iri: str, shown: str):
    assert str(Answer(["node"], [(IRI(iri),)])).splitlines()[2] == shown


def test_json_and_csv_have_values_that_can_be_read_back():
    when = datetime(2026, 11, 16, 2, 43, 26, 500, tzinfo=UTC)
    row = (0.1 + 0.2, 10**20, True, None, NAN, INF, -INF, when, Decimal("1.10"), IRI("http://a.b/c"), Text("ja", "de"))
    names = ["float", "int", "bool", "none", "nan", "inf", "minus", "when", "decimal", "iri", "text"]
    answer = Answer(names, [row])
    held = json.loads(answer.to_json())[0]
    assert held["float"] == 0.1 + 0.2
    assert held["int"] == 10**20
    assert held["bool"] is True
    assert held["none"] is None
    assert (held["nan"], held["inf"], held["minus"]) == ("NaN", "INF", "-INF")
    assert datetime.fromisoformat(held["when"]) == when
    assert (held["decimal"], held["iri"], held["text"]) == ("1.10", "http://a.b/c", "ja")
    line = next(csv.DictReader(io.StringIO(answer.to_csv())))
    assert float(line["float"]) == 0.1 + 0.2
    assert line["bool"] == "true"
    assert line["none"] == ""
    assert float(line["nan"]) != float(line["nan"])
    assert float(line["minus"]) == -INF


def test_csv_keeps_commas_quotes_and_breaks_inside_a_value():
    said = 'a "b", c\nd'
    assert list(csv.reader(io.StringIO(Answer(["said"], [(said,)]).to_csv()))) == [["said"], [said]]


def test_a_column_is_known_by_name_and_an_unknown_one_says_which_there_are():
    answer = Answer(["a", "b"], [(1, 2), (3, 4)])
    assert answer.column("b") == [2, 4]
    assert answer.to_dicts() == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert (len(answer), answer[1], list(answer)) == (2, (3, 4), [(1, 2), (3, 4)])
    with pytest.raises(KeyError, match="There is a, b"):
        answer.column("c")


def test_an_answer_without_rows_still_names_its_columns():
    empty = Answer(["run", "loss"], [])
    assert str(empty).splitlines()[0] == "run  loss"
    assert (empty.to_json(), empty.to_csv()) == ("[]", "run,loss\n")


def test_a_literal_of_an_unknown_datatype_is_shown_as_written():
    assert str(Answer(["x"], [(Literal("--11-16", "http://www.w3.org/2001/XMLSchema#gMonthDay"),)])).endswith("--11-16")
