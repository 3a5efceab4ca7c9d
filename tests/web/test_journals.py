"""Journals that other machines send: appended at the length of the copy only, and only what is a journal."""

from __future__ import annotations

import gzip
import hashlib
import os
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient

from provml.journal import events, received, wire
from provml.journal.received import NotOwned, ReceivedFile, WrongOffset
from provml.journal.seals import Ledger, sealed_journals
from provml.store.seal_check import check_seals
from provml.web.app import create_app
from provml.web.service import Service
from provml.web.settings import ServiceLimits, ServiceSettings, Tokens

from .conftest import HOST, READ, WRITE, bearer

TARGET = "/api/v1/runs/r/journals/main"
NDJSON = {"Content-Type": wire.MEDIA_TYPE}


def header(**changes: Any) -> bytes:
    first = events.Header(events.VERSION, "r", "main", "flowers", 1_700_000_000.0, host="elsewhere")
    return events.encode(msgspec.structs.replace(first, **changes))


HEADER = header()
BEGIN = events.encode(events.Begin("training", "training", 1_700_000_001.0, "training"))
END = events.encode(events.End(1_700_000_002.0))


def patch(client: TestClient, offset: int, body: bytes, target: str = TARGET, **headers: str) -> Any:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.patch(target, content=body, headers={**NDJSON, "Upload-Offset": str(offset), **names})


@pytest.fixture
def settings(tmp_path: Path) -> ServiceSettings:
    """A service over an empty home."""
    return ServiceSettings(tmp_path / "home", tokens=Tokens(READ, WRITE))


@pytest.fixture
def copy(service: Service) -> Path:
    return service.home / "runs" / "r" / "main.jsonl"


def test_bytes_are_appended_at_the_length_of_the_copy(client: TestClient, copy: Path):
    assert client.head(TARGET).status_code == 404
    first = client.put(TARGET, content=HEADER, headers=NDJSON)
    assert (first.status_code, first.headers["upload-offset"]) == (201, str(len(HEADER)))
    assert patch(client, len(HEADER), BEGIN).status_code == 204
    again = patch(client, len(HEADER), BEGIN)  # the answer was lost
    assert (again.status_code, int(again.headers["upload-offset"])) == (409, len(HEADER + BEGIN))
    assert again.json()["code"] == "WrongOffset"
    assert client.put(TARGET, content=HEADER, headers=NDJSON).status_code == 409
    assert patch(client, 10**6, END).status_code == 409
    body = gzip.compress(END)
    assert patch(client, len(HEADER + BEGIN), body, Content_Encoding="gzip", Upload_Complete="?1").status_code == 204
    assert copy.read_bytes() == HEADER + BEGIN + END
    head = client.head(TARGET)
    assert (head.status_code, int(head.headers["upload-offset"])) == (200, copy.stat().st_size)
    assert head.headers["journal-id"] == wire.first_line_id(copy)
    run = client.get("/api/v1/store/runs").json()[0]
    assert (run["name"], run["status"]) == ("flowers", "FINISHED")


@pytest.mark.parametrize("says_so", [True, False])
def test_a_journal_is_sealed_when_its_end_has_arrived(client: TestClient, service: Service, copy: Path, says_so: bool):
    client.put(TARGET, content=HEADER, headers=NDJSON)
    assert sealed_journals(service.home, "r") == set()
    complete = {"Upload_Complete": "?1"} if says_so else {}
    patch(client, len(HEADER), BEGIN + END, **complete)
    patch(client, len(HEADER + BEGIN + END), b"", Upload_Complete="?1")
    (line,) = Ledger(service.home).lines()
    assert (line.entry["kind"], line.entry["by"], line.entry["size"]) == ("sealed", "service", copy.stat().st_size)
    late = events.encode(events.CaptureErrors(1, "OSError: late"))
    patch(client, len(HEADER + BEGIN + END), late, Upload_Complete="?1")
    assert [line.entry["kind"] for line in Ledger(service.home).lines()] == ["sealed", "rewritten"]
    assert check_seals(service.home).problems == []
    copy.write_bytes(copy.read_bytes().replace(b"training", b"mourning", 1))
    assert [problem.reason for problem in check_seals(service.home).problems] == ["was changed after it was sealed"]


