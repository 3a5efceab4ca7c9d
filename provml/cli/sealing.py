"""Seal journals, sign the ledger of a home, write the evidence of a run, remove a secret from a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

import click

from provml.cli.options import home_option, require_home
from provml.errors import FileFormatError, plural

MAX_LINES = 10
"""Number of journals that are listed, and of lines of a file."""


@click.command()
@click.option(
    "--sign",
    "key",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="KEY",
    help="Sign the ledger with a private key: one of OpenSSH, or an Ed25519 key in PEM format.",
)
@click.option(
    "--anchor",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Keep a time stamp (RFC 3161) or another proof of time with the latest signed statement.",
)
@home_option
def seal(key: Path | None, anchor: Path | None, home: Path | None) -> None:
    """Seal journals that have no seal, and sign the ledger.

    Runs seal their journals themselves. Journals of killed processes, from imports, from other machines and of older
    versions are sealed here; the ledger says so. `provml verify` compares journals with their seals, and with
    --signed-by also the signatures.
    """
    from provml.evidence import attach_anchor, sign_ledger
    from provml.store import Store

    folder = require_home(home)
    with Store(folder) as store:
        sealed = store.seal()
    click.echo(f"Sealed {plural(len(sealed), 'journal')}")
    for name in sealed[:MAX_LINES]:
        click.echo(f"  {name}")
    if key is not None:
        signature = sign_ledger(folder, key)
        click.echo(f"Signed the ledger: {signature}")
        click.echo(f"For a time stamp, have {signature.with_suffix('.json')} stamped, and add it with --anchor.")
    if anchor is not None:
        click.echo(f"Added {attach_anchor(folder, anchor)}")


@click.command()
@click.argument("run", default="latest")
@click.option(
    "-o", "--output", required=True, type=click.Path(path_type=Path), metavar="FILE", help="ZIP file to write."
)
@click.option("--no-artifacts", is_flag=True, help="Leave out stored artifacts, which may be large.")
@home_option
def evidence(run: str, output: Path, no_artifacts: bool, home: Path | None) -> None:
    """Write the evidence of a run as a ZIP file.

    It has the journals, the ledger, signatures, stored artifacts, the graph and a report. A script without provml,
    examples/verify_evidence.py, checks it. The exit code is 1 if a problem was found; the evidence names it.
    """
    from provml.evidence import write_evidence
    from provml.store import Store

    with Store(require_home(home)) as store:
        problems = write_evidence(store, run, output, artifacts=not no_artifacts)
    click.echo(f"Wrote {output}")
    for problem in problems:
        click.echo(f"provml: {problem}", err=True)
    if problems:
        sys.exit(1)


@click.command()
@click.argument("run")
@click.option("--prompt", is_flag=True, help="Ask for the secret, without showing it.")
@click.option(
    "--from",
    "source",
    type=click.File(encoding="utf-8"),
    metavar="FILE",
    help="Read secrets from a file, one in a line; - reads from the standard input.",
)
@click.option("--dry-run", is_flag=True, help="List what would be removed.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@home_option
def scrub(run: str, *, prompt: bool, source: TextIO | None, dry_run: bool, yes: bool, home: Path | None) -> None:
    """Remove a secret from a run that has ended.

    Without --prompt and --from, what looks like a secret is removed: keys of well-known services, passwords in URLs,
    parameters with the name of a secret. Journals and annotations are written again with *** in its place, stored
    artifacts that contain a secret that you pass are removed, and the index is rebuilt. The ledger keeps a trace.
    """
    from provml.evidence import scrub as scrub_run
    from provml.store import Store

    secrets = _read_secrets(source) if source is not None else []
    if prompt:
        secrets.append(click.prompt("Secret", hide_input=True))
    with Store(require_home(home)) as store:
        report = scrub_run(store, run, secrets, dry_run=True)
        for file, numbers in report.lines.items():
            shown = ", ".join(map(str, numbers[:MAX_LINES])) + (", …" if len(numbers) > MAX_LINES else "")
            click.echo(f"{file}: {'lines' if len(numbers) > 1 else 'line'} {shown}")
        for sha256 in report.artifacts:
            click.echo(f"artifacts/{sha256[:2]}/{sha256}: the whole artifact")
        if not report:
            click.echo("Nothing to remove")
            return
        if dry_run:
            return
        if not yes:
            click.confirm("Remove the secret there? This cannot be undone", abort=True)
        report = scrub_run(store, run, secrets)
    click.echo(
        "Removed. Change the secret where it is used: it was readable until now. Backups and copies still have it."
    )
    for name in report.remaining:
        click.echo(f"provml: {name} still has the secret. Remove or edit the file.", err=True)
    if report.remaining:
        sys.exit(1)


def _read_secrets(source: TextIO) -> list[str]:
    try:
        secrets = [line.strip() for line in source if line.strip()]
    except UnicodeDecodeError:
        raise FileFormatError("is not text in UTF-8", "Write each secret as a line.", file=source.name) from None
    if not secrets:  # without a secret, everything that looks like one would be removed
        raise FileFormatError("has no secret", "Write each secret as a line.", file=source.name)
    return secrets


COMMANDS = (seal, evidence, scrub)
