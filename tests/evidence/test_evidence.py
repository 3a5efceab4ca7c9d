"""Sign the ledger and hand out evidence: real keys, real ssh-keygen, and a checker that does not know provml."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.helpers import invoke

import provml
from provml.evidence import check_signatures, sign_ledger, write_evidence
from provml.journal.seals import Ledger, reseal
from provml.store import Store

CHECKER = Path(__file__).parents[2] / "examples" / "verify_evidence.py"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two SSH keys, an Ed25519 key in PEM format, and the public keys."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    folder = tmp_path_factory.mktemp("keys")
    for name in ("ssh", "other"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"{name}@example.org", "-f", str(folder / name)]
        subprocess.run(command, check=True)
    key = Ed25519PrivateKey.generate()
    pem, none = serialization.Encoding.PEM, serialization.NoEncryption()
    (folder / "pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, none))
    public = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / "pem.pub").write_bytes(public)
    (folder / "allowed").write_text(f"ada@example.org {(folder / 'ssh.pub').read_text()}")
    return folder


@pytest.fixture
def home(isolated_home: Path) -> Path:
    home = isolated_home / "home"
    model = isolated_home / "model.bin"
    model.write_bytes(b"weights" * 1000)
    with provml.record("digits", home=home) as run, run.training(learning_rate=0.1) as training:
        for epoch in training.epochs(2):
            epoch.measured(loss=1.0)
        training.produced(model, keep=True)
    with provml.record("another", home=home) as run, run.training():
        pass
    return home


def run_id(home: Path) -> str:
    with Store(home) as store:
        return next(info.id for info in store.runs() if info.name == "digits")


@pytest.mark.parametrize(
    ("key", "signers", "signer"),
    [
        ("ssh", "ssh.pub", "ssh@example.org"),
        ("ssh", "allowed", "ada@example.org"),
        ("pem", "pem.pub", "pem.pub"),
    ],
)
def test_a_signature_holds_until_the_ledger_is_changed(home: Path, keys: Path, key: str, signers: str, signer: str):
    sign_ledger(home, keys / key)
    (check,) = check_signatures(home, keys / signers)
    assert (check.signer, check.line_count, check.error) == (signer, 2, "")

    ledger = Ledger(home).path
    lines = ledger.read_text().splitlines(keepends=True)
    changed = json.loads(lines[1]) | {"size": 1}
    ledger.write_text(lines[0] + json.dumps(changed, separators=(",", ":")) + "\n")
    (check,) = check_signatures(home, keys / signers)
    assert "not those that were signed" in check.error


@pytest.mark.parametrize(("key", "signers"), [("ssh", "other.pub"), ("pem", "ssh.pub"), ("ssh", "pem.pub")])
def test_a_signature_of_another_key_does_not_hold(home: Path, keys: Path, key: str, signers: str):
    sign_ledger(home, keys / key)
    (check,) = check_signatures(home, keys / signers)
    assert check.error


def test_a_signature_by_another_signer_is_no_problem_next_to_a_valid_one(home: Path, keys: Path):
    """Two people sign with keys of two kinds; each checks with one key."""
    sign_ledger(home, keys / "ssh")
    sign_ledger(home, keys / "pem")
    for signers in ("ssh.pub", "pem.pub"):
        verified = invoke(home, "verify", "--signed-by", str(keys / signers))
        assert verified.exit_code == 0, verified.output
        assert "Signed by" in verified.stdout
        assert "Not checked: " in verified.stderr
        assert "another kind of key" in verified.stderr
    other = invoke(home, "verify", "--signed-by", str(keys / "other.pub"))
    assert other.exit_code == 1
    assert "has no valid signature by other.pub" in other.stdout


def test_a_damaged_signature_is_a_problem_next_to_a_valid_one(home: Path, keys: Path):
    sign_ledger(home, keys / "ssh")
    damaged = sign_ledger(home, keys / "ssh")
    damaged.write_text(damaged.read_text().replace("\nU1NIU0lH", "\nAAAASU0H"))
    refused = invoke(home, "verify", "--signed-by", str(keys / "ssh.pub"))
    assert refused.exit_code == 1
    assert "the signature is not readable" in refused.stdout


@pytest.mark.parametrize("key", ["ssh", "pem"])
def test_a_private_key_checks_nothing(home: Path, keys: Path, key: str):
    sign_ledger(home, keys / key)
    refused = invoke(home, "verify", "--signed-by", str(keys / key))
    assert refused.exit_code == 2
    assert f"is a private key. Pass its public key, such as {key}.pub" in refused.stderr


def test_a_changed_statement_does_not_hold(home: Path, keys: Path):
    statement = sign_ledger(home, keys / "ssh").with_suffix(".json")
    statement.write_text(statement.read_text().replace('"time": "20', '"time": "19'))
    (check,) = check_signatures(home, keys / "ssh.pub")
    assert check.error == "the signature does not fit the statement"


def test_commands_seal_sign_and_verify(home: Path, keys: Path, tmp_path: Path):
    sealed = invoke(home, "seal", "--sign", str(keys / "ssh"))
    assert sealed.exit_code == 0
    assert "Sealed 0 journals\nSigned the ledger" in sealed.stdout
    stamp = tmp_path / "stamp.tsr"
    stamp.write_bytes(b"a time stamp")
    assert invoke(home, "seal", "--anchor", str(stamp)).exit_code == 0

    verified = invoke(home, "verify", "--sealed", "--signed-by", str(keys / "ssh.pub"))
    assert verified.exit_code == 0
    assert "Signed by ssh@example.org: 2 lines of the ledger" in verified.stdout
    assert "anchor-stamp.tsr" in verified.stdout

    refused = invoke(home, "verify", "--signed-by", str(keys / "other.pub"))
    assert refused.exit_code == 1
    assert "has no valid signature by other.pub" in refused.stdout
    missing = invoke(home, "verify", "--signed-by", str(keys / "nothing.pub"))
    assert "the key cannot be read (no such file or directory)" in missing.stderr
    wrong = invoke(home, "seal", "--sign", str(keys / "ssh.pub"))
    assert wrong.exit_code != 0
    assert "is not a private key that can sign" in wrong.stderr


def test_lines_after_the_signature_cannot_remove_or_replace_what_was_signed(home: Path, keys: Path):
    sign_ledger(home, keys / "ssh")
    verify = ("verify", "--signed-by", str(keys / "ssh.pub"))
    with provml.record("third", home=home, run="third"):
        pass
    assert invoke(home, *verify).exit_code == 0  # a new run replaces nothing
    journal = next((home / "runs" / run_id(home)).glob("*.jsonl"))
    journal.write_text(journal.read_text().replace("0.1", "0.2"))
    reseal(journal, by="recorder", reason="")
    (other,) = (path for path in (home / "runs").iterdir() if path.name not in (journal.parent.name, "third"))
    shutil.rmtree(other)
    Ledger(home).append("removed", run=other.name)
    with Store(home) as store:
        store.rebuild()
    assert invoke(home, "verify").exit_code == 0
    refused = invoke(home, *verify)
    assert refused.exit_code == 1
    assert f"{journal.name}: was rewritten by recorder, and this is not signed (line 4 of the ledger)" in refused.stdout
    assert f"{other.name}: was removed, and this is not signed (line 5 of the ledger)" in refused.stdout
    sign_ledger(home, keys / "ssh")
    assert invoke(home, *verify).exit_code == 0


def test_what_was_added_to_a_signed_run_is_named(home: Path, keys: Path):
    sign_ledger(home, keys / "ssh")
    journal = next((home / "runs" / run_id(home)).glob("*.jsonl"))
    added = journal.with_name("second.jsonl")
    with journal.open("a") as file:
        file.write('{"e":"measured","at":"training","values":{"loss":0.0}}\n')
    content = journal.read_bytes()
    seal = {"run": journal.parent.name, "journal": journal.name, "by": "reader"}
    Ledger(home).append("sealed", **seal, size=len(content), sha256=hashlib.sha256(content).hexdigest())
    added.write_bytes(content.replace(b'"writer":"main"', b'"writer":"second"'))
    with Store(home) as store:
        store.rebuild()
    assert invoke(home, "verify").exit_code == 0
    verify = ("verify", "--signed-by", str(keys / "ssh.pub"))
    refused = invoke(home, *verify)
    assert refused.exit_code == 1
    assert f"{journal.name}: was lengthened by reader, and this is not signed (line 3 of the ledger)" in refused.stdout
    assert f"{added.name}: has no seal, and its run was signed" in refused.stdout
    assert invoke(home, "seal").exit_code == 0
    refused = invoke(home, *verify)
    assert refused.exit_code == 1
    assert f"{added.name}: was added by reader, and this is not signed (line 4 of the ledger)" in refused.stdout
    sign_ledger(home, keys / "ssh")
    assert invoke(home, *verify).exit_code == 0


def test_a_seal_that_came_after_the_signature_is_named_by_the_script(home: Path, keys: Path, tmp_path: Path):
    sign_ledger(home, keys / "ssh")
    sign_ledger(home, keys / "other")
    with provml.record("third", home=home, run="third"):
        pass
    with Store(home) as store:
        assert write_evidence(store, "third", tmp_path / "late.zip") == []
        assert write_evidence(store, run_id(home), tmp_path / "signed.zip") == []
    late = check_evidence(tmp_path / "late.zip", "--signers", str(keys / "ssh.pub"))
    assert late.returncode == 1
    assert "runs/third/main.jsonl: its seal, line 3 of the ledger, is not signed" in late.stdout
    signed = check_evidence(tmp_path / "signed.zip", "--signers", str(keys / "ssh.pub"))
    assert (signed.returncode, signed.stderr) == (0, "")
    assert "not checked, no allowed signer has made it" in signed.stdout


def check_evidence(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the script for checking, isolated from provml."""
    command = [sys.executable, "-I", "-S", str(CHECKER), str(path), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_evidence_is_checked_without_provml(home: Path, keys: Path, tmp_path: Path):
    sign_ledger(home, keys / "ssh")
    result = invoke(home, "evidence", run_id(home), "-o", str(tmp_path / "evidence.zip"))
    assert result.exit_code == 0

    done = check_evidence(tmp_path / "evidence.zip", "--signers", str(keys / "ssh.pub"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "OK: the journals of" in done.stdout
    assert "2 lines of the ledger signed by signer" in done.stdout
    other = check_evidence(tmp_path / "evidence.zip", "--signers", str(keys / "other.pub"))
    assert other.returncode == 1
    with zipfile.ZipFile(tmp_path / "evidence.zip") as archive:
        names = archive.namelist()
    assert sum(name.startswith("artifacts/") for name in names) == 1
    assert {"manifest.json", "README.txt", "report.html", "graph.ttl", "seals/ledger.jsonl"} <= set(names)

    again = invoke(home, "evidence", run_id(home), "-o", str(tmp_path / "evidence.zip"))
    assert "the file exists already" in again.stderr


def rewrite(path: Path, change: Callable[[str, bytes], bytes | None], *, fix_manifest: bool) -> None:
    """Change files of an archive; with `fix_manifest`, as somebody who knows the format."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(contents["manifest.json"])
    changed = {name: new for name, old in contents.items() if (new := change(name, old)) is not None}
    if fix_manifest:
        for name in list(manifest["files"]):
            if name in changed:
                content = changed[name]
                manifest["files"][name] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            else:
                del manifest["files"][name]
        changed["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in changed.items():
            archive.writestr(name, content)


def edit(part: str, old: bytes, new: bytes) -> Callable[[str, bytes], bytes | None]:
    return lambda name, content: content.replace(old, new) if part in name else content


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (edit(".jsonl", b"0.1", b"0.2"), "differs from its seal"),
        (edit("artifacts/", b"weights", b"WEIGHTS"), "the content does not have this SHA-256"),
        (edit("ledger", b"recorder", b"reader"), "does not follow from the line before it"),
        (lambda name, content: None if name.startswith("runs/") else content, "is in the ledger and missing here"),
    ],
)
def test_changed_evidence_is_named_even_if_its_manifest_fits(
    home: Path, tmp_path: Path, change: Callable[[str, bytes], bytes | None], expected: str
):
    with Store(home) as store:
        assert write_evidence(store, run_id(home), tmp_path / "evidence.zip") == []
    for fix_manifest in (False, True):
        shutil.copy(tmp_path / "evidence.zip", tmp_path / "changed.zip")
        rewrite(tmp_path / "changed.zip", change, fix_manifest=fix_manifest)
        done = check_evidence(tmp_path / "changed.zip")
        assert done.returncode == 1
        assert (expected if fix_manifest else "PROBLEM") in done.stdout


CHANGED_RUN = edit("manifest.json", b'"run": "', b'"run": "other')


@pytest.mark.parametrize(
    ("change", "fix_manifest", "expected"),
    [
        (lambda name, content: None if name.startswith("runs/") else content, True, "runs/second: has no journal here"),
        (CHANGED_RUN, False, "runs/othersecond: has no journal here"),
        (CHANGED_RUN, False, "runs/second/main.jsonl: is of another run, and was not checked"),
        (lambda name, content: content[:-1] if "ledger" in name else content, True, "ledger.jsonl:3: is not complete"),
        (
            lambda name, content: content + b"[" * 100_000 + b"\n" if "ledger" in name else content,
            True,
            "ledger.jsonl:4: is not readable",
        ),
        (
            lambda name, content: b"[" * 100_000 if name.endswith("2.json") else content,
            True,
            "00000002.json: is not readable",
        ),
        (lambda name, content: None if name.endswith(".sig") else content, True, "00000002.sig: is missing"),
    ],
)
def test_evidence_that_shows_nothing_is_not_right(
    home: Path,
    keys: Path,
    tmp_path: Path,
    change: Callable[[str, bytes], bytes | None],
    fix_manifest: bool,
    expected: str,
):
    sign_ledger(home, keys / "ssh")
    with provml.record("second", home=home, run="second"):
        pass
    with Store(home) as store:
        assert write_evidence(store, "second", tmp_path / "evidence.zip") == []
    rewrite(tmp_path / "evidence.zip", change, fix_manifest=fix_manifest)
    done = check_evidence(tmp_path / "evidence.zip", "--signers", str(keys / "ssh.pub"))
    assert (done.returncode, done.stderr) == (1, "")
    assert f"PROBLEM {expected}" in done.stdout or f"/{expected}" in done.stdout


def test_the_script_says_which_contents_are_not_in_the_archive(home: Path, tmp_path: Path):
    with Store(home) as store:
        assert write_evidence(store, run_id(home), tmp_path / "evidence.zip", artifacts=False) == []
    done = check_evidence(tmp_path / "evidence.zip")
    assert done.returncode == 0
    assert "Not here: 1 contents that the run has stored" in done.stdout


@pytest.mark.parametrize("damage", ["manifest", "compressed"])
def test_an_archive_that_breaks_the_library_is_refused(home: Path, tmp_path: Path, damage: str):
    path = tmp_path / "evidence.zip"
    with Store(home) as store:
        assert write_evidence(store, run_id(home), path) == []
    if damage == "manifest":
        rewrite(path, lambda name, content: b"[" * 100_000 if "manifest" in name else content, fix_manifest=False)
    else:
        data = bytearray(path.read_bytes())
        start = data.index(b"main.jsonl") + 40  # in the compressed bytes of the first file
        data[start : start + 40] = bytes(range(100, 140))
        path.write_bytes(data)
    done = check_evidence(path)
    assert done.returncode == 2
    assert "cannot be checked" in done.stderr
    assert "Traceback" not in done.stderr


def test_evidence_of_a_changed_run_says_so(home: Path, tmp_path: Path):
    journal = next((home / "runs" / run_id(home)).glob("*.jsonl"))
    journal.write_text(journal.read_text().replace("0.1", "0.2"))
    result = invoke(home, "evidence", journal.parent.name, "-o", str(tmp_path / "evidence.zip"))
    assert result.exit_code == 1
    assert "was changed after it was sealed" in result.stderr
    assert check_evidence(tmp_path / "evidence.zip").returncode == 1


def test_what_is_not_evidence_is_refused(tmp_path: Path):
    (tmp_path / "text.zip").write_text("no archive")
    assert check_evidence(tmp_path / "text.zip").returncode == 2
    with zipfile.ZipFile(tmp_path / "empty.zip", "w"):
        pass
    assert check_evidence(tmp_path / "empty.zip").returncode == 2
