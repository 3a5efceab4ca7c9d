"""Answers: tables, JSON, CSV, result formats of SPARQL, DataFrames and plots."""

from __future__ import annotations

import csv
import io
import json
import math
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

from provml.answers import MAX_CELL_WIDTH, Answer, Curve
from provml.answers.formats import boolean_as_sparql
from provml.errors import MissingDependency, PlotError, WrongType, WrongValue
from provml.model.values import IRI, Literal, Text
from provml.rdf import XSD

NAN, INF = float("nan"), float("inf")


def test_numbers_are_aligned_right_and_text_left():
    table = str(Answer(["name", "loss"], [("alexnet", 0.5), ("vgg", 12.25), ("resnet", None)]))
    assert table.splitlines() == ["name      loss", "───────  ─────", "alexnet    0.5", "vgg      12.25", "resnet"]


def test_booleans_are_not_aligned_as_numbers():
    assert str(Answer(["good"], [(True,), (False,)])).splitlines() == ["good", "─────", "true", "false"]


def test_wide_and_combining_characters_keep_columns_aligned():
    lines = str(Answer(["name", "x"], [("花", "a"), ("e\u0301t", "b"), ("abcd", "c")])).splitlines()
    assert lines[2:] == ["花    a", "e\u0301t    b", "abcd  c"]


def test_text_cannot_break_a_table_or_control_the_terminal():
    table = str(Answer(["text"], [("one\ntwo\x1b[2J",)]))
    assert table.splitlines()[2] == "one two\\x1b[2J"


def test_a_long_cell_is_shortened_in_tables_only():
    answer = Answer(["text"], [("x" * 500,)])
    assert str(answer).splitlines()[2] == "x" * (MAX_CELL_WIDTH - 1) + "…"
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
def test_a_table_abbreviates_nodes_unambiguously(iri: str, shown: str):
    assert str(Answer(["node"], [(IRI(iri),)])).splitlines()[2] == shown


def test_json_and_csv_can_be_read_back():
    when = datetime(2026, 11, 16, 2, 43, 26, 500, tzinfo=UTC)
    row = (0.1 + 0.2, 10**20, True, None, NAN, INF, -INF, when, Decimal("1.10"), IRI("http://a.b/c"), Text("ja", "de"))
    names = ["float", "int", "bool", "none", "nan", "inf", "minus", "when", "decimal", "iri", "text"]
    answer = Answer(names, [row])
    data = json.loads(answer.to_json())[0]
    assert data["float"] == 0.1 + 0.2
    assert data["int"] == 10**20
    assert data["bool"] is True
    assert data["none"] is None
    assert (data["nan"], data["inf"], data["minus"]) == ("NaN", "INF", "-INF")
    assert datetime.fromisoformat(data["when"]) == when
    assert (data["decimal"], data["iri"], data["text"]) == (1.1, "http://a.b/c", "ja")
    line = next(csv.DictReader(io.StringIO(answer.to_csv())))
    assert float(line["float"]) == 0.1 + 0.2
    assert line["bool"] == "true"
    assert line["none"] == ""
    assert float(line["nan"]) != float(line["nan"])
    assert float(line["minus"]) == -INF
    assert line["decimal"] == "1.10"


def test_decimals_are_numbers_in_every_format():
    mean = Decimal("1.333333333333333333")
    answer = Answer(["mean"], [(mean,), (Decimal(12),)])
    assert str(answer) == "   mean\n───────\n1.33333\n     12"
    assert json.loads(answer.to_json()) == [{"mean": 4 / 3}, {"mean": 12}]
    assert json.loads(Answer(["huge"], [(Decimal("1E+999"),)]).to_json()) == [{"huge": "1E+999"}]
    assert answer.to_csv() == "mean\n1.333333333333333333\n12\n"
    assert answer.to_pandas()["mean"].tolist() == answer.to_polars()["mean"].to_list() == [4 / 3, 12.0]


