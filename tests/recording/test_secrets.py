"""No form of a secret is recorded, by name or by shape, wherever it is; what only looks like a secret stays."""

from __future__ import annotations

import contextlib
import json
import shlex
import time
from pathlib import Path
from urllib.parse import quote

import pytest

import provml
from provml import exchange
from provml.journal.redaction import command_line, mask, redact_text
from tests.recording.secret_forms import (
    HARMLESS_PARAMETERS,
    HARMLESS_TEXTS,
    HEX,
    KEY,
    LOGIN,
    LONG,
    NAMES,
    OPAQUE_TEXTS,
    PLAIN,
    SHAPES,
    TEXTS,
)  # fmt: skip

PROGRAMS = frozenset(
    {
        "7z",
        "az",
        "curl",
        "docker",
        "dvc",
        "git",
        "mysql",
        "redis-cli",
        "smbclient",
        "sqlcmd",
        "sshpass",
        "ssh-keygen",
        "openssl",
        "htpasswd",
        "zip",
    }
)
VALUES = {"plain": PLAIN, "key": KEY, "hex": HEX, "long": LONG}


def test_the_table_has_more_than_110_forms():
    assert len(SHAPES) + len(NAMES) + len(TEXTS) >= 160
    assert len(HARMLESS_PARAMETERS) + len(HARMLESS_TEXTS) >= 110


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("name", NAMES)
def test_a_value_with_the_name_of_a_secret_is_redacted(name: str, value: str):
    assert mask(name, value) == "***"
    assert mask("config", {name: value, "lr": 0.1}) == {name: "***", "lr": 0.1}
    assert mask("sinks", [{"a": [{name: value}]}]) == [{"a": [{name: "***"}]}]
    assert value not in redact_text(f"call failed with {name}={value}")


@pytest.mark.parametrize("value", SHAPES.values(), ids=SHAPES)
def test_a_value_with_the_shape_of_a_secret_is_redacted(value: str):
    secret = value[-12:] if "BEGIN" not in value else LONG
    for text in (
        value,
        f"call with {value} failed",
        f"x={value}",
        f"a\n{value}\nb",
        json.dumps({"a": value}),
        f"https://h/{value}",
    ):
        assert secret not in redact_text(text), text
    assert secret not in str(mask("comment", [value, {"a": (value,)}]))
    assert secret not in command_line(["train.py", value, f"--x={value}"])


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("form", TEXTS)
def test_a_secret_in_a_text_is_redacted(form: str, value: str):
    encoded = quote(value, safe="=+") if "://" in form else value
    text = redact_text(form.replace("SECRET", encoded).replace("LOGIN", LOGIN))
    assert encoded not in text
    assert value not in text
    assert LOGIN not in text
    assert "***" in text
    if not form.startswith("[") and form.split()[0] in PROGRAMS:
        assert value not in command_line(shlex.split(form.replace("SECRET", value)))
        assert value not in mask("argv", shlex.split(form.replace("SECRET", value)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kaggle", {"username": "ada", "key": HEX[:32]}),
        ("kaggle", json.dumps({"username": "ada", "key": HEX[:32]})),
        ("wandb", {"key": HEX}),
        ("wandb", {"key": KEY}),
    ],
)
def test_a_key_in_the_settings_of_a_service_is_redacted(name: str, value: object):
    assert str(mask(name, value)) == str(value).replace(HEX, "***").replace(HEX[:32], "***").replace(KEY, "***")


@pytest.mark.parametrize("form", OPAQUE_TEXTS)
def test_a_key_under_an_ambiguous_name_is_redacted(form: str):
    text = form.replace("SECRET", KEY)
    assert KEY not in command_line(text.split())
    assert KEY not in redact_text(text) or text.startswith("train.py")


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ('{"lr": 0.1, "api_key": "SECRET", "x": 2}', '{"lr": 0.1, "api_key": "***", "x": 2}'),
        ("host=db password=SECRET dbname=x", "host=db password=*** dbname=x"),
        ("Password=SECRET;Encrypt=true", "Password=***;Encrypt=true"),
        ("a=1 token=SECRET loss=0.3", "a=1 token=*** loss=0.3"),
        ("Config(token='SECRET', lr=0.1)", "Config(token='***', lr=0.1)"),
        ("-----BEGIN PRIV" + "ATE KEY-----\nSECRET\n-----END PRIV" + "ATE KEY-----\nloss=1", "***\nloss=1"),
    ],
)
def test_what_is_around_a_secret_stays(text: str, redacted: str):
    assert redact_text(text.replace("SECRET", KEY)) == redacted


@pytest.mark.parametrize(("name", "value"), HARMLESS_PARAMETERS)
def test_a_parameter_that_looks_like_a_secret_stays(name: str, value: object):
    assert mask(name, value) == value
    if isinstance(value, str) and value and " " not in value:
        assert redact_text(f"{name}={value}") == f"{name}={value}"


@pytest.mark.parametrize("text", HARMLESS_TEXTS)
def test_a_text_that_looks_like_a_secret_stays(text: str):
    assert redact_text(text) == text
    assert mask("comment", text) == text


