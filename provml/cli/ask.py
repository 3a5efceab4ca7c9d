"""ask: the questions of the catalog. Each question is a command, and its parameters are options."""

from __future__ import annotations

import shutil
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from provml.cli.options import complete_run, home_option, open_store
from provml.cli.output import DEFAULT_TIMEOUT_SECONDS, limit_options, output_options, print_note, write_answer
from provml.cli.terminal import echo_message
from provml.errors import PlotError
from provml.paths import default_home, endpoint_url, service_url, store_location

if TYPE_CHECKING:
    from provml.catalog import Catalog, Parameter, Query


class Questions(click.Group):
    """A group whose commands are the questions of provml and of the home."""

    def catalog(self, ctx: click.Context) -> Catalog:
        """Return the catalog; `--home` may stand before or after the question."""
        catalog: Catalog | None = ctx.meta.get("provml.catalog")
        if catalog is None:
            home = (
                store_location(ctx.params.get("home") or ctx.meta.get("provml.home")) or service_url() or default_home()
            )
            catalog = ctx.meta["provml.catalog"] = _read_catalog(str(home))
            for error in catalog.errors.values() if not ctx.resilient_parsing else ():
                echo_message(f"skipped a question file: {error}")
        return catalog

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.catalog(ctx))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        catalog = self.catalog(ctx)
        query = catalog.find(cmd_name)
        return Question(query, catalog) if query is not None else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        for index, arg in enumerate(args):
            if arg in ("--home", "--store") and index + 1 < len(args):
                ctx.meta["provml.home"] = args[index + 1]
            elif arg.startswith(("--home=", "--store=")):
                ctx.meta["provml.home"] = arg.partition("=")[2]
        name = args[0] if args else ""
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            self.catalog(ctx)[name]  # raises QueryNotFound with suggestions
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print no list of commands: `--list` prints the questions."""


def _can_be_opened(location: Path | str | None) -> bool:
    return bool(endpoint_url(location) or service_url(location)) or Path(location or default_home()).is_dir()


def _read_catalog(home: str) -> Catalog:
    """Return the questions of a home, or of a service."""
    from provml.catalog import Catalog, user_folders
    from provml.store import open_store as open_any

    if url := service_url(home):
        with open_any(url) as store:
            return store.catalog
    return Catalog(user_folders(Path(home)))


class Question(click.Command):
    """A question as a command."""

    def __init__(self, query: Query, catalog: Catalog) -> None:
        self.query = query
        self.catalog = catalog
        self.query_params = {f"param_{name}": param for name, param in query.params.items()}
        options: list[click.Parameter] = [
            _option(f"param_{name}", _option_name(name), param) for name, param in query.params.items()
        ]
        super().__init__(
            query.name, callback=self.answer, params=options, help=_help_text(query), short_help=query.summary
        )
        self.params += [option for option in ask.params if option.name != "list_only"]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the parameters of the question, then the options of all questions."""
        own, shared = [], []
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record is not None and option.name in self.query_params:
                own.append((f"{option.opts[0]} {option.metavar}", record[1]))
            elif record is not None and (option.name != "plot" or self.query.plot is not None):
                shared.append(record)
        for title, rows in (("Parameters", own), ("Options", shared)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def answer(self, **options: Any) -> None:
        """Ask the question with the options before and after its name."""
        chosen = _merge_options(options, self.query)
        values = {
            param.name: [param.from_text(text) for text in value] if param.multiple else param.from_text(value)
            for key, param in self.query_params.items()
            if (value := options[key]) is not None and value != ()
        }
        if chosen.plot and self.query.plot is None:
            from provml.store.name_lookup import suggest

            curves = [name for name in self.catalog if self.catalog[name].plot is not None]
            advice = f"Questions with a curve: {suggest(self.query.name, curves)}."
            raise PlotError(f"{self.query.name} has no curve", advice)
        needs_store = any(
            param.type == "iri" or param.name_kind == "content" for param in map(self.query.params.get, values) if param
        ) or any(param.required and name not in values for name, param in self.query.params.items())
        if chosen.show and not (needs_store and _can_be_opened(store_location(chosen.home))):
            click.echo(self.query.bind(values), nl=False)
            return
        from provml.store import questions  # takes the parsed question, so the store does not read the catalog again
        from provml.store.healing import healing

        with open_store(chosen.home) as store:
            if chosen.show:
                click.echo(healing(store, lambda: questions.bind(store, self.query, values)), nl=False)
                return
            timeout, service = chosen.timeout or None, chosen.allow_service
            answer = healing(store, lambda: questions.ask(store, self.query, values, timeout, service=service))
        write_answer(answer, chosen.fmt, chosen.output, chosen.plot)
        print_note(answer.note)


@dataclass(frozen=True)
class _Options:
    """Options of all questions, given before or after the question's name."""

    home: Path | None
    fmt: str | None
    output: Path | None
    plot: bool
    show: bool
    allow_service: bool
    timeout: float | None


def _merge_options(options: dict[str, Any], query: Query) -> _Options:
    """Combine the options after the question with those before it; the former take precedence."""
    from provml.catalog import USER_INTENT

    parent = click.get_current_context().parent
    before = parent.params if parent is not None else {}
    timeout = options["timeout"] if options["timeout"] is not None else before.get("timeout")
    if timeout is None and query.intent == USER_INTENT:
        timeout = DEFAULT_TIMEOUT_SECONDS
    return _Options(
        home=options["home"] or before.get("home"),
        fmt=options["fmt"] or before.get("fmt"),
        output=options["output"] or before.get("output"),
        plot=bool(options["plot"] or before.get("plot")),
        show=bool(options["show"] or before.get("show")),
        allow_service=bool(options["allow_service"] or before.get("allow_service")),
        timeout=timeout,
    )


def _option_name(name: str) -> str:
    """Return the option of a parameter; a trailing underscore avoids the names of the shared options."""
    reserved = ("list", "show", "format", "output", "plot", "home", "timeout", "allow_service", "help")
    return f"{name}_" if name in reserved else name


def _option(key: str, name: str, param: Parameter) -> click.Option:
    from provml.catalog import UNLIMITED

    notes = [note for note in (param.help, "may be repeated" if param.multiple else "") if note]
    if param.example is not None and not param.default:
        notes.append(f"such as {param.example}")
    marks = ["required"] if param.required else []
    if param.default is not None and param.default != UNLIMITED:
        default = str(param.default).lower() if isinstance(param.default, bool) else param.default
        marks = [f"default: {default}"]
    metavars = {"string": "TEXT", "integer": "INTEGER", "double": "NUMBER", "boolean": "true|false", "dateTime": "TIME"}
    spellings = [f"--{name}"] if name.endswith("_") else [f"--{name}", f"--{name.replace('_', '-')}"]
    return click.Option(
        [*dict.fromkeys(spellings), key],
        metavar=param.node_kind.upper() or metavars.get(param.type, "IRI"),
        multiple=param.multiple,
        help=", ".join(notes) + "".join(f"  [{mark}]" for mark in marks),
        shell_complete=complete_run if param.node_kind == "run" else None,
    )


def _help_text(query: Query) -> str:
    """Return the help text of a question."""
    keys = ("class", "data", "scope", "timing", "direction")
    traits = [*query.aliases, *(str(query.metadata[key]) for key in keys if key in query.metadata)]
    details = " · ".join([*traits, *([query.source] if query.source else [])])
    columns = f"Columns of the answer: {', '.join(query.columns)}." if query.columns else ""
    plot = query.plot
    curve = f"--plot draws {', '.join(plot['y'])} by {plot['x']}." if plot is not None else ""
    return "\n\n".join(part for part in (query.summary, details, columns, curve) if part)


@click.command(
    cls=Questions,
    invoke_without_command=True,
    no_args_is_help=False,
    subcommand_metavar="[QUESTION [--PARAMETER VALUE]...]",
)
@click.option("--list", "list_only", is_flag=True, help="List the questions (the default without a question).")
@click.option("--show", is_flag=True, help="Print the SPARQL query without running it.")
@limit_options("60 for your own questions, none for those of provml")
@output_options
@home_option
@click.pass_context
def ask(ctx: click.Context, /, list_only: bool, fmt: str | None, output: Path | None, **_: Any) -> None:
    """Ask a question of the catalog by name.

    \b
    provml ask --list
    provml ask adaptations-of-best --help
    provml ask adaptations-of-best --model alexnet
    provml ask time-and-loss-by-epoch --model alexnet --plot
    provml ask q1 --epoch 3 --show

    The parameters of a question are options; a run, a model or a dataset is given by name. Your own questions are .rq
    files in the directory $PROVML_QUERIES or in the directory `queries` of a home. For any other SPARQL query, use
    `provml query`.
    """
    if list_only or ctx.invoked_subcommand is None:
        assert isinstance(ctx.command, Questions)
        catalog = ctx.command.catalog(ctx)
        if fmt in (None, "table") and output is None:
            click.echo(_listing(catalog))
        else:
            write_answer(_rows(catalog), fmt, output)
        ctx.exit()


def _parameters(query: Query) -> str:
    options = [
        f"--{_option_name(name)}" if param.required else f"[--{_option_name(name)}]"
        for name, param in query.params.items()
    ]
    return " ".join([*options, *(["[--plot]"] if query.plot is not None else [])])


def _rows(catalog: Catalog) -> Any:
    from provml.answers import Answer

    queries = [catalog[name] for name in catalog]
    rows: list[tuple[Any, ...]] = [
        (query.name, ", ".join(query.aliases), query.intent, query.summary, _parameters(query)) for query in queries
    ]
    return Answer(["name", "aliases", "intent", "question", "parameters"], rows)


def _listing(catalog: Catalog) -> str:
    """Return the questions grouped by intent, one line each."""
    from provml.catalog import INTENTS, USER_INTENT

    width = min(shutil.get_terminal_size().columns, 120)
    margin = max(map(len, catalog)) + 2
    alias_margin = max((len(alias) for name in catalog for alias in catalog[name].aliases), default=0) + 2
    lines = []
    for intent in (*INTENTS, USER_INTENT):
        names = [name for name in catalog if catalog[name].intent == intent]
        if names:
            lines += ["", click.style(intent.capitalize(), bold=True)]
        for name in names:
            query = catalog[name]
            alias = click.style(f"{', '.join(query.aliases):{alias_margin}}", dim=True)
            summary = textwrap.shorten(query.summary, max(width - margin - alias_margin, 20), placeholder="…")
            lines.append(f"{name:{margin}}{alias}{summary}")
    return "\n".join([*lines[1:], "", "Run `provml ask QUESTION --help` for its parameters."])


COMMANDS = (ask,)