def test_csv_quotes_commas_quotes_and_line_breaks():
    text = 'a "b", c\nd'
    assert list(csv.reader(io.StringIO(Answer(["text"], [(text,)]).to_csv()))) == [["text"], [text]]


def test_an_unknown_column_is_an_error_that_lists_the_columns():
    answer = Answer(["a", "b"], [(1, 2), (3, 4)])
    assert answer.column("b") == [2, 4]
    assert answer.to_dicts() == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert (len(answer), answer[1], list(answer)) == (2, (3, 4), [(1, 2), (3, 4)])
    with pytest.raises(KeyError, match="Columns: a, b"):
        answer.column("c")


def test_an_answer_without_rows_has_columns():
    empty = Answer(["run", "loss"], [])
    assert str(empty).splitlines()[0] == "run  loss"
    assert (empty.to_json(), empty.to_csv()) == ("[]", "run,loss\n")


def test_a_literal_of_an_unknown_datatype_is_shown_as_written():
    assert str(Answer(["x"], [(Literal("--11-16", "http://www.w3.org/2001/XMLSchema#gMonthDay"),)])).endswith("--11-16")


# ---- sorting and slicing


def test_missing_values_are_sorted_last_in_both_directions():
    answer = Answer(["run", "loss"], [("a", None), ("b", 2.0), ("c", NAN), ("d", 1), ("e", Decimal("1.5")), ("f", INF)])
    assert [row[0] for row in answer.sorted("loss")] == ["d", "e", "b", "f", "c", "a"]
    assert [row[0] for row in answer.sorted("loss", reverse=True)] == ["f", "b", "e", "d", "c", "a"]
    assert answer.rows[0] == ("a", None)
    with pytest.raises(KeyError, match="Columns: run, loss"):
        answer.sorted("accuracy")


def test_sorting_by_several_columns_is_stable():
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
def test_values_of_any_types_can_be_sorted(rows: list[tuple[object, int]], reverse: bool):
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


def test_html_escapes_text_and_aligns_numbers_right():
    html = Answer(["<b>", "n"], [("<script>alert(1)</script>", 1.5), (IRI("https://w3id.org/provml#Model"), None)])
    shown = html._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert "&lt;b&gt;" in shown
    assert '<td style="text-align: right">1.5</td>' in shown
    assert 'title="https://w3id.org/provml#Model">provml:Model</td>' in shown
    assert [each.tag for each in ElementTree.fromstring(shown)] == ["style", "table"]
    assert [each.tag for each in ElementTree.fromstring(shown)[1]] == ["thead", "tbody"]


def test_a_long_answer_is_shortened_in_notebooks_and_at_the_prompt():
    answer = Answer(["n"], [(n,) for n in range(763)])
    for shown in (answer._repr_html_(), repr(answer)):
        assert "713 more rows" in shown
        assert "762" not in shown
    assert "762" in str(answer)
    assert "more" not in repr(answer[:50])


# ---- result formats of SPARQL, parsed by Oxigraph

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
def test_sparql_results_are_parsed_to_the_same_terms(form: str, rows: list[tuple[Any, ...]]):
    answer = Answer.from_terms(["a", "b"], rows)
    read = ox.parse_query_results(answer.to_sparql(form).encode(), format=FORMATS[form])
    assert isinstance(read, ox.QuerySolutions)
    assert [variable.value for variable in read.variables] == ["a", "b"]
    assert [tuple(row) for row in read] == rows


def test_values_without_terms_are_converted_to_terms():
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


def test_rows_keep_their_terms_when_sorted_sliced_or_pickled():
    short, long = (ox.Literal(text, datatype=ox.NamedNode(f"{XSD}decimal")) for text in ("1.50", "2.500"))
    answer = Answer.from_terms(["n"], [(long,), (short,)])
    assert answer.sorted("n").terms() == [(short,), (long,)]
    assert answer[1:].terms() == [(short,)]
    assert pickle.loads(pickle.dumps(answer)).sorted("n").terms() == [(short,), (long,)]
    answer.rows.insert(0, (3,))
    assert [str(row[0]) for row in answer.terms()] == [f'"3"^^<{XSD}integer>', str(long), str(short)]


