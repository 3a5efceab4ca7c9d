"""Pages of the viewer, asked for in process: what they show, what their forms do, and how they answer to bad input."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

import provml
from provml.web.app import create_app
from provml.web.security import CONTENT_SECURITY_POLICY
from provml.web.service import Service
from provml.web.settings import ServiceSettings, Tokens
from provml.web.viewer.render import STATIC_FILES, static_file
from web.conftest import HOST, READ, WRITE, bearer
from web.viewer.homes import LONG, MARKUP, record_flowers, record_hostile, record_long, record_many

RUN = "https://w3id.org/provml/run"
PAGES = (
    *(
        "/",
        "/?group=study",
        "/?columns=all",
        "/compare?r={0}&r={1}&graph=1",
        "/compare",
        "/models",
        "/data",
        "/lineage",
    ),
    *("/lineage?of={0}&dir=forward", "/dataflow", "/build", "/questions", "/questions/q6", "/questions/q3", "/query"),
    *("/validation", "/ontology", "/ontology/provml:TrainingExecution", "/ontology/prov:used", "/runs/{0}"),
    *(f"/runs/{{1}}/{tab}" for tab in ("epochs", "layers", "environment", "lineage", "validation", "artifacts", "rdf")),
    f"/nodes?iri={RUN}/{{0}}/training&format=html",
)


def form_token(client: TestClient) -> dict[str, str]:
    """Return the field that proves that a form is from a page of the service."""
    match = re.search(r'name="form_token" value="(\w+)"', client.get("/runs/monday").text)
    return {"form_token": match[1]} if match else {}


def client_of(home: Path, token: str = WRITE) -> Iterator[TestClient]:
    with (
        Service(ServiceSettings(home, tokens=Tokens(READ, WRITE))) as service,
        TestClient(create_app(service), base_url=HOST, headers=bearer(token)) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def flowers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    home = tmp_path_factory.mktemp("flowers") / "home"
    record_flowers(home)
    yield from client_of(home)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    home = tmp_path_factory.mktemp("hostile") / "home"
    record_hostile(home)
    yield from client_of(home)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    yield from client_of(tmp_path_factory.mktemp("empty") / "home")


class Elements(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def page(client: TestClient, address: str) -> Elements:
    """Return a page, which must be complete and must not need what the security policy refuses."""
    answer = client.get(address, headers={"Accept": "text/html"})
    assert answer.status_code == 200, f"{address}: {answer.status_code} {answer.text[-500:]}"
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    elements = Elements(answer.text)
    for tag, attributes in elements.elements:
        assert "style" not in attributes, f"{address}: <{tag} style>"
        assert not any(name.startswith("on") for name in attributes), f"{address}: <{tag}> {attributes}"
        assert tag != "style"
        if tag == "script":
            assert attributes.get("type") == "application/json" or attributes["src"].startswith("/static/")
    return elements


@pytest.mark.parametrize("address", PAGES)
def test_every_page_answers_without_inline_scripts_and_styles(flowers: TestClient, address: str):
    assert "</html>" in flowers.get(address.format("monday", "tuesday"), headers={"Accept": "text/html"}).text
    page(flowers, address.format("monday", "tuesday"))


@pytest.mark.parametrize("address", PAGES)
def test_hostile_names_stay_text(hostile: TestClient, address: str):
    elements = page(hostile, address.format("h1", "h2"))
    assert not [tag for tag, attributes in elements.elements if tag == "img" and attributes.get("src") == "x"]
    assert "\x1b" not in elements.text
    assert "\u202e" not in elements.text


@pytest.mark.parametrize(
    ("address", "step"),
    [
        *((address, "provml demo") for address in ("/", "/lineage", "/dataflow", "/build", "/validation")),
        *(("/models", "training.produced("), ("/data", "run.dataset("), ("/questions/q3", "Fill in what is needed")),
        *(("/questions", "How long did each epoch"), ("/query", "Ctrl+Enter runs"), ("/compare", "Choose two or more")),
    ],
)
def test_pages_of_an_empty_home_name_the_next_step(empty: TestClient, address: str, step: str):
    assert step in page(empty, address).text


def test_runs_show_what_differs_and_name_what_is_equal(flowers: TestClient):
    text = " ".join(page(flowers, "/").text.split())
    assert "learning_rate" in text
    assert "✓ finished" in text
    assert "✗ failed" in text
    assert "Equal in all 3 rows: name" in text.replace("\xa0", " ")


def test_runs_are_filtered_sorted_and_grouped(flowers: TestClient):
    filtered = page(flowers, "/?where=learning_rate > 0.15 and optimizer == 'Adam'").text
    assert "tuesday" in filtered
    assert "monday" not in filtered
    ordered = page(flowers, "/?sort=learning_rate&desc=1").text
    assert ordered.index("wednesday") < ordered.index("tuesday") < ordered.index("monday")
    grouped = " ".join(page(flowers, "/?group=status").text.split())
    assert "status FINISHED" in grouped
    assert "petals" in page(flowers, "/?group=study").text


def test_a_wrong_filter_is_explained_on_the_page(flowers: TestClient):
    text = page(flowers, "/?where=learning_rat > 1").text
    assert "learning_rat" in text
    assert "learning_rate" in text


def test_the_place_of_an_error_in_a_filter_is_under_its_column(flowers: TestClient):
    message = flowers.get("/", params={"where": "learning_rate > > 1"}).text.partition('role="alert">')[2]
    lines = message.partition("</pre>")[0].splitlines()
    place = next(number for number, line in enumerate(lines) if "^" in line)
    assert lines[place].index("^") == lines[place - 1].replace("&gt;", ">").rindex(">")


def test_runs_as_csv_follow_the_filter(flowers: TestClient):
    lines = flowers.get("/runs.csv?where=learning_rate < 1").text.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("run,")


def test_the_run_page_has_curves_settings_data_and_adaptations(flowers: TestClient):
    answer = flowers.get("/runs/tuesday")
    text = " ".join(Elements(answer.text).text.split())
    assert "learning_rate 0.2" in text
    assert "step decay" in text
    assert "gray images" in text
    assert '"marks":[{"x":3' in answer.text.replace(".0,", ",")
    assert '"dashed":true' in answer.text  # validation, in the chart of the training
    assert '"step":true' in answer.text  # the learning rate
    assert answer.text.count("<noscript><svg") == answer.text.count("data-chart>")


def test_epochs_lead_to_their_batches(flowers: TestClient):
    section = quote(f"{RUN}/monday/training/2", safe="")
    text = " ".join(page(flowers, f"/runs/monday/epochs?of={section}").text.split())
    assert "Batches of training 2" in text
    assert "5 batches" in text


def test_a_run_with_many_batches_is_summarized(tmp_path: Path):
    record_long(tmp_path / "home", epochs=120, batches=20)
    for client in client_of(tmp_path / "home"):
        answer = client.get("/runs/long")
        assert len(answer.content) < 60_000
        assert "page 1 of 2" in client.get("/runs/long/epochs").text
        assert "2,400 batches" in client.get("/runs/long/lineage").text


def test_comparison_leads_with_differences_and_names_the_first_upstream(flowers: TestClient):
    text = " ".join(page(flowers, "/compare?r=monday&r=tuesday").text.split())
    assert text.index("What differs") < text.index("What differs upstream") < text.index("What is the same")
    assert "0.9 ★" in text
    assert "the first difference is in training" in text
    assert "gray images" in text


def test_too_many_runs_cannot_be_compared(flowers: TestClient):
    answer = flowers.get("/compare", params=[("r", f"x{number}") for number in range(13)])
    assert answer.status_code == 400
    assert "at most 12" in answer.text


def test_graph_and_list_have_the_same_nodes(flowers: TestClient):
    text = flowers.get("/lineage?of=tuesday").text
    drawn = re.findall(r'<a href="([^"]+)"><g class="n', text)
    listed = re.findall(r'<td class="long"><a href="([^"]+)">', text.partition("<details")[2])
    assert len(drawn) >= 6
    assert sorted(drawn) == sorted(listed)


def test_folded_parts_of_a_lineage_are_shown_on_demand(tmp_path: Path):
    with provml.record("split", home=tmp_path / "home", run="s1", capture_environment=False) as run:
        with run.filter("split", using=run.dataset(b"all", name="all")) as step:
            parts = [step.produced(str(number).encode(), name=f"part-{number}") for number in range(9)]
        with run.training(using=parts) as training:
            training.produced(b"weights")
    for client in client_of(tmp_path / "home"):
        for address in ("/lineage?of=s1", "/runs/s1/lineage"):
            text = client.get(address).text
            expand = unescape(re.findall(r'<a href="([^"]*open=[^"]*)"', text)[0])
            opened = client.get(expand).text
            assert opened.count('class="n entity') - text.count('class="n entity') == 8
            assert "Fold alike nodes again" in opened
            assert "show each" not in opened


@pytest.mark.parametrize(
    ("fmt", "start"), [("svg", "<svg"), ("dot", "digraph"), ("mermaid", "---"), ("ttl", "@prefix")]
)
def test_a_lineage_can_be_downloaded(flowers: TestClient, fmt: str, start: str):
    answer = flowers.get(f"/lineage?of=tuesday&format={fmt}")
    assert answer.text.startswith(start)
    assert "attachment" in answer.headers["content-disposition"]


def test_lineage_opens_no_file_that_a_client_names(flowers: TestClient, tmp_path: Path):
    secret = tmp_path / "raw"
    secret.write_bytes(b"raw images")
    assert flowers.get("/lineage", params={"of": str(secret)}).status_code in (400, 404, 422)


def test_questions_have_forms_and_are_answered_in_other_ways(flowers: TestClient):
    elements = page(flowers, "/questions/q6?model=net")
    text = " ".join(elements.text.split())
    assert "step decay" in text
    names = {attributes.get("name") for tag, attributes in elements.elements if tag == "input"}
    assert {"model", "hyperparameter", "measure"} <= names
    options = {attributes.get("value") for tag, attributes in elements.elements if tag == "option"}
    assert {"net", "accuracy", "learning_rate"} <= options
    assert "store.ask('adaptations-of-best', model='net')" in elements.text
    assert "provml ask adaptations-of-best --model net" in elements.text
    assert f"{HOST}/questions/adaptations-of-best?model=net" in elements.text
    assert flowers.get("/questions/q6?model=net&format=csv").text.startswith("training,value,epoch")


def test_a_wrong_name_in_a_question_is_explained(flowers: TestClient):
    answer = flowers.get("/questions/q6?model=nets")
    assert answer.status_code == 400
    assert "net" in Elements(answer.text).text


def test_sparql_errors_name_their_line(flowers: TestClient):
    answer = flowers.get("/query", params={"query": "SELECT ?x {\n ?x foo:bar ?y\n}"})
    assert answer.status_code == 400
    assert 'data-line="2"' in answer.text
    assert "foo:" in Elements(answer.text).text


def test_sparql_results_are_tables_charts_graphs_and_booleans(flowers: TestClient):
    rows = flowers.get("/query", params={"query": "SELECT ?run { ?run a provml:LearningProcessExecution }"}).text
    assert "3 rows" in Elements(rows).text
    assert "/sparql?query=" in rows
    sparql = "SELECT ?epoch ?seconds { ?s provml:sectionIndex ?epoch ; provml:elapsedSeconds ?seconds }"
    assert "data-chart" in flowers.get("/query", params={"query": sparql}).text
    graph = flowers.get("/query", params={"query": "CONSTRUCT WHERE { ?a prov:used ?b }"}).text
    assert 'class="edge"' in graph
    assert "✓ true" in flowers.get("/query", params={"query": "ASK { ?s ?p ?o }"}).text


def test_sparql_calls_nobody_and_changes_nothing(flowers: TestClient):
    for sparql in ("SELECT * { SERVICE <http://127.0.0.1:9/> { ?s ?p ?o } }", "DELETE WHERE { ?s ?p ?o }"):
        assert flowers.get("/query", params={"query": sparql}).status_code in (400, 403)


def test_nodes_are_pages_for_browsers_and_rdf_for_programs(flowers: TestClient):
    address = f"/nodes?iri={RUN}/monday/training"
    html = flowers.get(address, headers={"Accept": "text/html,*/*;q=0.8"})
    assert "training" in Elements(html.text).text
    assert "has_provenance" in html.headers["link"]
    turtle = flowers.get(address, headers={"Accept": "text/turtle"})
    assert turtle.headers["content-type"].startswith("text/turtle")
    assert "training/parameter/learning_rate = 0.1" in " ".join(Elements(html.text).text.split())
    assert "provlake:<wbr>was<wbr>Member<wbr>Of<wbr>Workflow<wbr>Execution" in html.text
    missing = flowers.get("/nodes?iri=urn:none", headers={"Accept": "text/html"})
    assert missing.status_code == 404
    assert "does not describe" in Elements(missing.text).text
    assert flowers.get("/nodes?iri=urn:none", headers={"Accept": "text/turtle"}).json()["code"] == "NodeNotFound"
    redirect = flowers.get("/id/run/monday", follow_redirects=False)
    assert redirect.status_code == 303
    assert redirect.headers["location"].startswith("/nodes?iri=")


def test_the_dataflow_tells_inputs_from_outputs(flowers: TestClient):
    text = flowers.get("/dataflow").text
    assert {"role-input", "role-intermediate", "role-output"} <= set(re.findall(r"role-\w+", text))
    assert "learning_rate" in text


def built(client: TestClient, *labels: str, **more: str) -> str:
    """Return the parameters of the query builder for attributes with some labels."""
    text = client.get("/build").text
    keys = dict(re.findall(r'<option value="([\d.]+)">([^<]+)</option>', text.partition('name="order"')[2]))
    by_label = {label: key for key, label in keys.items()}
    pairs = [("show", by_label[label]) for label in labels]
    pairs += [(name, by_label.get(value, value)) for name, value in more.items()]
    return "&".join(f"{name}={quote(value)}" for name, value in pairs)


def test_a_query_is_built_from_attributes_and_conditions(flowers: TestClient):
    params = built(
        flowers, "learning_rate", "optimizer", where="learning_rate", op="<", value="1", order="learning_rate", run="1"
    )
    text = " ".join(Elements(flowers.get(f"/build?{params}").text).text.split())
    assert "FILTER(?learning_rate < 1)" in text
    assert "ORDER BY ASC(?learning_rate)" in text
    assert "2 rows" in text


def test_the_query_builder_keeps_what_was_filled_in(flowers: TestClient):
    params = built(flowers, "learning_rate", where="learning_rate", op="<", value="1", order="learning_rate", rows="2")
    text = flowers.get(f"/build?{params}").text
    assert text.count('aria-label="Comparison"') == 2
    toggle = unescape(re.findall(r'<a href="(/build\?[^"]*)"', text)[0])
    chosen = flowers.get(toggle).text
    assert "FILTER(?learning_rate &lt; 1)" in chosen
    assert "ORDER BY ASC(?learning_rate)" in chosen
    assert re.search(r'class="n entity s role-', chosen)


def test_a_built_query_can_be_saved_as_a_question(tmp_path: Path):
    record_flowers(tmp_path / "home")
    for client in client_of(tmp_path / "home"):
        state = built(client, "learning_rate")
        fields = {"state": state, "name": "my-rates", "summary": 'Which "rates"?', **form_token(client)}
        answer = client.post("/build", data=fields, follow_redirects=False)
        assert answer.headers["location"] == "/questions/my-rates"
        assert "3 rows" in Elements(client.get("/questions/my-rates").text).text
        assert client.post("/build", data={**fields, "name": "../up"}).status_code == 400
        assert client.post("/build", data=fields).status_code == 409


def test_models_and_data_show_origin_score_and_roles(flowers: TestClient):
    models = " ".join(page(flowers, "/models").text.split())
    assert "accuracy 0.9" in models
    assert "gray images" in models
    data = " ".join(page(flowers, "/data").text.split())
    assert "test in 2 runs" in data
    assert "made in 1 run" in data


def test_leakage_is_flagged(tmp_path: Path):
    with provml.record("leak", model="net", home=tmp_path / "home", run="leak", capture_environment=False) as run:
        data = run.dataset(b"same", name="same data", role="training")
        with run.training(using=data, learning_rate=0.1) as training:
            model = training.produced(b"model")
        with run.evaluation(of=model, using=run.dataset(b"same", name="same data", role="test")) as test:
            test.measured(accuracy=1.0)
    for client in client_of(tmp_path / "home"):
        assert "leakage in 1 run" in Elements(client.get("/data").text).text
        assert "⚠ leakage" in Elements(client.get("/").text).text


def test_validation_is_checked_in_the_background(flowers: TestClient):
    for _ in range(200):
        text = flowers.get("/runs/monday/validation").text
        if "Checking" not in text:
            break
    assert "The graph" in text
    assert "shapes" in text


def test_tags_notes_and_names_are_edited_with_the_write_token(client: TestClient):
    token = form_token(client)
    for action, text in (("tag", "good, best"), ("note", "use this"), ("rename", "winner")):
        fields = {"action": action, "text": text, **token}
        assert client.post("/runs/monday", data=fields, follow_redirects=False).status_code == 303
    text = " ".join(Elements(client.get("/runs/monday").text).text.split())
    assert all(word in text for word in ("good", "best", "use this", "winner"))
    client.post("/runs/monday", data={"action": "untag", "text": "good", **token})
    client.post("/runs/monday", data={"action": "remove-note", "text": "use this", **token})
    text = " ".join(Elements(client.get("/runs/monday").text).text.split())
    assert "use this" not in text
    assert "best" in text


def test_forms_need_the_write_token_their_page_and_the_own_origin(client: TestClient):
    fields = {"action": "tag", "text": "x", **form_token(client)}
    assert client.post("/runs/monday", data=fields, headers=bearer(READ)).status_code == 403
    assert client.post("/runs/monday", data=fields, headers={"Origin": "http://evil.example"}).status_code == 403
    assert client.post("/runs/monday", data={"action": "tag", "text": "x"}).status_code == 403
    assert client.post("/runs/monday", json=fields).status_code == 415
    assert client.post("/runs/monday", data={**fields, "action": "drop"}).status_code == 400
    assert client.post("/runs/monday", data={**fields, "action": "note", "text": " "}).status_code == 400
    assert "form_token" not in client.get("/runs/monday", headers=bearer(READ)).text


def test_artifacts_are_downloads_never_pages(client: TestClient):
    text = client.get("/runs/monday/artifacts").text
    address = re.findall(r'href="(/artifacts/[0-9a-f]{64})"', text)[0]
    answer = client.get(address)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in answer.headers["content-security-policy"]


def test_a_lineage_is_exported_as_prov(flowers: TestClient):
    notation = flowers.get("/lineage?of=tuesday&format=provn").text
    assert notation.startswith("document")
    assert "wasGeneratedBy(" in notation
    answer = flowers.get("/lineage?of=tuesday&format=provjson")
    assert answer.headers["content-disposition"].endswith('"lineage.prov.json"')
    assert any(use.get("prov:role") for use in answer.json()["used"].values())


def test_rdf_of_a_run_in_all_formats(client: TestClient):
    for fmt in ("ttl", "nt", "jsonld"):
        answer = client.get(f"/runs/monday/rdf?format={fmt}")
        assert "provml" in answer.text
    assert client.get("/runs/monday/rdf?format=docx").status_code == 400


@pytest.mark.parametrize(
    ("address", "status"),
    [
        *(("/runs/nothing", 404), ("/runs/monday/nothing", 404), ("/questions/nothing", 404), ("/ontology/x:y", 404)),
        *(("/lineage?of=nothing", 422), ("/lineage?of=monday&format=exe", 400), ("/artifacts/abc", 404)),
    ],
)
def test_errors_are_pages(flowers: TestClient, address: str, status: int):
    answer = flowers.get(address)
    assert answer.status_code in (status, 404, 400)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert 'role="alert"' in answer.text


def test_a_stranger_gets_a_page_that_says_how_to_come_in(flowers: TestClient):
    answer = flowers.get("/", headers={"Authorization": "Bearer wrong-token-of-nobody"})
    assert answer.status_code == 401
    assert "provml serve --link" in Elements(answer.text).text


def test_an_unchanged_page_is_not_sent_again(flowers: TestClient):
    first = flowers.get("/runs/monday")
    again = flowers.get("/runs/monday", headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304
    assert again.content == b""


def test_static_files_are_small_versioned_and_the_licence_is_with_them(flowers: TestClient):
    assert sum(len(static_file(name).content) for name in STATIC_FILES) < 150_000
    text = flowers.get("/").text
    for name in ("viewer.css", "viewer.js"):
        version = re.search(rf"/static/{re.escape(name)}\?v=(\w+)", text)
        assert version
        assert version[1] == static_file(name).version
    assert flowers.get("/static/uPlot.LICENSE").status_code == 404
    folder = Path(str(provml.__file__)).parent / "web" / "viewer" / "static"
    assert "MIT" in (folder / "uPlot.LICENSE").read_text(encoding="utf-8")


def test_a_page_of_many_runs_is_small_and_paged(tmp_path: Path):
    record_many(tmp_path / "home", 60)
    for client in client_of(tmp_path / "home"):
        text = client.get("/").text
        assert "page 1 of 2" in text
        assert text.count('name="r"') == 50
        assert client.get("/?page=2").text.count('name="r"') == 10
        assert len(client.get("/", headers={"Accept-Encoding": "gzip"}).read()) < 60_000


def test_markup_of_a_label_is_escaped_in_data_for_the_script(hostile: TestClient):
    text = hostile.get("/runs/h1").text
    assert MARKUP not in text
    assert LONG not in text


def test_the_pages_of_progress_do_not_look_at_all_journals_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    home = tmp_path / "home"
    record_flowers(home)
    with Service(ServiceSettings(home, tokens=Tokens(READ, WRITE))) as service:
        total, indexed = service.store.backlog()
        assert total > indexed == 0
        monkeypatch.setattr("provml.web.served_store.list_journals", lambda home: pytest.fail("looked again"))
        service.sync()
        assert service.store.backlog() == (total, total)


def test_the_editor_completes_terms_of_the_data_that_the_ontology_lacks(flowers: TestClient):
    completed = flowers.get("/query").text
    assert "provml:TrainingExecution" in completed
    assert "rdfs:label" in completed


def test_browsers_get_a_page_for_an_address_that_does_not_exist(flowers: TestClient):
    page = flowers.get("/nothing", headers={"Accept": "text/html,*/*;q=0.8"})
    assert page.status_code == 404
    assert page.headers["content-type"].startswith("text/html")
    assert "All runs" in page.text
    assert flowers.get("/nothing").headers["content-type"] == "application/problem+json"


def test_the_ways_to_ask_are_tabs_that_need_no_script(flowers: TestClient):
    text = flowers.get("/questions/q6").text
    assert re.findall(r'<label for="way-\d">([^<]+)</label>', text) == [
        "SPARQL",
        "Python",
        "Command line",
        "curl",
        "URL",
    ]
    assert text.count('type="radio" name="way"') == text.count("<section aria-label") == 5


def test_a_run_that_began_after_the_last_look_at_the_journals_has_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("provml.web.viewer.routes.CHEAP_SECONDS", -1.0)  # each look counts as a costly one
    monkeypatch.setattr("provml.web.viewer.routes.FRESH_SECONDS", 1000.0)
    home = tmp_path / "home"
    settings = ServiceSettings(home, tokens=Tokens(READ, WRITE), sync_seconds=1000.0)
    with (
        Service(settings) as service,
        TestClient(create_app(service), base_url=HOST, headers=bearer(WRITE)) as client,
    ):
        assert client.get("/").status_code == 200
        with provml.record("late", home=home, run="late", capture_environment=False):
            assert client.get("/runs/late").status_code == 200
        assert client.get("/runs/nothing").status_code == 404
