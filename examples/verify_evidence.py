"""Check the evidence of a run, as `provml evidence` writes it, with the standard library alone.

    python verify_evidence.py evidence.zip [--signers FILE]

FILE is a public SSH key (`ssh-ed25519 AAAA… name`) or a file of allowed signers of OpenSSH; checking a signature needs
the program ssh-keygen. The exit code is 0 if everything agrees, 1 if something does not, 2 if the file is not evidence.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

LEDGER = "seals/ledger.jsonl"
MANIFEST = "manifest.json"
MAX_TEXT_BYTES = 1 << 30  # a manifest, a ledger: what is read as a whole


def digest(archive: zipfile.ZipFile, name: str, size: int | None = None) -> tuple[int, str]:
    """Return size and SHA-256 of a file in the archive, or of its first bytes."""
    sha256, total = hashlib.sha256(), 0
    with archive.open(name) as file:
        while chunk := file.read(1 << 20 if size is None else min(1 << 20, size - total)):
            sha256.update(chunk)
            total += len(chunk)
    return total, sha256.hexdigest()


def read_text(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return a file in the archive, if it is not absurdly large."""
    with archive.open(name) as file:
        content = file.read(MAX_TEXT_BYTES + 1)
    if len(content) > MAX_TEXT_BYTES:
        raise ValueError(f"{name} is too large")
    return content


def check_files(archive: zipfile.ZipFile, manifest: dict[str, Any]) -> list[str]:
    """Compare all files with the manifest."""
    names, listed = archive.namelist(), manifest["files"]
    problems = [f"{name}: is in the archive twice" for name in sorted(set(names)) if names.count(name) > 1]
    problems += [f"{name}: is missing" for name in sorted(set(listed) - set(names))]
    problems += [f"{name}: is not in the manifest" for name in sorted(set(names) - set(listed) - {MANIFEST})]
    for name in sorted(set(listed) & set(names)):
        if digest(archive, name) != (listed[name]["size"], listed[name]["sha256"]):
            problems.append(f"{name}: differs from the manifest")
        match = re.fullmatch(r"artifacts/([0-9a-f]{64})", name)
        if match and listed[name]["sha256"] != match[1]:
            problems.append(f"{name}: the content does not have this SHA-256")
    return problems


def check_ledger(archive: zipfile.ZipFile) -> tuple[list[str], list[str], dict[str, dict[str, Any]]]:
    """Follow the chain of the ledger. Return problems, the digest of each line, and the seal of each journal.

    A seal has the number of its line, and the seals before it of which the journal has to go on.
    """
    problems: list[str] = []
    digests: list[str] = []
    seals: dict[str, dict[str, Any]] = {}
    previous = "0" * 64
    *lines, rest = read_text(archive, LEDGER).split(b"\n")
    if rest:
        problems.append(f"{LEDGER}:{len(lines) + 1}: is not complete")
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            run = entry["run"]
            if entry["previous"] != previous:
                problems.append(f"{LEDGER}:{number}: does not follow from the line before it")
            if entry["kind"] == "removed":
                seals = {name: seal for name, seal in seals.items() if not name.startswith(f"runs/{run}/")}
            elif entry["kind"] in ("sealed", "rewritten"):
                name = f"runs/{run}/{entry['journal']}"
                former = seals.get(name) if entry["kind"] == "sealed" else None
                earlier = [*former["earlier"], (former["size"], former["sha256"])] if former else []
                seals[name] = entry | {"line": number, "earlier": earlier}
        except (ValueError, KeyError, TypeError, RecursionError):
            problems.append(f"{LEDGER}:{number}: is not readable")
        previous = hashlib.sha256(line).hexdigest()
        digests.append(previous)
    return problems, digests, seals


def check_journals(archive: zipfile.ZipFile, run: str, seals: dict[str, dict[str, Any]]) -> list[str]:
    """Compare the journals of the run with their seals."""
    problems = []
    present = {name for name in archive.namelist() if re.fullmatch(rf"runs/{re.escape(run)}/[^/]+\.jsonl", name)}
    expected = {name for name in seals if name.startswith(f"runs/{run}/")}
    others = [name for name in archive.namelist() if name.startswith("runs/") and not name.startswith(f"runs/{run}/")]
    problems += [f"{name}: is of another run, and was not checked" for name in sorted(others)]
    if not present:
        problems.append(f"runs/{run}: has no journal here")
    problems += [f"{name}: is in the ledger and missing here" for name in sorted(expected - present)]
    problems += [f"{name}: has no seal" for name in sorted(present - expected)]
    for name in sorted(present & expected):
        seal = seals[name]
        if digest(archive, name) != (seal["size"], seal["sha256"]):
            problems.append(f"{name}: differs from its seal")
        if any(digest(archive, name, size) != (size, sha256) for size, sha256 in seal["earlier"]):
            problems.append(f"{name}: was changed after it was sealed, and sealed again by {seal['by']}")
        if seal.get("agrees") is False:
            problems.append(f"{name}: was changed before a reader sealed it")
        buffer = name.removesuffix(".jsonl") + ".slate"
        sha256 = digest(archive, buffer)[1] if buffer in archive.namelist() else ""
        if sha256 != seal.get("buffer_sha256", ""):
            problems.append(f"{buffer}: differs from its seal")
        print(f"{name}: {seal['kind']} by {seal['by']}, {seal['size']:,} bytes")
    absent = sorted(stored_contents(archive, present) - set(archive.namelist()))
    if absent:
        print(f"Not here: {len(absent)} contents that the run has stored, such as {absent[0]}")
    return problems


