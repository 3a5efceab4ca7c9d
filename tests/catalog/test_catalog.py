"""The catalog: query files are checked when read, and values cannot change the structure of a query."""

from __future__ import annotations

import contextlib
import re
from datetime import datetime
from pathlib import Path

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from provml import paths
from provml.catalog import INTENTS, USER_INTENT, Catalog, Query, read_query, user_folders
from provml.errors import FileFormatError, InvalidParameter, QueryNotFound

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
    return write_query(tmp_path, GOOD)


def write_query(folder: Path, text: str) -> Query:
    path = folder / "x1-which.rq"
    path.write_text(text)
    return read_query(path)


def test_a_parameter_is_replaced_outside_strings_iris_and_comments(query: Query):
    bound = query.bind({"name": "loss"})
    assert '?s ?p "loss" .' in bound
    assert "# not $this" in bound
    assert '<http://example.org/$name> "$name" , ' in bound
    assert "LIMIT 5" in bound


def test_a_parameter_without_a_value_is_undef_or_its_default(query: Query):
    bound = query.bind({"name": "loss"})
    assert "VALUES ?least { UNDEF }" in bound
    assert "VALUES ?who { UNDEF }" in bound


def test_several_values_are_written_side_by_side(query: Query):
    bound = query.bind({"name": "x", "who": ["http://example.org/a", "http://example.org/b"]})
    assert "VALUES ?who { <http://example.org/a> <http://example.org/b> }" in bound


def test_an_empty_list_for_a_required_parameter_is_an_error(tmp_path: Path):
    query = write_query(tmp_path, GOOD.replace("many: true, optional: true", "many: true"))
    with pytest.raises(InvalidParameter, match="at least one who"):
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
        ({"nam": "x"}, "Did you mean 'name'?"),
        ({"name": ["x", "y"]}, "text"),
        ({"name": "x\udcff"}, "not Unicode"),
        ({"name": "x", "who": "http://example.org/\udcff"}, "absolute IRI"),
        ({"name": "x", "least": 10**400}, "a number"),
        ({"name": "x", "limit": 10**5000}, "a whole number"),
        ({"name": "x", "limit": 2**63}, "The greatest integer is 9223372036854775807"),
    ],
)
def test_an_invalid_value_is_a_clear_error(query: Query, values, word: str):
    with pytest.raises(InvalidParameter, match=re.escape(word)):
        query.bind(values)


def test_the_message_for_an_invalid_value_says_what_is_expected_once():
    with pytest.raises(InvalidParameter) as caught:
        Catalog()["q1"].bind({"model": "alexnet", "epoch": "ten"})
    expected = "loss-at-epoch: epoch takes a whole number from 0 on, not 'ten' (str). Pass a value such as 10."
    assert str(caught.value) == expected


