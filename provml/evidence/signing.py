"""Sign the ledger of a home: with an SSH key, through `ssh-keygen -Y`, or with an Ed25519 key in PEM format.

A signature is made over a statement, `home/seals/signatures/<lines>.json`: the number of lines of the ledger, the
SHA-256 of the last of them, and the time by the clock of this machine. As the lines are chained, the signature vouches
for all of them. Next to the statement are its signature (`.sig`) and files from elsewhere that show when it existed
(`.anchor…`), such as an RFC 3161 time stamp.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from provml.errors import FileFormatError, MissingDependency
from provml.journal.seals import FOLDER, Ledger

SIGNATURES = "signatures"
NAMESPACE = "provml"
"""What the signature of an SSH key is for: a signature of a file for another purpose is not valid here."""
STATEMENT_SUFFIX = ".json"
SIGNATURE_SUFFIX = ".sig"
ANCHOR_SUFFIX = ".anchor"
SSH_HEADER = "-----BEGIN SSH SIGNATURE-----"
ED25519_HEADER = "-----BEGIN PROVML ED25519 SIGNATURE-----"
ED25519_FOOTER = "-----END PROVML ED25519 SIGNATURE-----"
TIMEOUT_SECONDS = 60


class SignatureCheck(NamedTuple):
    """The result of checking a signature: the statement, how many lines it covers, and what is wrong, if anything.

    `is_by_other_key` says that the signature may hold, but was made with a key that is not among the given ones.
    """

    statement: str
    line_count: int
    time: str
    signer: str
    error: str = ""
    anchors: tuple[str, ...] = ()
    is_by_other_key: bool = False


def sign_ledger(home: Path, key: Path) -> Path:
    """Sign the lines that the ledger has now, and return the file of the signature."""
    lines = list(Ledger(home).lines())
    if not lines:
        raise FileFormatError("there is nothing to sign", "Record a run, or run `provml seal`.", file=str(home))
    text = _read_key(key)
    statement = {
        "ledger_lines": len(lines),
        "ledger_sha256": lines[-1].sha256,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    folder = home / FOLDER / SIGNATURES
    folder.mkdir(parents=True, exist_ok=True)
    content = json.dumps(statement, indent=1).encode() + b"\n"
    signature = _sign_ssh(content, key) if "OPENSSH PRIVATE KEY" in text else _sign_ed25519(content, key, text)
    path = _new_name(folder, len(lines))
    path.write_bytes(content)
    path.with_suffix(SIGNATURE_SUFFIX).write_bytes(signature)
    return path.with_suffix(SIGNATURE_SUFFIX)


def attach_anchor(home: Path, file: Path) -> Path:
    """Keep a file from elsewhere, such as a time stamp, with the latest signed statement; return the copy."""
    statements = _statements(home)
    if not statements:
        raise FileFormatError("there is no signed statement", "Sign first: `provml seal --sign KEY`.", file=str(home))
    latest = max(statements, key=lambda path: path.stat().st_mtime_ns)
    target = latest.with_suffix(f"{ANCHOR_SUFFIX}-{file.name}")
    if target.exists():
        raise FileFormatError("the statement has an anchor of this name", "Choose another name.", file=str(target))
    shutil.copyfile(file, target)
    return target


def check_signatures(home: Path, signers: Path) -> list[SignatureCheck]:
    """Check all signatures of a home with a public key, or a file of allowed signers as OpenSSH has it."""
    text = _read_key(signers)
    if "PRIVATE KEY-----" in text:
        advice = f"Pass its public key, such as {signers.name}.pub."
        raise FileFormatError("is a private key", advice, file=str(signers))
    sha256_by_line = {line.number: line.sha256 for line in Ledger(home).lines()}
    checks = []
    for path in _statements(home):
        anchors = tuple(sorted(anchor.name for anchor in path.parent.glob(f"{path.stem}{ANCHOR_SUFFIX}*")))
        signer, count, time, error, is_by_other_key = "", 0, "", "", False
        try:
            content = path.read_bytes()
            statement = _parse_statement(content)
            count, time = int(statement["ledger_lines"]), str(statement["time"])
            signer = _verify(content, path.with_suffix(SIGNATURE_SUFFIX), signers, text)
            if sha256_by_line.get(count) != statement["ledger_sha256"]:
                error = f"the first {count} lines of the ledger are not those that were signed"
        except (_Invalid, OSError) as problem:
            error, is_by_other_key = str(problem), isinstance(problem, _OtherKey)
        checks.append(SignatureCheck(path.name, count, time, signer, error, anchors, is_by_other_key))
    return checks


class _Invalid(ValueError):
    """A signature does not hold."""


class _OtherKey(_Invalid):
    """A signature was made with a key that is not among the given ones."""


def _statements(home: Path) -> list[Path]:
    paths = (home / FOLDER / SIGNATURES).glob(f"*{STATEMENT_SUFFIX}")
    return sorted(path for path in paths if ANCHOR_SUFFIX not in path.name)


def _new_name(folder: Path, line_count: int) -> Path:
    path, number = folder / f"{line_count:08}{STATEMENT_SUFFIX}", 1
    while path.exists():  # signed before, perhaps with another key
        number += 1
        path = folder / f"{line_count:08}-{number}{STATEMENT_SUFFIX}"
    return path


def _parse_statement(content: bytes) -> dict[str, Any]:
    try:
        statement = json.loads(content)
        int(statement["ledger_lines"]), str(statement["ledger_sha256"]), str(statement["time"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _Invalid("the statement is not readable") from error
    return dict(statement)


def _read_key(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise FileFormatError(f"the key cannot be read ({reason})", "Check the path.", file=str(path)) from error
    except UnicodeDecodeError as error:
        raise FileFormatError("is not a key", "Use an OpenSSH or PEM key.", file=str(path)) from error


# ---- OpenSSH


def _sign_ssh(content: bytes, key: Path) -> bytes:
    command = [_ssh_keygen(), "-q", "-Y", "sign", "-f", str(key), "-n", NAMESPACE]
    done = subprocess.run(command, input=content, capture_output=True, check=False)  # asks for a passphrase itself
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise FileFormatError(f"ssh-keygen could not sign ({reason[-1]})", "Check the key.", file=str(key))
    return done.stdout


def _verify_ssh(content: bytes, signature: Path, signers: Path, text: str) -> str:
    """Return who signed, from a public key (`ssh-ed25519 AAAA… comment`) or a file of allowed signers."""
    program = _ssh_keygen()
    with tempfile.TemporaryDirectory() as folder:
        allowed = signers
        if text.startswith(("ssh-", "ecdsa-", "sk-")):
            allowed = Path(folder) / "allowed_signers"
            allowed.write_text(f"signer {text.strip()}\n", encoding="utf-8")
        lookup = subprocess.run(
            [program, "-Y", "find-principals", "-f", str(allowed), "-s", str(signature)],
            capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS,
        )  # fmt: skip
        principal = lookup.stdout.split("\n")[0].strip()
        if lookup.stderr.strip().lower() == "no principal matched.":  # with other lines, it could not be read
            raise _OtherKey("no allowed signer has made the signature")
        if lookup.returncode or not principal:
            raise _Invalid("the signature is not readable")
        done = subprocess.run(
            [program, "-Y", "verify", "-f", str(allowed), "-I", principal, "-n", NAMESPACE, "-s", str(signature)],
            input=content, capture_output=True, check=False, timeout=TIMEOUT_SECONDS,
        )  # fmt: skip
        if done.returncode:
            raise _Invalid("the signature does not fit the statement")
    comment = text.split()[2:] if allowed is not signers else []
    return " ".join(comment) or principal


def _ssh_keygen() -> str:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise MissingDependency("ssh-keygen", "", "Install OpenSSH, or use an Ed25519 key in PEM format.")
    return program


# ---- Ed25519 in PEM format


def _sign_ed25519(content: bytes, key: Path, text: str) -> bytes:
    serialization = _cryptography()
    try:
        private_key = serialization.load_pem_private_key(text.encode(), password=None)
        signature = private_key.sign(content)
    except (ValueError, TypeError, AttributeError) as error:
        advice = "Use an OpenSSH key, or an Ed25519 key in PEM format without a passphrase."
        raise FileFormatError("is not a private key that can sign", advice, file=str(key)) from error
    encoded = base64.b64encode(signature).decode()
    return f"{ED25519_HEADER}\n{encoded}\n{ED25519_FOOTER}\n".encode()


def _verify_ed25519(content: bytes, signature: str, signers: Path, text: str) -> str:
    from cryptography.exceptions import InvalidSignature

    try:
        public_key: Any = _cryptography().load_pem_public_key(text.encode())
        data = base64.b64decode(signature.split("-----")[2])
    except (ValueError, TypeError, IndexError) as error:
        raise _Invalid("the signature or the public key is not readable") from error
    try:
        public_key.verify(data, content)
    except (InvalidSignature, TypeError) as error:
        raise _Invalid("the signature does not fit the statement and the key") from error
    return signers.name


def _cryptography() -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
    except ImportError as error:
        raise MissingDependency("cryptography", "sign") from error
    return serialization


def _verify(content: bytes, signature: Path, signers: Path, text: str) -> str:
    """Return who signed; raise _Invalid if the signature does not hold."""
    try:
        kind = signature.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise _Invalid("the signature is missing or not readable") from error
    is_pem = "BEGIN PUBLIC KEY" in text
    if kind.startswith(ED25519_HEADER) and is_pem:
        return _verify_ed25519(content, kind, signers, text)
    if kind.startswith(SSH_HEADER) and not is_pem:
        return _verify_ssh(content, signature, signers, text)
    raise _OtherKey(f"the signature was made with another kind of key than {signers.name}")
