"""The catalog: query files that are checked when read, and bound so that a value cannot change a query."""

from __future__ import annotations

import contextlib
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


def test_none_of_many_values_is_refused_where_some_are_needed(tmp_path: Path):
    query = made(tmp_path, GOOD.replace("many: true, optional: true", "many: true"))
    with pytest.raises(WrongParameter, match="at least one who"):
        query.bind({"name": "x", "who": []})


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
        ({"name": "x\udcff"}, "UTF-8"),
        ({"name": "x", "who": "http://example.org/\udcff"}, "absolute IRI"),
        ({"name": "x", "least": 10**400}, "a number"),
        ({"name": "x", "limit": 10**5000}, "a whole number"),
        ({"name": "x", "limit": 2**63}, "The engine counts to 9223372036854775807"),
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
        (("#+ columns", "#+ plot: {x: [s], y: s}\n#+ columns"), "plot is not well declared"),
        (("#+ columns", "#+ plot: {x: s, y: {s: s}}\n#+ columns"), "plot is not well declared"),
        (("columns: {s: iri}", "columns: [s]"), "its columns are no names with what they are"),
        (("columns: {s: iri}", "columns: s"), "its columns are no names with what they are"),
        (("#+ params:\n", "#+ params: [name]\n#+ data:\n"), "its params are no names with what they are"),
        (("{type: string}", "{type: [string]}"), "not well declared"),
        (("{type: string}", "[string]"), "not well declared"),
        (("{type: string}", "{type: string, names: modle}"), "the parameter name has names: modle. Give one of model"),
        (("{type: string}", "{type: string, of: run}"), "with the type iri"),
        (("many: true", "of: runn, many: true"), "the parameter who has of: runn. Give one of run, model, dataset"),
        (("{type: string}", '{type: string, optional: "no"}'), "has optional: 'no'. Give true or false"),
        (("default: 5", "default: xx"), "the default of limit is 'xx', not a whole number"),
        (("default: 5", "default: 5, min: 6"), "the default of limit is 5, not a whole number from 6 on"),
        (("default: 5", "default: 5, min: few"), "has min: 'few'"),
        (("default: 5", "default: 5, min: limit"), "has min: 'limit'. Give a number, or the name of another parameter"),
        (("default: 5", "default: 5, min: name"), "has min: 'name'"),
        (("default: 5", "default: 5, min: who"), "has min: 'who'"),
        (("default: 5", "default: -5"), "the default of limit is -5, not a whole number from 0 on"),
        (("{type: string}", "{type: string, min: 1}"), "has min: 1"),
        (("#+ id: x1\n", "#+ id: x1\n#+ 2026-13-45: x\n"), "no YAML"),
        (("#+ id: x1\n", "#+ id: x1\n#+ 1: x\n#+ (: x\n"), "its header says"),
    ],
)
def test_a_broken_file_is_named_with_what_to_do(tmp_path: Path, change: tuple[str, str], word: str):
    assert change[0] in GOOD
    with pytest.raises(BrokenFile) as caught:
        made(tmp_path, GOOD.replace(*change))
    assert word in str(caught.value)
    assert "x1-which.rq" in str(caught.value)


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.dates()
    | st.text(max_size=8)
    | st.sampled_from(["s", "x(", "iri"]),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "x", "y", "of", "s", "min"]) | st.integers(), inside, max_size=3)
    ),
    max_leaves=6,
)


@given(
    st.dictionaries(
        st.sampled_from(["params", "columns", "plot", "source", "id", "summary"]) | st.integers(), ANYTHING, max_size=4
    )
)
def test_whatever_a_header_says_a_file_is_read_or_named_as_broken(tmp_path_factory: pytest.TempPathFactory, said):
    import yaml

    written = yaml.safe_dump({"id": "x1", "summary": "Which?", **said}, allow_unicode=True)
    head = "".join(f"#+ {line}\n" for line in written.splitlines())
    with contextlib.suppress(BrokenFile):
        assert made(tmp_path_factory.getbasetemp(), head + "SELECT ?s { ?s ?p ?o }").id


