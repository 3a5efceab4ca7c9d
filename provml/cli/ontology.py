"""The ontology: compile it, and see it at work."""

from __future__ import annotations

from pathlib import Path

import click

PathArgument = click.Path(path_type=Path)


@click.command("compile")
@click.argument("ontologies", nargs=-1, type=PathArgument)
@click.option("-o", "--output", type=PathArgument, help="The Python module to write, for an ontology of your own.")
@click.option(
    "--import",
    "imports",
    multiple=True,
    type=PathArgument,
    help="A file that the ontology imports (nothing is fetched).",
)
@click.option("--shapes", type=PathArgument, help="Also write SHACL shapes to this file.")
@click.option("--context", type=PathArgument, help="Also write a JSON-LD context to this file.")
@click.option("--docs", type=PathArgument, help="Also write vocabulary pages into this folder.")
@click.option("--check", is_flag=True, help="Write nothing; say which files are stale and exit 1 if any is.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")
def compile_(
    ontologies: tuple[Path, ...],
    output: Path | None,
    imports: tuple[Path, ...],
    shapes: Path | None,
    context: Path | None,
    docs: Path | None,
    check: bool,
    quiet: bool,
) -> None:
    """Turn an OWL ontology into typed Python classes.

    Into SHACL shapes, a JSON-LD context and pages as well.

    \b
    provml compile my.ttl -o my_vocab.py      an ontology of your own
    provml compile [--check]                  provml's own ontologies, in a checkout
    """
    from provml import compiler
    from provml.compiler.output import home

    if ontologies:
        if output is None:
            raise click.UsageError(f"Say where to write it: provml compile {ontologies[0]} -o my_vocab.py")
        files, notes = compiler.user_files(
            ontologies, output, imports=imports, shapes=shapes, jsonld=context, docs=docs
        )
        root = Path()
        given = {"-o": output, "--shapes": shapes, "--context": context, "--docs": docs}
        options = [f"{name} {path}" for name, path in given.items() if path is not None]
        options += [f"--import {path}" for path in imports]
        command = " ".join(["provml compile", *map(str, ontologies), *options])
    else:
        if output or imports or shapes or context or docs:
            raise click.UsageError("These options go with an ontology: provml compile my.ttl -o my_vocab.py")
        root = home()
        files, _ = compiler.own_files()
        notes = []  # ours stand in docs/vocabulary
        command = "provml compile"
    for note in [] if quiet else notes:
        click.echo(f"note: {note}", err=True)
    if check:
        compiler.check(files, command, root)
        changed = []
    else:
        changed = compiler.write(files, root)
    if not quiet:
        for name in changed:
            click.echo(f"wrote {name}")
        click.echo(
            f"{len(files) - len(changed)} of {len(files)} file(s) up to date"
            if not changed
            else f"{len(changed)} file(s) written"
        )


COMMANDS = (compile_,)
