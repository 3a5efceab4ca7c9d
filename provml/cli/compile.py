"""The commands about ontologies: `compile` and `ontology`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from provml.errors import plural

PathArgument = click.Path(path_type=Path)


@click.command("compile")
@click.argument("ontologies", nargs=-1, type=PathArgument)
@click.option("-o", "--output", type=PathArgument, help="The Python module to write, for an ontology of your own.")
@click.option(
    "--import",
    "imports",
    multiple=True,
    type=PathArgument,
    help="A file that the ontology imports, a folder of such files, or an XML catalog (nothing is fetched).",
)
@click.option("--shapes", type=PathArgument, help="Also write SHACL shapes to this file.")
@click.option("--context", type=PathArgument, help="Also write a JSON-LD context to this file.")
@click.option("--docs", type=PathArgument, help="Also write vocabulary pages into this directory.")
@click.option("--strict", is_flag=True, help="Refuse an ontology that lacks anything, and list all problems.")
@click.option("--check", is_flag=True, help="Write nothing; list stale files and exit with 1 if there are any.")
@click.option("-q", "--quiet", is_flag=True, help="Print only errors.")
def compile_(
    *,
    ontologies: tuple[Path, ...],
    output: Path | None,
    imports: tuple[Path, ...],
    shapes: Path | None,
    context: Path | None,
    docs: Path | None,
    strict: bool,
    check: bool,
    quiet: bool,
) -> None:
    """Compile an OWL ontology into typed Python classes.

    Also writes SHACL shapes, a JSON-LD context and vocabulary pages.

    \b
    provml compile my.ttl -o my_vocab.py      an ontology of your own
    provml compile [--check]                  the ontologies of provml, in a checkout
    """
    from provml import compiler
    from provml.compiler.build import checkout

    paths = {"-o": output, "--shapes": shapes, "--context": context, "--docs": docs}
    options = [f"{name} {path}" for name, path in paths.items() if path is not None]
    options += [f"--import {path}" for path in imports]
    options += ["--strict"] if strict else []
    command = " ".join(["provml compile", *map(str, ontologies), *options])
    if ontologies:
        if output is None:
            raise click.UsageError(f"Missing option -o: provml compile {ontologies[0]} -o my_vocab.py")
        files, notes = compiler.user_files(
            ontologies, output, imports=imports, shapes=shapes, jsonld=context, docs=docs, strict=strict
        )
        root = Path()
    else:
        if options:
            raise click.UsageError("These options need an ontology: provml compile my.ttl -o my_vocab.py")
        root = checkout()
        files, _ = compiler.own_files()
        notes = []  # they are in the vocabulary pages
    for note in [] if quiet else notes:
        click.echo(f"note: {note}", err=True)
    if check:
        compiler.check(files, command, root)
        changed = []
    else:
        changed = compiler.write(files, root)
    if not quiet:
        _report(changed, len(files))


def _report(changed: list[str], total: int) -> None:
    for name in changed:
        click.echo(f"Wrote {name}")
    click.echo(f"{plural(len(changed), 'file')} changed" if changed else f"{plural(total, 'file')} up to date")


@click.command("ontology")
@click.option("-o", "--output", type=PathArgument, help="The file to write; the extension selects the format.")
def ontology(output: Path | None) -> None:
    """Write the ontologies of provml as one file.

    The file has no imports, so Protégé and other OWL tools open it without network.

    \b
    provml ontology -o provml.owl             RDF/XML
    provml ontology -o provml.ttl             Turtle
    provml ontology -o provml.jsonld          JSON-LD
    provml ontology                           Turtle on standard output
    """
    from provml.compiler.emit.merged import merged_ontology
    from provml.errors import OntologyError

    text = merged_ontology(output or Path("provml.ttl"))
    if output is None:
        click.echo(text.decode(), nl=False, file=sys.stdout)
        return
    try:
        output.write_bytes(text)
    except OSError as error:
        reason = f"cannot be written ({(error.strerror or str(error)).lower()})"
        raise OntologyError(reason, "Choose another path, or make it writable.", file=str(output)) from error
    click.echo(f"Wrote {output}")


COMMANDS = (compile_, ontology)
