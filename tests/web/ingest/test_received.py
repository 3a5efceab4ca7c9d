"""Requests are kept as they came, without secrets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from provml.web.ingest.received import Received, ReceivedLog, redact_json


def test_a_body_of_any_kind_is_kept(tmp_path: Path) -> None:
    log = ReceivedLog(tmp_path, "dfanalyzer")
    for body in (b'{"a": [1, null]}', b"not JSON", b"\xff\x00"):
        log.append("source", Received.from_bytes(1.5, "task", body, client="node-17"))
    first, second, third = log.read("source")
    assert (first.body, first.client, first.time) == ({"a": [1, None]}, "node-17", 1.5)
    assert second.text == "not JSON"
    assert third.base64 == "/wA="


@pytest.mark.parametrize("source", ["../../etc/passwd", "a/b", ".hidden", "", "ü" * 300, "con\x00trol"])
def test_a_source_is_never_a_path(tmp_path: Path, source: str) -> None:
    log = ReceivedLog(tmp_path, "provlake")
    log.append(source, Received(1.0, "retrospective", {}))
    (path,) = (tmp_path / "received" / "provlake").iterdir()
    assert path.suffix == ".jsonl"
    assert not path.name.startswith(".")
    assert path.stat().st_mode & 0o077 == 0
    assert len(list(log.read(source))) == 1


def test_a_half_line_of_a_killed_process_harms_nothing(tmp_path: Path) -> None:
    log = ReceivedLog(tmp_path, "openlineage")
    log.append("run", Received(1.0, "event", {"n": 1}))
    with log.path("run").open("ab") as file:
        file.write(b'{"t":2.0,"acti')
    log.append("run", Received(3.0, "event", {"n": 3}))
    assert [request.body["n"] for request in log.read("run")] == [1, 3]


def test_open_sources_survive(tmp_path: Path) -> None:
    log = ReceivedLog(tmp_path, "mlflow")
    log.mark_open("a/b")
    log.mark_open("c")
    log.mark_closed("c")
    assert ReceivedLog(tmp_path, "mlflow").open_sources() == ["a/b"]


def test_secrets_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "DB_PASSWORD", "correct horse battery")
    body = {
        "key": "loss",
        "params": [{"key": "api_token", "value": "abcdef123456"}, {"key": "optimizer", "value": "Adam"}],
        "environmentVariables": [{"name": "AWS_SECRET_ACCESS_KEY", "value": "abc"}, {"name": "HOME", "value": "/root"}],
        "metrics": [{"key": "token_accuracy", "value": 0.5, "timestamp": 1, "step": 0}],
        "source": '{"uri": "https://user:hunter2@host/x", "password": "hunter2", "rows": 3}',
        "stderr": "the login failed: correct horse battery",
        "nested": {"password": "hunter2", "list": ["hf_abcdefghijklmnop"]},
    }
    text = str(redact_json(body))
    for secret in ("abcdef123456", "'abc'", "hunter2", "horse", "hf_abcdefghijklmnop"):
        assert secret not in text
    for harmless in ("'loss'", "Adam", "/root", "token_accuracy", '"rows": 3'):
        assert harmless in text
