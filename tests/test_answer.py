"""An answer prints as a table that stays in line, and loses nothing as JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
import pickle
import re
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from xml.etree import ElementTree

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from provml.answer import WIDEST, Answer, Curve
from provml.answer.form import truth_as_sparql
from provml.errors import MissingPart, NotACurve, WrongType, WrongValue
from provml.rdf import XSD
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
    assert (held["decimal"], held["iri"], held["text"]) == (1.1, "http://a.b/c", "ja")
    line = next(csv.DictReader(io.StringIO(answer.to_csv())))
    assert float(line["float"]) == 0.1 + 0.2
    assert line["bool"] == "true"
    assert line["none"] == ""
    assert float(line["nan"]) != float(line["nan"])
    assert float(line["minus"]) == -INF
    assert line["decimal"] == "1.10"


def test_decimals_are_numbers_wherever_an_answer_goes():
    mean = Decimal("1.333333333333333333")
    answer = Answer(["mean"], [(mean,), (Decimal(12),)])
    assert str(answer) == "   mean\n───────\n1.33333\n     12"
    assert json.loads(answer.to_json()) == [{"mean": 4 / 3}, {"mean": 12}]
    assert json.loads(Answer(["huge"], [(Decimal("1E+999"),)]).to_json()) == [{"huge": "1E+999"}]
    assert answer.to_csv() == "mean\n1.333333333333333333\n12\n"
    assert answer.to_pandas()["mean"].tolist() == answer.to_polars()["mean"].to_list() == [4 / 3, 12.0]


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


# ---- order and parts


def test_rows_are_sorted_with_what_is_missing_last_in_both_directions():
    answer = Answer(["run", "loss"], [("a", None), ("b", 2.0), ("c", NAN), ("d", 1), ("e", Decimal("1.5")), ("f", INF)])
    assert [row[0] for row in answer.sorted("loss")] == ["d", "e", "b", "f", "c", "a"]
    assert [row[0] for row in answer.sorted("loss", reverse=True)] == ["f", "b", "e", "d", "c", "a"]
    assert answer.rows[0] == ("a", None)
    with pytest.raises(KeyError, match="There is run, loss"):
        answer.sorted("accuracy")


def test_rows_are_sorted_by_several_columns_and_stay_in_order_where_these_are_equal():
    answer = Answer(["a", "b", "c"], [(2, 1, "x"), (1, 2, "y"), (2, 1, "z"), (1, 1, "w")])
    assert [row[2] for row in answer.sorted(["a", "b"])] == ["w", "y", "x", "z"]
    assert [row[2] for row in answer.sorted(["a", "b"], reverse=True)] == ["x", "z", "y", "w"]


ANY = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.text(),
    st.datetimes(),
    st.datetimes(timezones=st.just(UTC)),
    st.dates(),
    st.times(),
    st.times(timezones=st.just(UTC)),
    st.timedeltas(),
    st.just(IRI("http://example.org/a")),
    st.just(Text("a", "en")),
    st.just(Literal("--11-16", "http://www.w3.org/2001/XMLSchema#gMonthDay")),
)


@given(st.lists(st.tuples(ANY, st.integers())), st.booleans())
def test_values_of_any_kinds_can_be_sorted_and_none_is_lost(rows: list[tuple[object, int]], reverse: bool):
    ordered = Answer(["x", "n"], rows).sorted("x", reverse=reverse)
    assert Counter(map(id, ordered)) == Counter(map(id, rows))
    places = [row[0] is None for row in ordered]
    assert places == sorted(places)


def test_a_slice_is_an_answer():
    answer = Answer(["n"], [(n,) for n in range(5)])
    assert answer[1:3].rows == [(1,), (2,)]
    assert answer[::-1].columns == ["n"]
    assert answer[-1] == (4,)


# ---- notebooks


def test_a_notebook_shows_values_as_text_and_numbers_at_the_right():
    html = Answer(["<b>", "n"], [("<script>alert(1)</script>", 1.5), (IRI("https://w3id.org/provml#Model"), None)])
    shown = html._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert "&lt;b&gt;" in shown
    assert '<td style="text-align: right">1.5</td>' in shown
    assert 'title="https://w3id.org/provml#Model">provml:Model</td>' in shown
    assert [each.tag for each in ElementTree.fromstring(shown)] == ["thead", "tbody"]


def test_a_long_answer_is_cut_in_a_notebook_and_at_the_prompt_and_says_so():
    answer = Answer(["n"], [(n,) for n in range(763)])
    for shown in (answer._repr_html_(), repr(answer)):
        assert "713 more rows" in shown
        assert "762" not in shown
    assert "762" in str(answer)
    assert "more" not in repr(answer[:50])


# ---- the result formats of SPARQL, judged by Oxigraph's reading of them

NODES = st.sampled_from(["http://example.org/a", "http://example.org/?a&b=<", "urn:x:é"]).map(
    lambda iri: ox.NamedNode(iri.replace("<", ""))
)
XML_TEXT = st.text(
    st.characters(
        codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff", include_characters="\t\n\r"
    )
)
LITERALS = st.one_of(
    st.builds(ox.Literal, XML_TEXT),
    st.builds(lambda text, tag: ox.Literal(text, language=tag), XML_TEXT, st.sampled_from(["en", "pt-br"])),
    st.builds(
        lambda text, kind: ox.Literal(text, datatype=ox.NamedNode(kind)),
        XML_TEXT,
        st.sampled_from([f"{XSD}double", f"{XSD}int", "http://example.org/kind"]),
    ),
    st.just(ox.Literal("a", language="en", direction=ox.BaseDirection.LTR)),
)
TERMS = st.one_of(
    st.none(),
    NODES,
    LITERALS,
    st.just(ox.BlankNode("b1")),
    st.builds(ox.Triple, NODES, NODES, LITERALS),
)
FORMATS = {"json": ox.QueryResultsFormat.JSON, "xml": ox.QueryResultsFormat.XML, "tsv": ox.QueryResultsFormat.TSV}


@pytest.mark.parametrize("form", FORMATS)
@given(st.lists(st.tuples(TERMS, TERMS), max_size=5))
def test_terms_are_written_so_that_another_reads_the_same(form: str, rows: list[tuple[Any, ...]]):
    answer = Answer.from_terms(["a", "b"], rows)
    read = ox.parse_query_results(answer.to_sparql(form).encode(), format=FORMATS[form])
    assert isinstance(read, ox.QuerySolutions)
    assert [variable.value for variable in read.variables] == ["a", "b"]
    assert [tuple(row) for row in read] == rows


def test_values_without_terms_are_written_as_the_terms_that_they_make():
    answer = Answer(
        ["n", "x", "s", "i"], [(1, NAN, Text("ja", "de"), IRI("http://example.org/a")), (None, -INF, "", None)]
    )
    read = ox.parse_query_results(answer.to_sparql("xml").encode(), format=ox.QueryResultsFormat.XML)
    assert isinstance(read, ox.QuerySolutions)
    rows = [[None if term is None else str(term) for term in row] for row in read]
    assert rows == [
        [f'"1"^^<{XSD}integer>', f'"NaN"^^<{XSD}double>', '"ja"@de', "<http://example.org/a>"],
        [None, f'"-INF"^^<{XSD}double>', '""', None],
    ]


def test_a_row_keeps_its_terms_when_it_is_sorted_picked_added_to_or_pickled():
    short, long = (ox.Literal(text, datatype=ox.NamedNode(f"{XSD}decimal")) for text in ("1.50", "2.500"))
    answer = Answer.from_terms(["n"], [(long,), (short,)])
    assert answer.sorted("n").terms() == [(short,), (long,)]
    assert answer[1:].terms() == [(short,)]
    assert pickle.loads(pickle.dumps(answer)).sorted("n").terms() == [(short,), (long,)]
    answer.rows.insert(0, (3,))
    assert [str(row[0]) for row in answer.terms()] == [f'"3"^^<{XSD}integer>', str(long), str(short)]


def test_sparql_csv_is_as_w3c_writes_it():
    answer = Answer.from_terms(
        ["a", "b"], [(ox.Literal('x,"y"\n'), None), (ox.NamedNode("http://a/b"), ox.BlankNode("c"))]
    )
    assert answer.to_sparql("csv") == 'a,b\r\n"x,""y""\n",\r\nhttp://a/b,_:c\r\n'


def test_what_xml_cannot_hold_and_a_format_that_is_none_are_told():
    answer = Answer(["said"], [("a\x00b",)])
    with pytest.raises(WrongValue, match="sparql-json"):
        answer.to_sparql("xml")
    assert json.loads(answer.to_sparql("json"))["results"]["bindings"][0]["said"]["value"] == "a\x00b"
    with pytest.raises(WrongValue, match="json, xml, csv, tsv"):
        answer.to_sparql("yaml")


def test_rows_that_are_no_triples_are_no_rdf():
    with pytest.raises(WrongType, match=r"takes the triples of CONSTRUCT or DESCRIBE, not 'the columns a, b'"):
        Answer(["a", "b"], [(1, 2)]).to_rdf()


@pytest.mark.parametrize("truth", [True, False])
def test_yes_and_no_are_written_so_that_another_reads_the_same(truth: bool):
    for form in FORMATS:
        read = ox.parse_query_results(truth_as_sparql(truth, form).encode(), format=FORMATS[form])
        assert isinstance(read, ox.QueryBoolean)
        assert bool(read) is truth


def test_tabs_come_between_values_and_never_inside_one_unquoted():
    assert list(csv.reader(io.StringIO(Answer(["a", "b"], [("x\ty", 1)]).to_tsv()), delimiter="\t")) == [
        ["a", "b"],
        ["x\ty", "1"],
    ]


# ---- data frames

WHEN = datetime(2026, 11, 16, 2, 43, 26, 500, tzinfo=timezone(timedelta(hours=3)))
MIXED = Answer(
    ["whole", "holes", "huge", "real", "both", "truth", "maybe", "when", "local", "long", "node", "text", "any", "day"],
    [
        (1, 1, 2**70, 0.5, 1, True, True, WHEN, datetime(2026, 1, 1), timedelta(seconds=1), IRI("urn:a:b"),
         Text("é", "fr"), "Adam", date(2026, 1, 1)),
        (2, None, 1, NAN, 0.5, False, None, None, None, None, None, None, 0.001, None),
        (3, 3, 1, None, None, False, False, WHEN, None, None, IRI("urn:a:c"), "z", None, None),
    ],
)  # fmt: skip


def test_a_frame_of_pandas_has_the_types_of_the_values():
    frame = MIXED.to_pandas()
    assert list(frame.columns) == MIXED.columns
    kinds = {name: str(frame[name].dtype) for name in frame.columns}
    assert kinds == kinds | {
        "whole": "int64", "holes": "Int64", "huge": "object", "real": "float64", "both": "float64", "truth": "bool",
        "maybe": "boolean", "when": "datetime64[us, UTC]", "local": "datetime64[us]", "long": "timedelta64[us]",
        "any": "object",
    }  # fmt: skip
    assert frame["holes"].tolist()[::2] == [1, 3]
    assert frame["holes"].isna().tolist() == [False, True, False]
    assert frame["huge"][0] == 2**70
    assert frame["real"].isna().tolist() == [False, True, True]
    assert frame["when"][0].to_pydatetime() == WHEN
    assert type(frame["node"][0]) is str
    assert frame["text"].tolist()[::2] == ["é", "z"]
    assert frame["any"].tolist() == ["Adam", 0.001, None]


def test_a_frame_of_polars_has_the_types_of_the_values():
    frame = MIXED.to_polars()
    assert frame.columns == MIXED.columns
    kinds = {name: str(kind) for name, kind in frame.schema.items()}
    assert kinds == {
        "whole": "Int64", "holes": "Int64", "huge": "String", "real": "Float64", "both": "Float64", "truth": "Boolean",
        "maybe": "Boolean", "when": "Datetime(time_unit='us', time_zone='UTC')",
        "local": "Datetime(time_unit='us', time_zone=None)", "long": "Duration(time_unit='us')", "node": "String",
        "text": "String", "any": "String", "day": "Date",
    }  # fmt: skip
    assert frame["holes"].to_list() == [1, None, 3]
    assert frame["real"].is_nan().to_list() == [False, True, None]
    assert frame["when"][0] == WHEN
    assert frame["huge"].to_list() == [str(2**70), "1", "1"]
    assert frame["any"].to_list() == ["Adam", "0.001", None]


def test_an_empty_answer_of_a_question_makes_frames_of_the_declared_types():
    answer = Answer(["n", "x", "t", "s", "y"], [], types={"n": "integer", "x": "double", "t": "dateTime", "s": "iri"})
    kinds = [str(kind) for kind in answer.to_polars().dtypes]
    assert kinds == ["Int64", "Float64", "Datetime(time_unit='us', time_zone='UTC')", "String", "Null"]
    frame = answer.to_pandas()
    assert [str(kind) for kind in frame.dtypes[:3]] == ["int64", "float64", "datetime64[us, UTC]"]
    assert len(frame) == 0
    assert Answer([], []).to_pandas().shape == (0, 0)


@given(st.lists(st.tuples(ANY, ANY), max_size=6))
def test_any_rows_make_frames_of_as_many_rows(rows: list[tuple[Any, ...]]):
    answer = Answer(["a", "b"], rows)
    assert answer.to_pandas().shape == (len(rows), 2)
    frame = answer.to_polars()
    assert frame.shape == (len(rows), 2)
    assert [value is None for value in frame["a"].to_list()] == [row[0] is None for row in rows]


@pytest.mark.parametrize(("package", "use"), [
    ("pandas", lambda answer: answer.to_pandas()),
    ("polars", lambda answer: answer.to_polars()),
    ("matplotlib", lambda answer: answer.plot(x="a", y="a")),
])  # fmt: skip
def test_a_package_that_is_not_installed_is_named_with_what_to_do(
    package: str, use: Callable[[Answer], object], monkeypatch: pytest.MonkeyPatch
):
    for name in [package, "matplotlib.ticker"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingPart, match=package):
        use(Answer(["a"], [(1,)]))


# ---- curves

LOSSES = [("a", 2, 0.5), ("a", 1, 1.0), ("b", 1, 2.0), ("b", 2, NAN), ("b", 3, 1.5), ("b", 3, 1.5), ("b", 4, None)]
LOSS = Answer(["run", "epoch", "value"], LOSSES, curve=Curve("epoch", ("value",), ("run",), "loss", "nats"))


@pytest.fixture
def axes() -> Any:
    from matplotlib.figure import Figure

    return Figure().subplots()


def test_a_curve_is_plotted_with_a_line_a_series_and_names_on_its_axes(axes: Any):
    drawn = LOSS.plot(ax=axes)
    assert drawn is axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("epoch", "loss (nats)")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]
    assert [list(zip(*line.get_data(), strict=True)) for line in axes.lines] == [
        [(1, 1.0), (2, 0.5)],
        [(1, 2.0), (3, 1.5)],
    ]
    assert axes.get_title(loc="right") == "1 point left out: NaN or infinite"


def test_a_plot_makes_axes_of_its_own_where_none_are_given():
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    axes = LOSS[:2].plot()
    assert axes.get_legend() is None
    assert axes.get_title(loc="left") == "a"
    pyplot.close(axes.figure)


def test_any_columns_of_numbers_or_times_can_be_plotted(axes: Any):
    moments = [(WHEN + timedelta(hours=n), n, Decimal(n) / 2) for n in range(5)]
    Answer(["when", "n", "half"], moments).plot(x="when", y=["n", "half"], ax=axes)
    assert axes.get_ylabel() == "n, half"
    assert [line.get_label() for line in axes.lines] == ["n", "half"]
    assert list(axes.lines[1].get_ydata()) == [0.0, 0.5, 1.0, 1.5, 2.0]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({}, "columns of numbers and times are epoch, value: say plot(x='epoch', y='value')"),
        ({"x": "epoch"}, "no curve by itself"),
        ({"x": "epoch", "y": "los"}, "no column 'los'"),
        ({"x": "epoch", "y": "run"}, "run has 'a', which is no number"),
        ({"x": "run", "y": "value"}, "run has 'a', which is no number"),
    ],
)
def test_what_cannot_be_plotted_is_told_with_what_can(columns: dict[str, str], said: str):
    with pytest.raises(NotACurve, match=re.escape(said)):
        Answer(LOSS.columns, LOSS.rows).plot(**columns)
    with pytest.raises(NotACurve, match="no point"):
        LOSS[:0].plot()


def test_a_chart_in_characters_has_axes_marks_and_a_legend():
    lines = LOSS.chart(40, 9).splitlines()
    assert lines[0] == "loss (nats) by epoch"
    assert (lines[1].split()[0], lines[9].split()[0]) == ("2", "0.5")
    assert lines[-4].split() == ["1", "epoch", "3"]
    assert lines[-3:] == ["* a", "+ b", "1 point left out: NaN or infinite"]
    assert lines[1].index("+") == lines[10].index("└") + 1
    assert all(len(line) <= 40 for line in lines)


def test_one_curve_is_drawn_in_dots_and_in_ascii_where_these_cannot_be_shown():
    assert any("\u2800" < sign < "\u2900" for sign in LOSS[:2].chart())
    assert LOSS[:2].chart(ascii=True).isascii()
    assert LOSS.chart(ascii=True).isascii()


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), NUMBERS, NUMBERS), min_size=1), st.integers(1, 200), st.integers(0, 40)
)
def test_any_points_can_be_drawn_and_none_leaves_the_picture(rows: list[Any], width: int, height: int):
    answer = Answer(["by", "x", "y"], rows, curve=Curve("x", ("y",), ("by",)))
    for drawn in (answer.chart(width, height), answer.chart(width, height, ascii=True)):
        lines = drawn.splitlines()
        floor = next(number for number, line in enumerate(lines) if line.lstrip()[:2] in ("└─", "+-"))
        assert floor - 1 == max(height, 2)
        inside = [line.split(side, 1)[1] for line in lines[1:floor] for side in "┤│+|" if side in line[:32]][:floor]
        assert any(part.strip() for part in inside)


@pytest.mark.parametrize("width", [10, 15, 22, 40])
def test_a_chart_keeps_within_a_narrow_terminal(width: int):
    rows = [("a", n, n / 10) for n in range(9)]
    lines = Answer(["by", "x", "y"], rows, curve=Curve("x", ("y",), ("by",))).chart(width).splitlines()
    assert {len(line) for line in lines if "─" in line or "┤" in line} <= set(range(width + 1))
    assert len(lines[-1]) <= width


def test_a_point_alone_and_a_level_line_are_drawn():
    curve = Curve("epoch", ("loss",))
    point = Answer(["epoch", "loss"], [(3, 0.25)], curve=curve).chart(ascii=True)
    assert sum(line.split("|")[-1].count("*") for line in point.splitlines()[1:-2]) == 1
    level = Answer(["epoch", "loss"], [(n, 0.25) for n in range(1, 9)], curve=curve).chart(60, 9, ascii=True)
    assert [line.count("*") for line in level.splitlines() if "*" in line] == [60 - len("0.275 |")]
