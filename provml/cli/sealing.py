"""Seal journals, sign the ledger of a home, and write the evidence of a run."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from provml.cli.options import home_option, require_home
from provml.errors import plural


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


COMMANDS = (seal, evidence)