@pytest.mark.parametrize(
    ("body", "status", "line", "reason"),
    [
        (b"", 422, 1, "begins with its header"),
        (BEGIN, 422, 1, "begins with its header"),
        (b"{}\n", 422, 1, "missing required field"),
        (HEADER[:-1], 422, 1, "no line break"),
        (HEADER + b"not json\n", 422, 2, "malformed"),
        (HEADER + BEGIN + b'{"e":"end","t":"now"}\n', 422, 3, "Expected `float`"),
        (HEADER + b'{"e":"done"\0}\n', 422, 2, "null byte"),
        (HEADER + b'{"e":"used","at":"x","ref":"\xff"}\n', 422, 2, "codec can't decode"),
        (HEADER + HEADER, 422, 2, "first line only"),
        (header(run="other"), 422, 1, "run 'other'"),
        (header(writer="other"), 422, 1, "writer 'other'"),
        (header(version=99), 426, None, "Upgrade provml"),
        (header(time=1e99), 422, 1, "not a valid time"),
        (HEADER + b'{"e":"workflow","said":' + b'{"a":' * 200 + b"1" + b"}" * 200 + b"}\n", 422, 2, "nested"),
    ],
)
def test_what_is_no_journal_is_refused_as_a_whole(
    client: TestClient, copy: Path, body: bytes, status: int, line: int | None, reason: str
):
    answer = patch(client, 0, body)
    assert answer.status_code == status
    assert reason in answer.json()["detail"]
    assert answer.json().get("line") == line
    assert not copy.exists() or copy.stat().st_size == 0


def test_damaged_lines_are_taken_if_the_sender_says_so(client: TestClient, copy: Path):
    body = HEADER + b"damaged\n" + END
    assert patch(client, 0, body).status_code == 422
    assert patch(client, 0, body, Prefer=wire.LENIENT).status_code == 422, "it may have a secret"
    headers = {"Prefer": wire.LENIENT, wire.REDACTS: "?1"}
    assert patch(client, 0, body, **headers).status_code == 201
    assert copy.read_bytes() == body
    assert patch(client, 0, b"damaged\n", "/api/v1/runs/q/journals/main", **headers).status_code == 422


SECRET = "hunter2-hunter2"
WITH_SECRETS = [
    rb'{"e":"parameter","at":"training","values":{"rate":1e-3,"api_key":"hunter2-hunter2"}}',
    rb'{"e":"parameter","at":"training", "values" : {"password": 1234567}}',
    rb'{"e":"ran","at":"training","output":"\u00e9 \/ \"x\" --password hunter2-hunter2"}',
    rb'{"e":"environment","around":{"argv":["--password","hunter2-hunter2","--lr","1"],"url":"https://a:hunter2-hunter2@h/"}}',
    rb'{"e":"done","at":"training","t":2,"s":1,"status":"FAILED","error":["ValueError","password=hunter2-hunter2"]}',
    rb'{"e":"fault","count":1,"first":"token hunter2-hunter2Xy9","messages":{"password=hunter2-hunter2":1}}',
    rb'{"e":"data","ref":"d","kind":"dataset","name":"d","path":"https://h/d?sig=hunter2-hunter2"}',
    rb'{"e":"workflow","said":{"source":"https://ada:hunter2-hunter2@h/x"}}',
    rb'{"e":"end","t":3,"later":{"secret":["hunter2-hunter2","b"]}}',
    rb'{"e":"measured","at":"training","values":{"loss":1.0},"token":"hunter2-hunter2Xy9"}',
    rb'{"e":"measured","at":"training","values":{"password":"hunter2-hunter2"}}',
    rb'{"e":"measured","at":"training","values":{"password=hunter2-hunter2":1}}',
    rb'{"e":"measured","at":"password=hunter2-hunter2","values":{"loss":1}}',
    rb'{"e":"batches","at":"training","index":[1],"t":[2],"s":[1],"values":{"password":["hunter2-hunter2"]}}',
    rb'{"e":"batch","at":"training","t":2,"s":1,"password":"hunter2-hunter2"}',
    rb'{"e":"used","at":"training","ref":"https://ada:hunter2-hunter2@h/x"}',
]