def test_sparql_csv_follows_w3c():
    answer = Answer.from_terms(
        ["a", "b"], [(ox.Literal('x,"y"\n'), None), (ox.NamedNode("http://a/b"), ox.BlankNode("c"))]
    )
    assert answer.to_sparql("csv") == 'a,b\r\n"x,""y""\n",\r\nhttp://a/b,_:c\r\n'


def test_characters_outside_xml_and_unknown_formats_are_errors():
    answer = Answer(["text"], [("a\x00b",)])
    with pytest.raises(WrongValue, match="sparql-json"):
        answer.to_sparql("xml")
    assert json.loads(answer.to_sparql("json"))["results"]["bindings"][0]["text"]["value"] == "a\x00b"
    with pytest.raises(WrongValue, match="json, xml, csv, tsv"):
        answer.to_sparql("yaml")


def test_rows_of_select_cannot_be_written_as_rdf():
    with pytest.raises(WrongType, match=r"takes the triples of CONSTRUCT or DESCRIBE, not 'the columns a, b'"):
        Answer(["a", "b"], [(1, 2)]).to_rdf()


@pytest.mark.parametrize("truth", [True, False])
def test_booleans_are_parsed_to_the_same_value(truth: bool):
    for form in FORMATS:
        read = ox.parse_query_results(boolean_as_sparql(truth, form).encode(), format=FORMATS[form])
        assert isinstance(read, ox.QueryBoolean)
        assert bool(read) is truth


def test_tsv_quotes_tabs():
    assert list(csv.reader(io.StringIO(Answer(["a", "b"], [("x\ty", 1)]).to_tsv()), delimiter="\t")) == [
        ["a", "b"],
        ["x\ty", "1"],
    ]


# ---- DataFrames

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


def test_a_pandas_dataframe_has_the_types_of_the_values():
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


def test_a_polars_dataframe_has_the_types_of_the_values():
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


def test_an_empty_answer_gives_dataframes_of_the_declared_types():
    answer = Answer(["n", "x", "t", "s", "y"], [], types={"n": "integer", "x": "double", "t": "dateTime", "s": "iri"})
    kinds = [str(kind) for kind in answer.to_polars().dtypes]
    assert kinds == ["Int64", "Float64", "Datetime(time_unit='us', time_zone='UTC')", "String", "Null"]
    frame = answer.to_pandas()
    assert [str(kind) for kind in frame.dtypes[:3]] == ["int64", "float64", "datetime64[us, UTC]"]
    assert len(frame) == 0
    assert Answer([], []).to_pandas().shape == (0, 0)


@pytest.mark.parametrize("duration", [timedelta.max, timedelta.min])
def test_a_duration_that_a_data_frame_cannot_hold_is_an_object_or_text(duration: timedelta):
    answer = Answer(["d"], [(duration,), (timedelta(1),)])
    assert answer.to_pandas()["d"].tolist() == [duration, timedelta(1)]
    assert answer.to_polars()["d"].to_list() == [str(duration), "1 day, 0:00:00"]


@given(st.lists(st.tuples(ANY, ANY), max_size=6))
def test_any_rows_can_be_dataframes(rows: list[tuple[Any, ...]]):
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
def test_a_missing_package_is_an_error_with_advice(
    package: str, use: Callable[[Answer], object], monkeypatch: pytest.MonkeyPatch
):
    for name in [package, "matplotlib.ticker"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependency, match=package):
        use(Answer(["a"], [(1,)]))


# ---- curves

LOSSES = [("a", 2, 0.5), ("a", 1, 1.0), ("b", 1, 2.0), ("b", 2, NAN), ("b", 3, 1.5), ("b", 3, 1.5), ("b", 4, None)]
LOSS = Answer(["run", "epoch", "value"], LOSSES, curve=Curve("epoch", ("value",), ("run",), "loss", "nats"))


