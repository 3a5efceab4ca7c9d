"""ask: the questions of the catalog, each a command whose parameters are options."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from provml.cli.door import opened, run_ids, with_home
from provml.cli.output import LIMIT, give, with_limits, with_output
from provml.errors import NotACurve
from provml.resources import default_home

if TYPE_CHECKING:
    from provml.catalog import Catalog, Parameter, Query


class Questions(click.Group):
    """The group whose commands are the questions of the catalog: provml's own, and those of the home."""

    def catalog(self, ctx: click.Context) -> Catalog:
        """The questions; a home may be named before or after the question."""
        from provml.catalog import Catalog, user_folders

        held: Catalog | None = ctx.meta.get("provml.catalog")
        if held is None:
            home = ctx.params.get("home") or ctx.meta.get("provml.home") or default_home()
            held = ctx.meta["provml.catalog"] = Catalog(user_folders(Path(home)))
            for error in held.broken.values() if not ctx.resilient_parsing else ():
                click.echo(f"provml: left out of the questions: {error}", err=True)
        return held

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.catalog(ctx))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        catalog = self.catalog(ctx)
        query = catalog.find(cmd_name)
        return Question(query, catalog) if query is not None else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        for number, word in enumerate(args):
            if word == "--home" and number + 1 < len(args):
                ctx.meta["provml.home"] = args[number + 1]
            elif word.startswith("--home="):
                ctx.meta["provml.home"] = word.partition("=")[2]
        name = args[0] if args else ""
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            self.catalog(ctx)[name]  # says which there are
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The questions are many: `--list` has them."""


class Question(click.Command):
    """One question as a command."""

    def __init__(self, query: Query, catalog: Catalog) -> None:
        self.query = query
        self.catalog = catalog
        self.asked = {f"given_{name}": one for name, one in query.params.items()}
        options: list[click.Parameter] = [
            _option(f"given_{name}", _own(name), one) for name, one in query.params.items()
        ]
        super().__init__(query.id, callback=self.answer, params=options, help=_about(query), short_help=query.summary)
        self.params += [one for one in ask.params if one.name != "listed"]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The question's own parameters first, then what every question takes."""
        own, shared = [], []
        for one in self.get_params(ctx):
            record = one.get_help_record(ctx)
            if record is not None and one.name in self.asked:
                own.append((f"{one.opts[0]} {one.metavar}", record[1]))
            elif record is not None and (one.name != "plot" or self.query.plot is not None):
                shared.append(record)
        for title, rows in (("Parameters", own), ("Options", shared)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def answer(self, **said: Any) -> None:
        """Ask it, with what was said here or before the question."""
        from provml.catalog import YOURS

        before = ctx.params if (ctx := click.get_current_context().parent) is not None else {}
        home, form, output, plot, show, service = (
            said[name] or before.get(name) for name in ("home", "form", "output", "plot", "show", "allow_service")
        )
        timeout = said["timeout"] if said["timeout"] is not None else before.get("timeout")
        if timeout is None and self.query.family == YOURS:
            timeout = LIMIT
        values = {
            one.name: [one.from_text(text) for text in given] if one.many else one.from_text(given)
            for key, one in self.asked.items()
            if (given := said[key]) is not None and given != ()
        }
        if plot and self.query.plot is None:
            curves = ", ".join(name for name in self.catalog if self.catalog[name].plot is not None)
            raise NotACurve(f"{self.query.id} is no curve", f"Plot one of {curves}.")
        looked_up = any(
            one.type == "iri" or one.names == "content" for one in map(self.query.params.get, values) if one
        )
        if show and not (looked_up and Path(home or default_home()).is_dir()):
            click.echo(self.query.bind(values), nl=False)
            return
        from provml.store import asking  # with the question at hand, the store need not read them all again

        with opened(home) as store:
            if show:
                click.echo(asking.bound(store, self.query, values), nl=False)
                return
            answer = asking.ask(store, self.query, values, timeout or None, bool(service))
        give(answer, form, output, bool(plot))
        if answer.note:
            click.echo(f"provml: {answer.note}", err=True)


def _own(name: str) -> str:
    """What the option of a parameter is called: one that every question has stays that."""
    taken = ("list", "show", "format", "output", "plot", "home", "timeout", "allow_service", "help")
    return f"{name}_" if name in taken else name


def _option(key: str, name: str, one: Parameter) -> click.Option:
    words = [word for word in (one.help, "may be repeated" if one.many else "") if word]
    if one.example is not None and not one.default:
        words.append(f"such as {one.example}")
    from provml.catalog import ENDLESS

    marks = ["required"] if one.required else []
    if one.default is not None and one.default != ENDLESS:
        marks = [f"default: {str(one.default).lower() if isinstance(one.default, bool) else one.default}"]
    kinds = {"string": "TEXT", "integer": "INTEGER", "double": "NUMBER", "boolean": "true|false", "dateTime": "TIME"}
    return click.Option(
        [*dict.fromkeys((f"--{name}", f"--{name.replace('_', '-')}" if not name.endswith("_") else f"--{name}")), key],
        metavar=one.of.upper() or kinds.get(one.type, "IRI"),
        multiple=one.many,
        help=", ".join(words) + "".join(f"  [{mark}]" for mark in marks),
        shell_complete=run_ids if one.of == "run" else None,
    )


def _about(query: Query) -> str:
    """What the help of a question says."""
    traits = [str(query.about[key]) for key in ("class", "data", "scope", "timing", "direction") if key in query.about]
    said = " · ".join([*traits, *([query.source] if query.source else [])])
    columns = f"The answer has the columns {', '.join(query.columns)}." if query.columns else ""
    plot = query.plot
    curve = f"It is a curve: --plot draws {', '.join(plot['y'])} by {plot['x']}." if plot is not None else ""
    return "\n\n".join(part for part in (query.summary, said, columns, curve) if part)


@click.command(
    cls=Questions,
    invoke_without_command=True,
    no_args_is_help=False,
    subcommand_metavar="[QUESTION [--PARAMETER VALUE]...]",
)
@click.option("--list", "listed", is_flag=True, help="List the questions (also where none is named).")
@click.option("--show", is_flag=True, help="Show the SPARQL that would run, and do not run it.")
@with_limits("60 for questions of your own, never for ours")
@with_output
@with_home
@click.pass_context
def ask(ctx: click.Context, /, listed: bool, form: str | None, output: Path | None, **_: Any) -> None:
    """Ask a question of the catalog by its name; its parameters are options.

    \b
    provml ask --list
    provml ask q6 --help
    provml ask q6 --model alexnet
    provml ask q3 --model alexnet --plot
    provml ask q1 --model alexnet --epoch 3 --show

    Where a parameter stands for a run, a model or a dataset, its name will do. Questions of your own are files in the
    folder that PROVML_QUERIES names, or in the folder queries of a home.
    """
    if listed or ctx.invoked_subcommand is None:
        assert isinstance(ctx.command, Questions)
        catalog = ctx.command.catalog(ctx)
        if form in (None, "table") and output is None:
            click.echo(_listing(catalog))
        else:
            give(_rows(catalog), form, output)
        ctx.exit()


def _parameters(query: Query) -> str:
    words = [f"--{_own(name)}" if one.required else f"[--{_own(name)}]" for name, one in query.params.items()]
    return " ".join([*words, *(["[--plot]"] if query.plot is not None else [])])


def _rows(catalog: Catalog) -> Any:
    from provml.answer import Answer

    asked = [catalog[name] for name in catalog]
    rows: list[tuple[Any, ...]] = [(one.id, one.family, one.summary, _parameters(one)) for one in asked]
    return Answer(["id", "family", "question", "parameters"], rows)


def _listing(catalog: Catalog) -> str:
    """The questions, family by family, within the width of the terminal."""
    from provml.catalog import FAMILIES, YOURS

    width = min(shutil.get_terminal_size().columns, 120)
    margin = max(map(len, catalog)) + 2
    lines = []
    for family in (*FAMILIES.values(), YOURS):
        for name in [name for name in catalog if catalog[name].family == family]:
            query = catalog[name]
            if click.style(family, bold=True) not in lines:
                lines += ["", click.style(family, bold=True)]
            summary = textwrap.wrap(query.summary, max(width - margin, 20))
            options = textwrap.wrap(_parameters(query), max(width - margin, 20), break_on_hyphens=False)
            told = [*summary, *(click.style(line, dim=True) for line in options)]
            lines += [f"{name if number == 0 else '':{margin}}{line}" for number, line in enumerate(told)]
    return "\n".join([*lines[1:], "", "provml ask QUESTION --help tells more of one."])


COMMANDS = (ask,)