@pytest.mark.parametrize("line", WITH_SECRETS)
def test_secrets_are_replaced_before_a_journal_is_stored_and_offsets_stay(
    client: TestClient, service: Service, copy: Path, line: bytes
):
    begin = BEGIN.replace(b'"name":"training"', b'"name":"training","values":{"sort_key":"date","pad_token":"<pad>"}')
    body = HEADER + begin + line + b"\n"
    answer = patch(client, 0, body)
    assert (answer.status_code, answer.headers["redacted-lines"]) == (201, "1")
    assert int(answer.headers["upload-offset"]) == copy.stat().st_size == len(body)
    stored = copy.read_bytes()
    assert stored.startswith(HEADER + begin)
    assert SECRET.encode() not in stored
    assert b"1234567" not in stored
    assert b"***" in stored
    assert [event.__class__ for event in map(events.decode, stored.splitlines())][-1] is events.decode(line).__class__
    again = patch(client, 0, body)  # the answer was lost
    assert (again.status_code, int(again.headers["upload-offset"])) == (409, len(body))
    last = patch(client, len(body), END, Upload_Complete="?1")
    assert (last.status_code, "redacted-lines" in last.headers) == (204, False)
    assert not check_seals(service.home).problems
    files = [path.read_bytes() for path in service.home.rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in content for content in files)


@pytest.mark.parametrize("way", ["header", "variable"])
def test_lines_are_stored_as_they_are_if_their_sender_redacts_or_redaction_is_off(
    client: TestClient, copy: Path, way: str, monkeypatch: pytest.MonkeyPatch
):
    body = HEADER + WITH_SECRETS[0] + b"\n"
    if way == "variable":
        monkeypatch.setenv("PROVML_REDACT", "0")
    answer = patch(client, 0, body, **({wire.REDACTS: "?1"} if way == "header" else {}))
    assert (answer.status_code, "redacted-lines" in answer.headers) == (201, False)
    assert copy.read_bytes() == body


def test_measures_stay_as_they_are(client: TestClient, copy: Path):
    body = (
        HEADER + BEGIN + b'{"e":"measured","at":"training","values":{"loss":1e-3,"password_strength":7,"pin":1234}}\n'
    )
    assert "redacted-lines" not in patch(client, 0, body).headers
    assert copy.read_bytes() == body


def test_a_secret_that_is_shorter_than_its_replacement_keeps_its_length(client: TestClient, copy: Path):
    line = b'{"e":"parameter","at":"t","values":{"password":"x","passwd":1234,"pwd":7}}\n'
    assert patch(client, 0, HEADER + line).headers["redacted-lines"] == "1"
    expected = b'{"e":"parameter","at":"t","values":{"password":"*","passwd":"*" ,"pwd":7}}\n'
    assert copy.read_bytes() == HEADER + expected


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"e":"parameter","at":"t","values":{"a":"b","a":"c"}}\n', "the name 'a' twice"),
        (b'{"e":"end","t":3,"later":' + b"9" * 5000 + b"}\n", "searched for secrets"),
        (b'{"e":"end","t":3,"later":"\xc3"}\n', "searched for secrets"),
    ],
)
def test_a_line_that_cannot_be_searched_is_refused(client: TestClient, copy: Path, line: bytes, reason: str):
    answer = patch(client, 0, HEADER + line)
    assert (answer.status_code, answer.json()["line"]) == (422, 2)
    assert reason in answer.json()["detail"]
    assert not copy.exists() or copy.stat().st_size == 0


def test_secrets_in_annotations_are_replaced(client: TestClient, service: Service):
    body = (
        b'{"e":"annotations","v":1,"run":"r","writer":"w"}\n'
        b'{"e":"annotation","t":1.0,"kind":"note","text":"the key is ghp_abcdefghij1234567890","by":"ada"}\n'
    )
    answer = patch(client, 0, body, "/api/v1/runs/r/annotations/w")
    assert answer.headers["redacted-lines"] == "1"
    (path,) = service.home.glob("runs/r/annotations/*.jsonl")
    assert path.stat().st_size == len(body)
    assert b'"text":"the key is ***"' in path.read_bytes()