@pytest.mark.parametrize(
    "part",
    [
        "x" * 1000,
        "a:b@",
        "token ",
        "https://",
        "key=",
        "-p ",
        "<a>",
        '"',
        "password",
        "?a=1&",
        "name: token ",
        "modify ",
        "config --a ",
        "token: |\n  a\n",
        "  token: >\n\n\n",
    ],
)
def test_a_long_text_takes_linear_time(part: str):
    started = time.process_time()
    assert KEY not in redact_text(part * (80_000 // len(part)) + f" token={KEY}")
    assert time.process_time() - started < 5  # quadratic time was 20 seconds


# ---- what the user decides


def test_a_value_that_is_marked_is_recorded():
    value = provml.not_secret(PLAIN)
    assert value == PLAIN
    assert isinstance(value, str)
    assert mask("password", value) == PLAIN
    assert type(mask("password", value)) is str
    assert mask("password", provml.not_secret(1234)) == 1234
    assert mask("config", provml.not_secret({"api_key": KEY, "tokens": [KEY]})) == {"api_key": KEY, "tokens": [KEY]}
    assert redact_text(provml.not_secret(f"password={PLAIN}")) == f"password={PLAIN}"


def test_a_marked_argument_of_a_step_is_recorded(isolated_home: Path):
    with provml.record("flowers", home=isolated_home, run="marked") as run:

        @run.step
        def fetch(token: str, password: str) -> str:
            return token

        assert fetch(provml.not_secret("the word"), PLAIN) == "the word"
    (journal,) = (isolated_home / "runs" / "marked").glob("*.jsonl")
    assert "the word" in journal.read_text()
    assert PLAIN not in journal.read_text()


def test_variables_of_the_environment_add_and_remove_names(monkeypatch: pytest.MonkeyPatch):
    assert mask("badge", PLAIN) == PLAIN
    monkeypatch.setenv("PROVML_SECRET_NAMES", "badge, *_pin")
    monkeypatch.setenv("PROVML_NOT_SECRET_NAMES", "public_*")
    assert mask("badge", PLAIN) == mask("door_pin", 1234) == "***"
    assert mask("public_key", KEY) == KEY
    monkeypatch.setenv("PROVML_REDACT", "0")
    assert mask("password", PLAIN) == PLAIN
    assert redact_text(f"password={PLAIN}") == f"password={PLAIN}"


# ---- where a secret can be


def _record_everywhere(home: Path, secret: str) -> None:
    """Record a secret in each place that a run has."""
    url = f"https://ada:{secret}@host/train.csv?sig={secret}"
    text = f"login with password={secret}"
    with provml.record(f"flowers {url}", model=text, home=home, run="leaky", by=text, study=url, task=text) as run:
        run.tag(f"token={secret}")
        run.note(text)
        data = run.dataset(url, name=url, store=url, api_key=secret, origin={"password": secret})
        config = {"db": {"password": secret, "hosts": [{"token": secret}, url]}, "argv": ["--api-key", secret]}
        with run.training(using=data, api_key=secret, config=config, **config) as training:
            training.parameters(nested=[config], comment=text)
            training.implemented_by(text, algorithm=url, software=url, client_secret=secret)
            training.execution(name=text, resource=url, directory=url, output=text, errors=text)
            training.adapted(technique=text, reason=text, parameters={"token": secret}, auth_token=secret)
            training.produced(b"weights", kind="model", name=url, access_token=secret)
        with contextlib.suppress(RuntimeError), run.step(url, hf_token=secret):
            raise RuntimeError(f"cannot reach {url}: {text}")
        run._report_error(ValueError(text))


def test_a_secret_that_enters_or_leaves_the_environment_later_is_noticed(monkeypatch: pytest.MonkeyPatch):
    text = "the words are correct-horse-battery"
    assert redact_text(text) == text
    monkeypatch.setenv("SERVICE_PASSWORD", "correct-horse-battery")
    assert redact_text(text) == "the words are ***"
    monkeypatch.setenv("SERVICE_PASSWORD", "the words")
    assert redact_text(text) == "*** are correct-horse-battery"
    monkeypatch.delenv("SERVICE_PASSWORD")
    assert redact_text(text) == text


def test_the_message_about_a_measure_that_is_a_text_has_no_secret(isolated_home: Path):
    with provml.record("x", home=isolated_home, run="x") as run:
        run.training().measured(password=PLAIN)
    assert run.capture_errors == 1
    (journal,) = (isolated_home / "runs" / "x").glob("*.jsonl")
    assert "must be a number, not the text '***'" in journal.read_text()
    assert PLAIN not in journal.read_text()


@pytest.mark.parametrize("secret", [PLAIN, SHAPES["GitHub token"]])
def test_no_place_of_a_run_has_a_secret(isolated_home: Path, secret: str):
    _record_everywhere(isolated_home, secret)
    files = list((isolated_home / "runs").rglob("*.jsonl"))
    content = b"".join(path.read_bytes() for path in files).decode()
    assert len(files) == 2
    assert "***" in content
    assert [line for line in content.splitlines() if secret in line] == []
    with provml.open_store(isolated_home) as store:
        assert store.query(f'ASK {{ ?s ?p ?o FILTER(CONTAINS(STR(?o), "{secret}")) }}') is False


def test_imported_data_has_no_secret(isolated_home: Path, tmp_path: Path):
    run = tmp_path / "mlruns" / "1" / ("a" * 32)
    for name, value in {
        "params/api_key": PLAIN,
        "params/lr": "0.1",
        "tags/db.password": PLAIN,
        "tags/note": f"pwd={PLAIN}",
    }.items():
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(value)
    (run / "meta.yaml").write_text(
        f"run_id: {'a' * 32}\nexperiment_id: '1'\nstart_time: 1\nend_time: 2\nstatus: 3\nrun_name: x\n"
        "lifecycle_stage: active\nartifact_uri: s3://ada:" + PLAIN + "@b/a\nuser_id: ada\n"
    )  # fmt: skip
    (run.parent / "meta.yaml").write_text(
        "experiment_id: '1'\nname: flowers\nlifecycle_stage: active\nartifact_location: x\n"
    )
    exchange.read(run.parents[1], home=isolated_home)
    content = b"".join(path.read_bytes() for path in (isolated_home / "runs").rglob("*.jsonl")).decode()
    assert '"lr":' in content
    assert PLAIN not in content
