"""Live events of a run: by polling from a cursor, and as server-sent events."""

from __future__ import annotations

import http.client
import json
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import provml
from web.serving import running

EVENTS = "/api/v1/runs/{}/events"


def test_polling_continues_where_the_last_answer_ended(reader: TestClient, recorded: Path):
    cursor, events = "0", []
    while True:
        answer = reader.get(EVENTS.format("monday"), params={"after": cursor, "limit": 5}).json()
        events += answer["events"]
        cursor = answer["next"]
        if not answer["more"]:
            break
    journal = next((recorded / "runs" / "monday").glob("*.jsonl"))
    lines = [json.loads(line) for line in journal.read_bytes().rstrip(b"\0").splitlines()]
    assert events == lines
    assert answer["status"] == "FINISHED"
    tag = reader.get(EVENTS.format("monday"), params={"after": cursor}).headers["etag"]
    same = reader.get(EVENTS.format("monday"), params={"after": cursor}, headers={"If-None-Match": tag})
    assert same.status_code == 304


def test_new_events_change_the_tag(client: TestClient, home: Path):
    url = EVENTS.format("live")
    with provml.record("flowers", home=home, run="live", capture_environment=False) as run:
        first = client.get(url)
        assert first.json()["status"] == "RUNNING"
        cursor = first.json()["next"]
        waiting = client.get(url, params={"after": cursor})
        assert waiting.json()["events"] == []
        with run.training(learning_rate=0.1) as training:
            for epoch in training.epochs(1):
                epoch.measured(loss=0.5)
        answer = client.get(url, params={"after": cursor}, headers={"If-None-Match": waiting.headers["etag"]})
        assert answer.status_code == 200
        assert "measured" in [event["e"] for event in answer.json()["events"]]
    assert client.get(url, params={"after": answer.json()["next"]}).json()["status"] == "FINISHED"


def test_several_writers_have_one_cursor(client: TestClient, home: Path):
    folder = home / "runs" / "monday"
    journal = next(folder.glob("*.jsonl"))
    header = json.loads(journal.read_bytes().splitlines()[0])
    other = {**header, "writer": "w2", "main": False}
    (folder / "w2.jsonl").write_text(json.dumps(other) + "\n")
    answer = client.get(EVENTS.format("monday")).json()
    assert "," in answer["next"]
    assert [event["writer"] for event in answer["events"] if event["e"] == "run"] == ["main", "w2"]
    again = client.get(EVENTS.format("monday"), params={"after": answer["next"]}).json()
    assert (again["events"], again["next"]) == ([], answer["next"])


@pytest.mark.parametrize("cursor", ["x", "-1", "1.5", "main:", "9" * 40])
def test_a_wrong_cursor_is_refused(reader: TestClient, cursor: str):
    assert reader.get(EVENTS.format("monday"), params={"after": cursor}).status_code == 400


def test_a_run_that_does_not_exist_is_not_found(reader: TestClient):
    assert reader.get(EVENTS.format("nobody")).status_code == 404


def test_a_finished_run_streams_its_events_and_its_end(reader: TestClient):
    answer = reader.get(EVENTS.format("monday"), headers={"Accept": "text/event-stream"})
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["x-accel-buffering"] == "no"
    messages = answer.text.strip().split("\n\n")
    assert messages[-1] == 'event: end\ndata: {"status":"FINISHED"}'
    cursor = messages[1].split("\n")[0].removeprefix("id: ")
    again = reader.get(
        EVENTS.format("monday"), headers={"Accept": "text/event-stream", "Last-Event-ID": cursor}
    ).text.strip()
    assert again.split("\n\n")[1:] == messages[-1:]


def test_a_stream_follows_a_run_and_ends_with_the_service(home: Path):
    recording = provml.record("flowers", home=home, run="live", capture_environment=False)
    with running(home, "--no-token", "--quiet") as server, recording as run:
        connection = http.client.HTTPConnection(*server.address, timeout=20)
        connection.request("GET", EVENTS.format("live"), headers={"Accept": "text/event-stream"})
        stream = connection.getresponse()
        assert stream.status == 200
        with run.training(learning_rate=0.1) as training:
            for epoch in training.epochs(1):
                epoch.measured(loss=0.125)
        text = ""
        while "0.125" not in text:
            text += stream.readline().decode()
        assert server.stop() == 0
        stream.read()  # ends, because the service has ended
        connection.close()