@pytest.mark.parametrize("name", ["..", ".hidden", "a b", "a%2Fb", "%2e%2e", "a%5Cb", "x" * 201, "é", "a%00"])
def test_names_that_are_no_ids_never_become_paths(client: TestClient, service: Service, name: str):
    for target in (f"/api/v1/runs/{name}/journals/main", f"/api/v1/runs/r/journals/{name}"):
        assert patch(client, 0, HEADER, target).status_code in (400, 404, 405)
    assert not list(service.home.rglob("*.jsonl"))


@pytest.mark.parametrize("value", ["-1", "1.5", "x", "", "1" * 30, "٣"])
def test_an_offset_is_a_whole_number(client: TestClient, value: str):
    encoded = value.encode()
    headers = {**NDJSON, "Upload-Offset": encoded}
    assert client.patch(TARGET, content=HEADER, headers=headers).status_code == 400  # type: ignore[arg-type]


def test_writing_needs_the_write_token_and_the_media_type(client: TestClient, service: Service):
    assert client.patch(TARGET, content=HEADER, headers={"Content-Type": "text/plain"}).status_code == 415
    assert patch(client, 0, HEADER, Authorization=f"Bearer {READ}").status_code == 403
    assert patch(client, 0, HEADER, Authorization="Bearer wrong").status_code == 401
    assert patch(client, 0, HEADER, Origin="http://evil.example").status_code == 403
    assert client.head(TARGET, headers=bearer(READ)).status_code == 404
    assert not (service.home / "runs").exists()


def test_a_body_that_inflates_too_far_is_refused(client: TestClient, copy: Path):
    bomb = gzip.compress(b"x" * (wire.MAX_CHUNK_BYTES + 1))
    assert patch(client, 0, bomb, Content_Encoding="gzip").status_code == 413
    assert not copy.exists()


def test_a_journal_of_this_machine_and_of_another_token_is_not_touched(
    client: TestClient, service: Service, copy: Path
):
    copy.parent.mkdir(parents=True)
    copy.write_bytes(HEADER)
    assert patch(client, len(HEADER), END).status_code == 403
    assert copy.read_bytes() == HEADER
    other = ReceivedFile(service.home / "runs" / "r" / "rank-1.jsonl")
    other.append(0, HEADER, owner="somebody else")
    answer = patch(client, len(HEADER), END, "/api/v1/runs/r/journals/rank-1")
    assert answer.status_code == 403
    assert "another token" in answer.json()["detail"]


def test_a_part_of_a_line_that_a_killed_service_left_is_replaced(client: TestClient, copy: Path):
    patch(client, 0, HEADER + BEGIN)
    with copy.open("ab") as file:
        file.write(END[:10])
    assert int(client.head(TARGET).headers["upload-offset"]) == len(HEADER + BEGIN)
    assert patch(client, len(HEADER + BEGIN), END).status_code == 204
    assert copy.read_bytes() == HEADER + BEGIN + END
    with copy.open("ab") as file:
        file.write(bytes(5000))  # what a power cut leaves
    assert int(client.head(TARGET).headers["upload-offset"]) == len(HEADER + BEGIN + END)


def test_the_sign_of_life_is_that_of_the_writer(client: TestClient, copy: Path):
    patch(client, 0, HEADER, Writer_Idle="3600")
    assert time.time() - copy.stat().st_mtime == pytest.approx(3600, abs=60)
    assert client.get("/api/v1/store/runs").json()[0]["status"] == "LOST"
    assert patch(client, len(HEADER), b"").status_code == 204  # a heartbeat
    assert time.time() - copy.stat().st_mtime < 60
    assert client.get("/api/v1/store/runs").json()[0]["status"] == "RUNNING"


def test_annotations_are_received_in_the_same_way(client: TestClient, service: Service):
    patch(client, 0, HEADER + END)
    lines = [
        b'{"e":"annotations","v":1,"run":"r","writer":"w"}\n',
        b'{"e":"annotation","t":1700000000,"kind":"tag","text":"good","by":"ada","number":1}\n',
    ]
    target = "/api/v1/runs/r/annotations/w"
    assert patch(client, 0, lines[1], target).status_code == 422
    assert patch(client, 0, lines[0] + HEADER, target).status_code == 422
    assert patch(client, 0, b"".join(lines), target).status_code == 201
    assert client.get("/api/v1/store/runs").json()[0]["tags"] == ["good"]


