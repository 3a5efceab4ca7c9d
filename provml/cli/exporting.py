"""export: write runs as RDF, as documents of other standards, into other tools, or as a site."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from provml.cli.options import home_option, open_store, require_modules, run_argument
from provml.cli.output import require_parent
from provml.cli.terminal import echo_message
from provml.errors import plural

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from provml.store.export_formats import ExportFormat

MAX_LOSSES = 5


def _complete_format(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    from provml.store.export_formats import ALL

    return [CompletionItem(fmt.name, help=fmt.summary) for fmt in ALL if fmt.name.startswith(incomplete)]


def _list_formats(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from provml.answers import Answer
    from provml.cli.terminal import terminal_width
    from provml.store.export_formats import ALL

    rows = [
        (fmt.name, fmt.summary, " ".join(fmt.suffixes), fmt.target, f"provml[{fmt.extra}]" if fmt.extra else "")
        for fmt in ALL
    ]
    click.echo(Answer(["format", "what", "extension", "writes", "needs"], rows).to_text(terminal_width()))
    options = {name: text for fmt in ALL for name, text in fmt.options.items()}
    if options:
        click.echo("\nOptions of formats, for --option NAME=VALUE:")
    for name, text in options.items():
        users = ", ".join(fmt.name for fmt in ALL if name in fmt.options)
        click.echo(f"  {name}: {text} ({users})")
    ctx.exit()


def _parse_options(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    options = {}
    for text in value:
        name, sign, content = text.partition("=")
        if not sign or not name.strip():
            raise click.BadParameter(f"{text!r} is not NAME=VALUE, such as license=MIT.", ctx, param)
        options[name.strip()] = content
    return options


@click.command()
@run_argument(required=False)
@click.option("--all", "all_runs", is_flag=True, help="Write all runs, and in RDF all loaded graphs.")
@click.option(
    "--as",
    "--format",
    "fmt",
    metavar="FORMAT",
    shell_complete=_complete_format,
    help="Format.  [default: from the file extension, else ttl]",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="PATH", help="Output file or new folder.")
@click.option(
    "--option", "options", multiple=True, metavar="NAME=VALUE", callback=_parse_options, help="Option of the format."
)
@click.option("--with", "vocabularies", metavar="NAMES", help="Also write terms of vocabularies: fair4ml,schema.")
@click.option(
    "--site",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Write the pages of the viewer into a new folder instead; without a run, of the whole home.",
)
@click.option("--no-validation", is_flag=True, help="Leave out the validation of a site, which takes most of the time.")
@click.option(
    "--list", is_flag=True, is_eager=True, expose_value=False, callback=_list_formats, help="List the formats and exit."
)
@home_option
def export(
    *,
    run: str | None,
    all_runs: bool,
    output: Path | None,
    fmt: str | None,
    options: dict[str, str],
    vocabularies: str | None,
    site: Path | None,
    no_validation: bool,
    home: Path | None,
) -> None:
    """Write a run, or the whole home, in another format.

    \b
    provml export latest -o run.ttl
    provml export latest --as prov-json -o run.json
    provml export --list

    A file or folder is written completely or not at all, and a folder with content is never replaced. Without -o, the
    text goes to standard output. RUN is a run id, a unique prefix or suffix of it, the name of one run, or `latest`.
    """
    if site is not None:
        if output is not None or fmt is not None:
            raise click.UsageError("--site writes pages: leave out --output and --as.")
        _export_site(site, run, home, validate=not no_validation)
        return
    if (run is None) != all_runs:
        raise click.UsageError("Pass a run or --all, for example: provml export latest -o run.ttl")
    if vocabularies is not None:
        options["vocabularies"] = vocabularies
    to_stdout = output is None or str(output) == "-"
    chosen = _choose_format(fmt, None if to_stdout else output)
    chosen.check_installed()
    if output is None or to_stdout:
        _print(chosen, run, options, home)
        return
    if chosen.target != "store":
        require_parent(output)
    if chosen.target == "file" and output.is_dir():
        raise click.UsageError(f"{output} is a directory. Pass a file for the format {chosen.name}.")
    with open_store(home) as store:
        result = store.export_as(run, output, chosen.name, **options)
    click.echo(result.summary(output), err=True)
    for text in result.losses[:MAX_LOSSES]:
        echo_message(f"not in this format: {text}")
    if len(result.losses) > MAX_LOSSES:
        echo_message(f"not in this format: {plural(len(result.losses) - MAX_LOSSES, 'other kind')} of content.")
    if result.note:
        echo_message(result.note)


def _choose_format(name: str | None, output: Path | None) -> ExportFormat:
    from provml.store.export_formats import DEFAULT, find_format, format_of_path

    if name:
        return find_format(name)
    return format_of_path(output) if output is not None and output.suffix else find_format(DEFAULT)


def _print(fmt: ExportFormat, run: str | None, options: dict[str, str], home: Path | None) -> None:
    if fmt.target != "file" or (fmt.binary and sys.stdout.isatty()):
        kind = "is no text" if fmt.target == "file" else f"is a {fmt.target}"
        raise click.UsageError(f"The format {fmt.name} {kind}. Pass a path with -o.")
    buffer = io.BytesIO()
    with open_store(home) as store:
        store.export_as(run, sys.stdout.buffer if fmt.group == "RDF" else buffer, fmt.name, **options)
    sys.stdout.buffer.write(buffer.getvalue())
    sys.stdout.buffer.flush()


def _export_site(site: Path, run: str | None, home: Path | None, *, validate: bool) -> None:
    require_modules("serve", "starlette", "jinja2")
    from provml.web.viewer.site import write_site

    with open_store(home) as store:
        infos = [store.run(run)] if run is not None else None
        count = write_site(store, site, infos, validate=validate)
    click.echo(f"Wrote {plural(count, 'page')} to {site}. Open {site / 'index.html'} in a browser.", err=True)


COMMANDS = (export,)