def shape(sparql: str) -> str:
    """Return a query with empty strings."""
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
def test_any_number_is_bound_exactly(number):
    from provml.catalog import Parameter

    simple = Query("t", "t", "SELECT ?x WHERE { BIND($v AS ?x) }", Path("t.rq"), {"v": Parameter("v", "double")})
    value = float(next(iter(ox.Store().query(simple.bind({"v": number}))))["x"].value.replace("INF", "inf"))
    assert value == float(number) or (value != value and number != number)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (("#+ id: x1\n", ""), "the header has no name."),
        (("$name . #", "$nome . #"), "$nome is not declared"),
        (("LIMIT $limit", "LIMIT 5"), "$limit is declared and not used"),
        (("type: string", "type: text"), "the parameter name has type: text. Use one of string"),
        (("#+ summary: Which?", "#+ summary: Which?\n#+ colour: red"), "colour"),
        (("{ $least }", "{ 1 2 } FILTER(?v > $least)"), "$least may have no value, or several"),
        (("#+ params:", "#+ params: ["), "the header is not YAML"),
        (("#+ columns", "#+ plot: {x: s}\n#+ columns"), "the plot is invalid (Object missing required field `y`)"),
        (("#+ columns", "#+ plot: [s]\n#+ columns"), "the plot is not a mapping"),
        (("#+ columns", "#+ plot: {x: s, y: s, z: s}\n#+ columns"), "the plot has an unknown key 'z'"),
        (("#+ columns", "#+ plot: {x: s, y: [s, loss]}\n#+ columns"), "names loss, which is not a column"),
        (("#+ columns", "#+ plot: {x: s, y: s, by: run}\n#+ columns"), "names run, which is not a column"),
        (("#+ columns", "#+ plot: {x: s, y: s, named: what}\n#+ columns"), "what, which is not a parameter"),
        (("#+ columns", "#+ plot: {x: [s], y: s}\n#+ columns"), "the plot is invalid (Expected `str`, got `array`"),
        (("#+ columns", "#+ plot: {x: s, y: {s: s}}\n#+ columns"), "the plot is invalid (Expected `str | array`"),
        (("columns: {s: iri}", "columns: [s]"), "columns is not a mapping of names"),
        (("columns: {s: iri}", "columns: s"), "columns is not a mapping of names"),
        (("#+ params:\n", "#+ params: [name]\n#+ data:\n"), "params is not a mapping of names"),
        (("{type: string}", "{type: [string]}"), "the parameter name is invalid (Expected `str`, got `array`"),
        (("{type: string}", "[string]"), "the parameter name is not a mapping"),
        (("{type: string}", "{type: string, names: modle}"), "name has name_kind: modle. Use one of model"),
        (("{type: string}", "{type: string, of: run}"), "with the type iri"),
        (("many: true", "of: runn, many: true"), "who has node_kind: runn. Use one of run, model, dataset"),
        (("many: true", "node_kind: runn, multiple: true"), "the parameter who has node_kind: runn. Use one of run"),
        (("{type: string}", '{type: string, optional: "no"}'), "name is invalid (Expected `bool`, got `str`"),
        (("default: 5", "default: xx"), "the default of limit is 'xx', not a whole number"),
        (("default: 5", "default: 5, min: 6"), "the default of limit is 5, not a whole number from 6 on"),
        (("default: 5", "default: 5, min: few"), "has min: 'few'"),
        (("default: 5", "default: 5, min: limit"), "has min: 'limit'. Use a number, or the name of another parameter"),
        (("default: 5", "default: 5, min: name"), "has min: 'name'"),
        (("default: 5", "default: 5, min: who"), "has min: 'who'"),
        (("default: 5", "default: -5"), "the default of limit is -5, not a whole number from 0 on"),
        (("{type: string}", "{type: string, min: 1}"), "has min: 1"),
        (("#+ id: x1\n", "#+ id: x1\n#+ 2026-13-45: x\n"), "the header is not YAML"),
        (("#+ id: x1\n", "#+ id: x1\n#+ 1: x\n#+ (: x\n"), "the header has an unknown key"),
    ],
)
def test_an_invalid_query_file_is_an_error_with_advice(tmp_path: Path, change: tuple[str, str], word: str):
    assert change[0] in GOOD
    with pytest.raises(FileFormatError) as caught:
        write_query(tmp_path, GOOD.replace(*change))
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
def test_any_header_is_read_or_a_file_format_error(tmp_path_factory: pytest.TempPathFactory, header):
    import yaml

    written = yaml.safe_dump({"id": "x1", "summary": "Which?", **header}, allow_unicode=True)
    head = "".join(f"#+ {line}\n" for line in written.splitlines())
    with contextlib.suppress(FileFormatError):
        assert write_query(tmp_path_factory.getbasetemp(), head + "SELECT ?s { ?s ?p ?o }").name


@pytest.mark.parametrize("place", ["LIMIT $limit", "limit\n\t$limit", "OFFSET $limit", "LIMIT 5 OFFSET  $limit"])
def test_a_number_of_rows_cannot_be_negative(tmp_path: Path, place: str):
    query = write_query(tmp_path, GOOD.replace("LIMIT $limit", place))
    assert query.bind({"name": "x", "limit": 0})
    with pytest.raises(InvalidParameter, match=r"limit takes a whole number from 0 on, not -1 \(int\)"):
        query.bind({"name": "x", "limit": -1})