def test_a_disk_without_space_takes_nothing(tmp_path: Path):
    limits = ServiceLimits(disk_floor_bytes=1 << 62)
    settings = ServiceSettings(tmp_path / "home", tokens=Tokens(READ, WRITE), limits=limits)
    with (
        Service(settings) as service,
        TestClient(create_app(service), base_url=HOST, headers=bearer(WRITE)) as client,
    ):
        answer = patch(client, 0, HEADER)
        assert (answer.status_code, answer.headers["retry-after"]) == (507, "30")
        digest = hashlib.sha256(b"x").hexdigest()
        octets = {"Content-Type": "application/octet-stream"}
        assert client.put(f"/api/v1/content/{digest}", content=b"x", headers=octets).status_code == 507
    assert not (tmp_path / "home" / "runs").exists()


# ---- contents


def send_content(client: TestClient, digest: str, offset: int, piece: bytes, *, is_last: bool) -> Any:
    headers = {
        "Content-Type": "application/octet-stream",
        "Upload-Offset": str(offset),
        "Upload-Complete": "?1" if is_last else "?0",
    }
    return client.patch(f"/api/v1/content/{digest}", content=piece, headers=headers)


def test_a_content_comes_in_pieces_and_counts_when_its_digest_fits(client: TestClient, service: Service):
    data = os.urandom(100_000)
    digest = hashlib.sha256(data).hexdigest()
    target = f"/api/v1/content/{digest}"
    assert client.head(target).status_code == 404
    assert send_content(client, digest, 0, data[:60_000], is_last=False).status_code == 204
    head = client.head(target)
    assert (head.headers["upload-offset"], head.headers["upload-complete"]) == ("60000", "?0")
    assert send_content(client, digest, 0, data[:60_000], is_last=False).status_code == 409
    assert client.get(f"/api/v1/artifacts/{digest}").status_code == 404
    assert send_content(client, digest, 60_000, data[60_000:], is_last=True).status_code == 201
    assert client.head(target).headers["upload-complete"] == "?1"
    assert client.get(f"/api/v1/artifacts/{digest}").content == data
    assert send_content(client, digest, 0, data, is_last=True).headers["upload-complete"] == "?1"
    assert [path.name for path in (service.home / "artifacts").glob("*/*")] == [digest]
    assert not list((service.home / "service" / "uploads").iterdir())


def test_a_content_of_another_digest_is_thrown_away(client: TestClient, service: Service):
    digest = hashlib.sha256(b"right").hexdigest()
    octets = {"Content-Type": "application/octet-stream"}
    answer = client.put(f"/api/v1/content/{digest}", content=b"wrong", headers=octets)
    assert (answer.status_code, answer.json()["code"]) == (422, "WrongDigest")
    assert not list((service.home / "service" / "uploads").iterdir())
    assert client.put(f"/api/v1/content/{digest}", content=b"right", headers=octets).status_code == 201
    for name in (digest.upper(), digest[:-1], f"..%2f{digest}", "a" * 65):
        assert client.put(f"/api/v1/content/{name}", content=b"x", headers=octets).status_code in (400, 404)


# ---- the file itself


def test_two_senders_of_one_file_append_once(tmp_path: Path):
    file = ReceivedFile(tmp_path / "r" / "main.jsonl")
    assert file.length() is None
    assert file.append(0, b"one\n", owner="a") == 4
    with pytest.raises(WrongOffset) as error:
        file.append(0, b"one\n", owner="a")
    assert error.value.length == 4
    with pytest.raises(NotOwned):
        file.append(4, b"two\n", owner="b")
    assert file.path.read_bytes() == b"one\n"


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = ReceivedFile(tmp_path / "r" / "main.jsonl")
    file.append(0, b"one\n", owner="a")

    def fail(descriptor: int, data: bytes, offset: int) -> None:
        os.pwrite(descriptor, data[:2], offset)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(received, "_write", fail)
    with pytest.raises(OSError, match="No space"):
        file.append(4, b"two\n", owner="a")
    assert file.path.read_bytes() == b"one\n"