@pytest.fixture
def axes() -> Any:
    from matplotlib.figure import Figure

    return Figure().subplots()


def test_a_plot_has_a_line_per_series_and_axis_labels(axes: Any):
    drawn = LOSS.plot(ax=axes)
    assert drawn is axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("epoch", "loss (nats)")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]
    assert [list(zip(*line.get_data(), strict=True)) for line in axes.lines] == [
        [(1, 1.0), (2, 0.5)],
        [(1, 2.0), (3, 1.5)],
    ]
    assert axes.get_title(loc="right") == "1 point left out: NaN or infinite"


def test_a_plot_without_axes_makes_new_ones():
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    axes = LOSS[:2].plot()
    assert axes.get_legend() is None
    assert axes.get_title(loc="left") == "a"
    pyplot.close(axes.figure)


def labels(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()] if axes.get_legend() else []


def losses_of(run: str, measure: str = "loss", *values: float) -> Answer:
    rows = [(run, number, value) for number, value in enumerate(values or (0.5, 0.25), 1)]
    return Answer(["training", "epoch", "value"], rows, curve=Curve("epoch", ("value",), ("training",), measure))


def test_several_answers_on_the_same_axes_have_one_legend_and_no_title(axes: Any):
    losses_of("a").plot(ax=axes)
    assert (axes.get_title(loc="left"), labels(axes)) == ("a", [])
    losses_of("b", "loss", 0.5, math.nan).plot(ax=axes)
    losses_of("c", "loss", math.inf, 0.5).plot(ax=axes)
    assert (axes.get_title(loc="left"), labels(axes)) == ("", ["a", "b", "c"])
    assert axes.get_title(loc="right") == "2 points left out: NaN or infinite"
    assert axes.get_ylabel() == "loss"
    assert len({line.get_color() for line in axes.get_lines()}) == 3


def test_the_legend_of_answers_with_different_measures_names_the_measures(axes: Any):
    for measure in ("loss", "accuracy"):
        losses_of("a", measure).plot(ax=axes)
    assert labels(axes) == ["a loss", "a accuracy"]
    assert axes.get_ylabel() == "loss, accuracy"


def test_a_label_names_the_curves_of_an_answer(axes: Any):
    losses_of("a").plot(ax=axes, label="first")
    Answer(LOSS.columns, LOSS.rows, curve=LOSS.curve).plot(ax=axes, label="second")
    losses_of("c").plot(y="value", by=(), ax=axes)
    assert labels(axes) == ["first", "second a", "second b", "loss"]


def test_the_title_and_the_lines_of_the_user_stay(axes: Any):
    axes.set_title("My comparison", loc="left")
    axes.plot([1, 2], [0.1, 0.1], label="goal")
    losses_of("a").plot(ax=axes)
    losses_of("b").plot(ax=axes)
    assert (axes.get_title(loc="left"), labels(axes)) == ("My comparison", ["goal", "a", "b"])


def test_axes_that_were_cleared_have_no_curves_of_earlier_answers(axes: Any):
    losses_of("a", "loss", math.nan, 1.0).plot(ax=axes)
    axes.clear()
    losses_of("b", "accuracy").plot(ax=axes)
    assert (axes.get_title(loc="left"), labels(axes), axes.get_ylabel()) == ("b", [], "accuracy")
    assert axes.get_title(loc="right") == ""


def test_a_long_legend_is_outside_the_axes_only_if_the_layout_makes_room(axes: Any):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    roomy = Figure(layout="constrained").subplots()
    for number in range(12):
        losses_of(f"run {number}").plot(ax=axes)
        losses_of(f"run {number}").plot(ax=roomy)
    for drawn, is_outside in ((axes, False), (roomy, True)):
        FigureCanvasAgg(drawn.figure).draw()
        legend, frame = drawn.get_legend().get_window_extent(), drawn.get_window_extent()
        assert len(labels(drawn)) == 12
        assert bool(legend.x0 >= frame.x1 - 1) is is_outside
        assert legend.x1 <= drawn.figure.bbox.x1