def stored_contents(archive: zipfile.ZipFile, journals: set[str]) -> set[str]:
    """Return the names in the archive that the contents have which the journals say were stored."""
    names = set()
    for journal in journals:
        with archive.open(journal) as file:
            for line in iter(lambda file=file: file.readline(1 << 20), b""):
                digests = re.findall(rb'"sha256":"([0-9a-f]{64})"', line) if line.startswith(b'{"e":"artifact"') else []
                names.update(f"artifacts/{digest.decode()}" for digest in digests)
    return names


def check_signatures(
    archive: zipfile.ZipFile, digests: list[str], signers: Path, seals: dict[str, dict[str, Any]]
) -> list[str]:
    """Check the SSH signatures of the ledger. One that holds is enough; it must cover the seals of the run."""
    problems, covered = [], 0
    for name in archive.namelist():
        if not re.fullmatch(r"seals/signatures/[\d-]+\.json", name):
            continue
        content, signature = read_text(archive, name), name.removesuffix(".json") + ".sig"
        try:
            statement = json.loads(content)
            count, time = int(statement["ledger_lines"]), str(statement["time"])
        except (ValueError, KeyError, TypeError, RecursionError):
            problems.append(f"{name}: is not readable")
            continue
        if signature not in archive.namelist():
            problems.append(f"{signature}: is missing")
            continue
        if not read_text(archive, signature).startswith(b"-----BEGIN SSH SIGNATURE"):
            print(f"{signature}: is not an SSH signature; use `provml verify --signed-by`")
            continue
        signer, is_valid = verify_ssh(content, read_text(archive, signature), signers)
        if not signer:
            print(f"{signature}: not checked, no allowed signer has made it")
        elif not is_valid:
            problems.append(f"{signature}: does not fit the statement")
        elif not 0 < count <= len(digests) or digests[count - 1] != statement["ledger_sha256"]:
            problems.append(f"{name}: the ledger is not the one that was signed")
        else:
            covered = max(covered, count)
            print(f"{name}: {count} lines of the ledger signed by {signer}; the signer's clock said {time}")
    if not covered:
        return [*problems, f"{LEDGER}: has no valid signature by {signers.name}"]
    late = {name: seal["line"] for name, seal in seals.items() if seal["line"] > covered and name in archive.namelist()}
    return problems + [f"{name}: its seal, line {line} of the ledger, is not signed" for name, line in late.items()]


def verify_ssh(content: bytes, signature: bytes, signers: Path) -> tuple[str, bool]:
    """Return the name of the signer, empty if it is none of the allowed ones, and whether the signature holds."""
    text = signers.read_text()
    with tempfile.TemporaryDirectory() as folder:
        allowed, file = Path(folder) / "allowed", Path(folder) / "signature"
        allowed.write_text(f"signer {text}" if text.startswith(("ssh-", "ecdsa-", "sk-")) else text)
        file.write_bytes(signature)
        find = ["ssh-keygen", "-Y", "find-principals", "-f", str(allowed), "-s", str(file)]
        signer = subprocess.run(find, capture_output=True, text=True).stdout.split("\n")[0]
        check = ["ssh-keygen", "-Y", "verify", "-f", str(allowed), "-I", signer, "-n", "provml", "-s", str(file)]
        return signer, bool(signer) and subprocess.run(check, input=content, capture_output=True).returncode == 0


def main() -> int:
    """Check the evidence that the arguments name."""
    parser = argparse.ArgumentParser(description="Check the evidence of a run.")
    parser.add_argument("evidence", type=Path)
    parser.add_argument("--signers", type=Path, help="a public SSH key, or a file of allowed signers")
    arguments = parser.parse_args()
    try:
        with zipfile.ZipFile(arguments.evidence) as archive:
            manifest = json.loads(read_text(archive, MANIFEST))
            problems = [f"when it was written: {problem}" for problem in manifest["problems"]]
            problems += check_files(archive, manifest)
            broken, digests, seals = check_ledger(archive)
            problems += broken + check_journals(archive, manifest["run"], seals)
            if arguments.signers:
                problems += check_signatures(archive, digests, arguments.signers, seals)
    except Exception as error:  # a hostile file may make any part of the library fail
        reason = f"{type(error).__name__}: {error}"
        print(f"{arguments.evidence} cannot be checked ({reason[:500]})", file=sys.stderr)
        return 2
    for problem in problems:
        print(f"PROBLEM {problem}")
    if not problems:
        print(f"OK: the journals of {manifest['run']} are those that were sealed")
        print("Annotations, graph.ttl and report.html have no seal: provml makes the last two from the journals.")
    if not arguments.signers:
        print("Signatures were not checked (--signers): whoever could write to the home could have made all of this.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
