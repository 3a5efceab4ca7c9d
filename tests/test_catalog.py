"""The catalog: query files that are checked when read, and bound so that a value cannot change a query."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from provml.catalog import Catalog, Query, read_query, user_folders
from provml.errors import BrokenFile, NoSuchQuery, WrongParameter

GOOD = """#+ id: x1
#+ summary: Which?
#+ params:
#+   name: {type: string}
#+   limit: {type: integer, default: 5}
#+   least: {type: double, optional: true}
#+   who: {type: iri, many: true, optional: true}
#+ columns: {s: iri}
SELECT ?s WHERE {
  VALUES ?least { $least }
  VALUES ?who { $who }
  ?s ?p $name . # not $this
  ?s <http://example.org/$name> "$name" , '$name' .
  FILTER(COALESCE(?v >= ?least, true))
} LIMIT $limit
"""


@pytest.fixture
def query(tmp_path: Path) -> Query:
    return made(tmp_path, GOOD)


def made(folder: Path, text: str) -> Query:
    path = folder / "x1-which.rq"
    path.write_text(text)
    return read_query(path)


def test_a_parameter_is_replaced_where_it_stands_and_nowhere_else(query: Query):
    bound = query.bind({"name": "loss"})
    assert '?s ?p "loss" .' in bound
    assert "# not $this" in bound
    assert '<http://example.org/$name> "$name" , ' in bound
    assert "LIMIT 5" in bound


def test_what_is_left_out_is_undefined_or_its_default(query: Query):
    bound = query.bind({"name": "loss"})
    assert "VALUES ?least { UNDEF }" in bound
    assert "VALUES ?who { UNDEF }" in bound


def test_many_values_stand_side_by_side(query: Query):
    bound = query.bind({"name": "x", "who": ["http://example.org/a", "http://example.org/b"]})
    assert "VALUES ?who { <http://example.org/a> <http://example.org/b> }" in bound


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({}, "name"),
        ({"name": 3}, "text"),
        ({"name": "x", "limit": "3"}, "a whole number"),
        ({"name": "x", "limit": True}, "a whole number"),
        ({"name": "x", "limit": 2.0}, "a whole number"),
        ({"name": "x", "least": "much"}, "a number"),
        ({"name": "x", "who": "no iri"}, "absolute IRI"),
        ({"name": "x", "who": ["http://example.org/a> } DROP ALL #"]}, "absolute IRI"),
        ({"nam": "x"}, "Did you mean name?"),
        ({"name": ["x", "y"]}, "text"),
    ],
)
def test_what_does_not_fit_is_a_clear_error(query: Query, values, word: str):
    with pytest.raises(WrongParameter, match=re.escape(word)):
        query.bind(values)


def shape(sparql: str) -> str:
    """The structure of a query: everything but its strings."""
    return re.sub(r'"(?:[^"\\\n\r]|\\.)*"', '""', sparql)


@given(st.text(st.characters(codec="utf-8"), max_size=40))
def test_no_text_changes_the_query(tmp_path_factory: pytest.TempPathFactory, text: str):
    simple = Query("t", "t", "SELECT ?x WHERE { BIND($name AS ?x) }", Path("t.rq"), {"name": read_parameter()})
    bound = simple.bind({"name": text})
    assert shape(bound) == 'SELECT ?x WHERE { BIND("" AS ?x) }'
    rows = list(ox.Store().query(bound))
    assert rows[0]["x"] == ox.Literal(text)


def read_parameter():
    from provml.catalog import Parameter

    return Parameter("name", "string")


@given(st.floats() | st.integers(-(2**53), 2**53))
def test_any_number_arrives(number):
    from provml.catalog import Parameter

    simple = Query("t", "t", "SELECT ?x WHERE { BIND($v AS ?x) }", Path("t.rq"), {"v": Parameter("v", "double")})
    value = float(next(iter(ox.Store().query(simple.bind({"v": number}))))["x"].value.replace("INF", "inf"))
    assert value == float(number) or (value != value and number != number)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (("#+ id: x1\n", ""), "no id and summary"),
        (("$name . #", "$nome . #"), "$nome is not declared"),
        (("LIMIT $limit", "LIMIT 5"), "$limit is declared and not used"),
        (("type: string", "type: text"), "not well declared"),
        (("#+ summary: Which?", "#+ summary: Which?\n#+ colour: red"), "colour"),
        (("{ $least }", "{ 1 2 } FILTER(?v > $least)"), "may be absent or many"),
        (("#+ params:", "#+ params: ["), "no YAML"),
        (("#+ columns", "#+ plot: {x: s}\n#+ columns"), "plot is not well declared"),
        (("#+ columns", "#+ plot: [s]\n#+ columns"), "plot is not well declared"),
        (("#+ columns", "#+ plot: {x: s, y: s, z: s}\n#+ columns"), "plot is not well declared"),
        (("#+ columns", "#+ plot: {x: s, y: [s, loss]}\n#+ columns"), "names loss, which is no column"),
        (("#+ columns", "#+ plot: {x: s, y: s, by: run}\n#+ columns"), "names run, which is no column"),
        (("#+ columns", "#+ plot: {x: s, y: s, named: what}\n#+ columns"), "what, which is no parameter"),
    ],
)
def test_a_broken_file_is_named_with_what_to_do(tmp_path: Path, change: tuple[str, str], word: str):
    assert change[0] in GOOD
    with pytest.raises(BrokenFile) as caught:
        made(tmp_path, GOOD.replace(*change))
    assert word in str(caught.value)
    assert "x1-which.rq" in str(caught.value)


def test_a_header_says_which_columns_make_a_curve(tmp_path: Path, query: Query):
    assert query.plot is None
    text = GOOD.replace("{s: iri}", "{s: iri, n: integer, v: double}")
    curve = made(tmp_path, text.replace("#+ columns", "#+ plot: {x: n, y: v, by: s, named: name, unit: m}\n#+ columns"))
    assert curve.plot == {"x": "n", "y": ["v"], "by": ["s"], "named": "name", "unit": "m"}
    assert {name for name in CATALOG if CATALOG[name].plot is not None} >= {
        "q3",
        "h1",
        "h2",
        "h3",
        "h7",
        "e1",
        "l4",
        "l5",
    }


def test_a_parameter_that_is_a_word_of_python_may_be_given_with_a_line_after_it():
    assert CATALOG["l5"].given({"from_": 1, "to": 2}) == {"from": 1, "to": 2}
    assert CATALOG["l5"].given({"nothing_": 1}) == {"nothing_": 1}


def test_questions_come_in_families_and_those_of_users_are_one(query: Query):
    assert len({CATALOG[name].family for name in CATALOG}) == 5
    assert CATALOG["q1"].source.startswith("Pina et al., IPAW 2021, Table 1")
    assert query.family == "Yours"
    assert query.source == ""


def test_values_typed_on_a_command_line_get_their_type(query: Query):
    assert query.params["limit"].from_text("12") == 12
    assert query.params["least"].from_text("0.5") == 0.5
    assert query.params["limit"].from_text("many") == "many"
    from provml.catalog import Parameter

    assert Parameter("x", "boolean").from_text("Yes") is True
    assert Parameter("x", "dateTime").from_text("2026-01-02") == datetime(2026, 1, 2)


def test_folders_of_users_are_added_and_ids_stay_unique(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    mine, home = tmp_path / "mine", tmp_path / "home"
    (home / "queries").mkdir(parents=True)
    mine.mkdir()
    (mine / "x1.rq").write_text(GOOD)
    (home / "queries" / "x2.rq").write_text(GOOD.replace("id: x1", "id: x2"))
    monkeypatch.setenv("PROVML_QUERIES", str(mine))
    catalog = Catalog(user_folders(home))
    assert {"x1", "x2", "q1"} <= set(catalog)
    (home / "queries" / "x3.rq").write_text(GOOD)
    (home / "queries" / "x4-half.rq").write_text("SELECT")
    catalog = Catalog(user_folders(home))
    assert catalog["x1"].path == mine / "x1.rq"
    with pytest.raises(BrokenFile, match="the id x1"):
        catalog["x3"]
    with pytest.raises(BrokenFile, match=r"x4-half.rq: its header has no id"):
        catalog["x4"]
    assert catalog["Q6"] is catalog["q6"]


def test_an_unknown_question_lists_the_near_ones():
    with pytest.raises(NoSuchQuery, match="q1"):
        Catalog()["q11x"]


CATALOG = Catalog()


@pytest.mark.parametrize("name", list(CATALOG))
def test_every_question_of_the_catalog_is_sparql_that_runs(name: str):
    query = CATALOG[name]
    samples = {"string": "x", "integer": 1, "double": 0.5, "iri": "http://example.org/x", "boolean": True}
    values = {key: samples[one.type] for key, one in query.params.items() if one.required}
    answer = ox.Store().query(query.bind(values))
    assert isinstance(answer, ox.QuerySolutions)
    assert [variable.value for variable in answer.variables] == list(query.columns)
    assert query.path.name.startswith(f"{name}-")
    assert "LATERAL" not in query.text
    assert query.summary.endswith("?")
    everything = {key: samples[one.type] for key, one in query.params.items()}
    list(ox.Store().query(query.bind(everything)))