def test_a_header_can_set_a_minimum(tmp_path: Path):
    query = write_query(tmp_path, GOOD.replace("{type: double,", "{type: double, min: 0.5,"))
    assert query.bind({"name": "x", "least": 0.5})
    for wrong in (0.4, float("nan")):
        with pytest.raises(InvalidParameter, match=r"least takes a number from 0\.5 on"):
            query.bind({"name": "x", "least": wrong})
    less = GOOD.replace("{ $least }", "{ $least } FILTER(?n > $limit - 1)").replace("LIMIT $limit", "")
    assert "FILTER(?n > -3 - 1)" in write_query(tmp_path, less).bind({"name": "x", "limit": -3})


def test_another_parameter_can_be_the_minimum(tmp_path: Path):
    query = write_query(tmp_path, GOOD.replace("{type: double,", "{type: double, min: limit,"))
    for fine in ({"least": 5}, {"least": 5.5, "limit": 5}, {"limit": 9}, {"least": float("nan")}, {}):
        assert query.bind({"name": "x", **fine})
    for wrong, limit in (({"least": 4.5}, 5), ({"least": 8, "limit": 9}, 9)):
        with pytest.raises(
            InvalidParameter, match=rf"least takes a number that is not less than limit, .*limit is {limit}:"
        ):
            query.bind({"name": "x", **wrong})


@pytest.mark.parametrize("question", ["l5", "l6", "l7"])
def test_a_range_that_ends_before_its_start_is_an_error(question: str):
    query = Catalog()[question]
    assert query.bind({"from": 3, "to": 3})
    with pytest.raises(
        InvalidParameter, match=r"to takes a whole number that is not less than from, not 2 .*from is 3:"
    ):
        query.bind({"from": 3, "to": 2})
    with pytest.raises(InvalidParameter, match="most takes a number that is not less than least"):
        Catalog()["b7"].bind({"hyperparameter": "x", "least": 0.2, "most": 0.1})


def test_the_name_kinds_of_headers_are_those_of_the_lookup():
    from provml.catalog import NAME_KINDS
    from provml.store.name_lookup import NAME_QUERIES

    assert set(NAME_KINDS) == set(NAME_QUERIES)


def test_a_byte_order_mark_is_ignored(tmp_path: Path):
    assert write_query(tmp_path, "\ufeff" + GOOD).text == GOOD


def test_a_header_names_the_columns_of_a_curve(tmp_path: Path, query: Query):
    assert query.plot is None
    text = GOOD.replace("{s: iri}", "{s: iri, n: integer, v: double}")
    curve = write_query(
        tmp_path, text.replace("#+ columns", "#+ plot: {x: n, y: v, by: s, named: name, unit: m}\n#+ columns")
    )
    assert curve.plot == {"x": "n", "y": ["v"], "by": ["s"], "named": "name", "unit": "m"}
    assert {alias for query in CATALOG.values() if query.plot is not None for alias in query.aliases} >= {
        "q3",
        "h1",
        "h2",
        "h3",
        "h7",
        "e1",
        "l4",
        "l5",
    }


def test_a_parameter_named_like_a_keyword_can_be_passed_with_an_underscore():
    assert CATALOG["l5"].normalize({"from_": 1, "to": 2}) == {"from": 1, "to": 2}
    with pytest.raises(InvalidParameter, match="no parameter 'nothing_'"):
        CATALOG["l5"].normalize({"nothing_": 1})
    with pytest.raises(InvalidParameter, match="from is passed twice, as from and from_"):
        CATALOG["l5"].normalize({"from": 1, "from_": 2})
    with pytest.raises(InvalidParameter, match="Pass from_=… or --from …"):
        CATALOG["l5"].bind({"to": 2})


def test_questions_are_grouped_by_intent_and_those_of_users_are_one_group(query: Query):
    assert {question.intent for question in CATALOG.values()} == set(INTENTS)
    assert CATALOG["q1"].source.startswith("Pina et al., IPAW 2021, Table 1")
    assert query.intent == USER_INTENT
    assert query.source == ""


def test_values_of_the_command_line_are_converted(query: Query):
    assert query.params["limit"].from_text("12") == 12
    assert query.params["least"].from_text("0.5") == 0.5
    assert query.params["limit"].from_text("many") == "many"
    from provml.catalog import Parameter

    assert Parameter("x", "boolean").from_text("Yes") is True
    assert Parameter("x", "dateTime").from_text("2026-01-02") == datetime(2026, 1, 2)