@pytest.mark.parametrize("place", ["LIMIT $limit", "limit\n\t$limit", "OFFSET $limit", "LIMIT 5 OFFSET  $limit"])
def test_a_count_of_rows_is_no_less_than_nothing(tmp_path: Path, place: str):
    query = made(tmp_path, GOOD.replace("LIMIT $limit", place))
    assert query.bind({"name": "x", "limit": 0})
    with pytest.raises(WrongParameter, match=r"limit takes a whole number from 0 on, not -1 \(int\)"):
        query.bind({"name": "x", "limit": -1})


def test_a_header_says_the_least_that_a_number_may_be(tmp_path: Path):
    query = made(tmp_path, GOOD.replace("{type: double,", "{type: double, min: 0.5,"))
    assert query.bind({"name": "x", "least": 0.5})
    for wrong in (0.4, float("nan")):
        with pytest.raises(WrongParameter, match=r"least takes a number from 0\.5 on"):
            query.bind({"name": "x", "least": wrong})
    less = GOOD.replace("{ $least }", "{ $least } FILTER(?n > $limit - 1)").replace("LIMIT $limit", "")
    assert "FILTER(?n > -3 - 1)" in made(tmp_path, less).bind({"name": "x", "limit": -3})


def test_a_header_says_which_parameter_a_number_may_not_be_less_than(tmp_path: Path):
    query = made(tmp_path, GOOD.replace("{type: double,", "{type: double, min: limit,"))
    for fine in ({"least": 5}, {"least": 5.5, "limit": 5}, {"limit": 9}, {"least": float("nan")}, {}):
        assert query.bind({"name": "x", **fine})
    for wrong, limit in (({"least": 4.5}, 5), ({"least": 8, "limit": 9}, 9)):
        with pytest.raises(
            WrongParameter, match=rf"least takes a number that is not less than limit, .*limit is {limit}:"
        ):
            query.bind({"name": "x", **wrong})


@pytest.mark.parametrize("question", ["l5", "l6", "l7"])
def test_a_range_that_ends_before_it_begins_is_refused(question: str):
    query = Catalog()[question]
    assert query.bind({"from": 3, "to": 3})
    with pytest.raises(WrongParameter, match=r"to takes a whole number that is not less than from, not 2 .*from is 3:"):
        query.bind({"from": 3, "to": 2})
    with pytest.raises(WrongParameter, match="most takes a number that is not less than least"):
        Catalog()["b7"].bind({"hyperparameter": "x", "least": 0.2, "most": 0.1})


def test_what_names_can_stand_for_is_what_the_store_looks_up():
    from provml.catalog import NAMES
    from provml.store.naming import CALLED

    assert set(NAMES) == set(CALLED)


def test_a_mark_at_the_beginning_of_a_file_is_no_part_of_it(tmp_path: Path):
    assert made(tmp_path, "\ufeff" + GOOD).text == GOOD


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
    with pytest.raises(WrongParameter, match="It is given twice, as from and from_"):
        CATALOG["l5"].given({"from": 1, "from_": 2})


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
    with pytest.raises(NoSuchQuery, match="There is no question None"):
        Catalog()[None]  # type: ignore[index]
    assert "q11x" not in Catalog()


def test_a_question_is_found_by_its_id_in_any_case_and_by_its_file(tmp_path: Path):
    (tmp_path / "U1-Which.rq").write_text(GOOD.replace("id: x1", "id: U1"))
    catalog = Catalog([tmp_path])
    assert catalog["u1"] is catalog["U1"] is catalog["u1-which"]
    assert catalog["q1-loss-at-an-epoch"] is catalog["Q1"] is catalog["q1"]


def test_a_folder_of_queries_that_is_none_is_told(tmp_path: Path):
    (tmp_path / "file").write_text(GOOD)
    catalog = Catalog([tmp_path / "file", tmp_path / "nowhere"])
    told = [str(error) for error in catalog.broken.values()]
    assert "it is a file, not a folder of queries" in told[0]
    assert "nowhere: there is no such folder. See what PROVML_QUERIES names." in told[1]


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