def test_any_columns_of_numbers_or_times_can_be_plotted(axes: Any):
    moments = [(WHEN + timedelta(hours=n), n, Decimal(n) / 2) for n in range(5)]
    Answer(["when", "n", "half"], moments).plot(x="when", y=["n", "half"], ax=axes)
    assert axes.get_ylabel() == "n, half"
    assert [line.get_label() for line in axes.lines] == ["n", "half"]
    assert list(axes.lines[1].get_ydata()) == [0.0, 0.5, 1.0, 1.5, 2.0]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "Columns with numbers or times: epoch, value. Use plot(x='epoch', y='value')"),
        ({"x": "epoch"}, "no curve of its own"),
        ({"x": "epoch", "y": "los"}, "No column 'los'"),
        ({"x": "epoch", "y": "run"}, "run has 'a', which is not a number"),
        ({"x": "run", "y": "value"}, "run has 'a', which is not a number"),
    ],
)
def test_an_answer_that_cannot_be_plotted_is_an_error_with_advice(columns: dict[str, str], message: str):
    with pytest.raises(PlotError, match=re.escape(message)):
        Answer(LOSS.columns, LOSS.rows).plot(**columns)
    with pytest.raises(PlotError, match="no point"):
        LOSS[:0].plot()


def test_a_terminal_chart_has_axes_marks_and_a_legend():
    lines = LOSS.chart(40, 9).splitlines()
    assert lines[0] == "loss (nats) by epoch"
    assert (lines[1].split()[0], lines[9].split()[0]) == ("2", "0.5")
    assert lines[-4].split() == ["1", "epoch", "3"]
    assert lines[-3:] == ["* a", "+ b", "1 point left out: NaN or infinite"]
    assert lines[1].index("+") == lines[10].index("└") + 1
    assert all(len(line) <= 40 for line in lines)


def test_a_single_curve_is_drawn_in_braille_or_ascii():
    assert any("\u2800" < sign < "\u2900" for sign in LOSS[:2].chart())
    assert LOSS[:2].chart(ascii=True).isascii()
    assert LOSS.chart(ascii=True).isascii()


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), NUMBERS, NUMBERS), min_size=1), st.integers(1, 200), st.integers(0, 40)
)
def test_any_points_are_drawn_inside_the_chart(rows: list[Any], width: int, height: int):
    answer = Answer(["by", "x", "y"], rows, curve=Curve("x", ("y",), ("by",)))
    for drawn in (answer.chart(width, height), answer.chart(width, height, ascii=True)):
        lines = drawn.splitlines()
        floor = next(number for number, line in enumerate(lines) if line.lstrip()[:2] in ("└─", "+-"))
        assert floor - 1 == max(height, 2)
        inside = [line.split(side, 1)[1] for line in lines[1:floor] for side in "┤│+|" if side in line[:32]][:floor]
        assert any(part.strip() for part in inside)


@pytest.mark.parametrize("width", [10, 15, 22, 40])
def test_a_chart_fits_a_narrow_terminal(width: int):
    rows = [("a", n, n / 10) for n in range(9)]
    lines = Answer(["by", "x", "y"], rows, curve=Curve("x", ("y",), ("by",))).chart(width).splitlines()
    assert {len(line) for line in lines if "─" in line or "┤" in line} <= set(range(width + 1))
    assert len(lines[-1]) <= width


def test_a_single_point_and_a_constant_line_are_drawn():
    curve = Curve("epoch", ("loss",))
    point = Answer(["epoch", "loss"], [(3, 0.25)], curve=curve).chart(ascii=True)
    assert sum(line.split("|")[-1].count("*") for line in point.splitlines()[1:-2]) == 1
    level = Answer(["epoch", "loss"], [(n, 0.25) for n in range(1, 9)], curve=curve).chart(60, 9, ascii=True)
    assert [line.count("*") for line in level.splitlines() if "*" in line] == [60 - len("0.275 |")]