def test_folders_of_users_are_added_and_ids_are_unique(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    mine, home = tmp_path / "mine", tmp_path / "home"
    (home / "queries").mkdir(parents=True)
    mine.mkdir()
    (mine / "x1.rq").write_text(GOOD)
    (home / "queries" / "x2.rq").write_text(GOOD.replace("id: x1", "id: x2"))
    monkeypatch.setenv("PROVML_QUERIES", str(mine))
    catalog = Catalog(user_folders(home))
    assert {"x1", "x2", "loss-at-epoch"} <= set(catalog)
    (home / "queries" / "x3.rq").write_text(GOOD)
    (home / "queries" / "x4-half.rq").write_text("SELECT")
    catalog = Catalog(user_folders(home))
    assert catalog["x1"].path == mine / "x1.rq"
    with pytest.raises(FileFormatError, match="the name x1"):
        catalog["x3"]
    with pytest.raises(FileFormatError, match=r"x4-half.rq: the header has no name"):
        catalog["x4"]
    assert catalog["Q6"] is catalog["q6"]


def test_an_unknown_question_is_an_error_with_suggestions():
    with pytest.raises(QueryNotFound, match="Did you mean best-hyperparameters"):
        Catalog()["best-hyperparameter"]
    with pytest.raises(QueryNotFound, match="No question 'q11x'"):
        Catalog()["q11x"]
    with pytest.raises(QueryNotFound, match="No question None"):
        Catalog()[None]  # type: ignore[index]
    assert "q11x" not in Catalog()


def test_a_question_is_found_by_its_name_or_alias_in_any_case_and_by_its_file(tmp_path: Path):
    (tmp_path / "U1-Which.rq").write_text(GOOD.replace("id: x1", "id: U1"))
    catalog = Catalog([tmp_path])
    assert catalog["u1"] is catalog["U1"] is catalog["u1-which"]
    assert catalog["Loss-at-Epoch"] is catalog["Q1"] is catalog["q1"]


def test_a_missing_folder_of_queries_is_an_error_of_the_catalog(tmp_path: Path):
    (tmp_path / "file").write_text(GOOD)
    catalog = Catalog([tmp_path / "file", tmp_path / "nowhere"])
    messages = [str(error) for error in catalog.errors.values()]
    assert "a file, not a folder of queries" in messages[0]
    assert "nowhere: no such folder. Check PROVML_QUERIES." in messages[1]
    assert repr(catalog).endswith(" questions, 2 errors>")


CATALOG = Catalog()


@pytest.mark.parametrize("name", list(CATALOG))
def test_every_question_of_the_catalog_is_valid_sparql(name: str):
    query = CATALOG[name]
    samples = {"string": "x", "integer": 1, "double": 0.5, "iri": "http://example.org/x", "boolean": True}
    values = {key: samples[param.type] for key, param in query.params.items() if param.required}
    answer = ox.Store().query(query.bind(values))
    assert isinstance(answer, ox.QuerySolutions)
    assert [variable.value for variable in answer.variables] == list(query.columns)
    assert query.path.name == f"{name}.rq"
    assert query.summary.endswith("?")
    everything = {key: samples[param.type] for key, param in query.params.items()}
    list(ox.Store().query(query.bind(everything)))


def test_the_names_of_packaged_questions_are_those_of_their_headers():
    catalog = Catalog()
    for path in paths.queries().glob("*.rq"):
        query = read_query(path)
        assert {catalog[name].path for name in (query.name, *query.aliases, path.stem)} == {path}
        assert query.name in list(catalog)


def test_a_question_is_read_when_it_is_needed(monkeypatch: pytest.MonkeyPatch):
    paths_read: list[str] = []

    def read(path: Path) -> Query:
        paths_read.append(path.name)
        return read_query(path)

    monkeypatch.setattr("provml.catalog.catalog.read_query", read)
    catalog = Catalog()
    assert "q5" in catalog
    assert not paths_read
    assert catalog["q5"] is catalog["best-hyperparameters"]
    assert paths_read == ["best-hyperparameters.rq"]
