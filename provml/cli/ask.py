"""ask: the questions of the catalog, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from provml.cli.door import opened, put, with_form, with_home

OPEN_ENDED = {"ignore_unknown_options": True, "allow_extra_args": True}


@click.command(context_settings=OPEN_ENDED)
@click.argument("question", required=False)
@click.option("--list", "listed", is_flag=True, help="List the questions.")
@click.option("--show", is_flag=True, help="Show the SPARQL that would run, and do not run it.")
@with_form
@with_home
@click.pass_context
def ask(ctx: click.Context, question: str | None, listed: bool, show: bool, form: str, home: Path | None) -> None:
    """Ask a question of the catalog by its name; its parameters are options.

    \b
    provml ask --list
    provml ask q6 --model alexnet
    provml ask q1 --model alexnet --epoch 3 --show

    Where a parameter stands for a run, a model or a dataset, its name will do. Questions of your own are files in the
    folder that PROVML_QUERIES names, or in the folder queries of a home.
    """
    if listed or question is None:
        put(_list(home), form, "No questions.")
        return
    with opened(home) as store:
        values = _values(store.catalog[question].params, list(ctx.args))
        if show:
            click.echo(store.sparql(question, **values))
        else:
            put(store.ask(question, **values), form, "No rows.")


def _list(home: Path | None) -> Any:
    from provml.answer import Answer
    from provml.catalog import Catalog, user_folders
    from provml.resources import default_home

    catalog = Catalog(user_folders(Path(home or default_home())))
    rows: list[tuple[Any, ...]] = []
    for name in catalog:
        params = [f"--{key}" if one.required else f"[--{key}]" for key, one in catalog[name].params.items()]
        rows.append((name, catalog[name].summary, " ".join(params)))
    return Answer(["id", "question", "parameters"], rows)


def _values(params: Any, given: list[str]) -> dict[str, Any]:
    """Options as typed on the command line (`--name value` or `--name=value`), as values of the question's types."""
    values: dict[str, Any] = {}
    while given:
        word = given.pop(0)
        if not word.startswith("--"):
            raise click.UsageError(f"{word!r} is no option. Give parameters as --name value.")
        name, equals, text = word[2:].partition("=")
        name = name.replace("-", "_")
        if not equals:
            if not given or given[0].startswith("--"):
                raise click.UsageError(f"--{name} needs a value.")
            text = given.pop(0)
        one = params.get(name)
        value = text if one is None else one.from_text(text)
        if one is not None and one.many and name in values:
            values[name] = [*values[name], value] if isinstance(values[name], list) else [values[name], value]
        else:
            values[name] = value
    return values


COMMANDS = (ask,)
