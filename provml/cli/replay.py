"""replay: translate again what clients of other systems sent to a service."""

from __future__ import annotations

from pathlib import Path

import click

from provml.cli.options import format_option, home_option, local_home, print_answer, require_modules
from provml.errors import plural

PROTOCOLS = ("dfanalyzer", "provlake", "mlflow", "openlineage")


@click.command()
@click.option(
    "--protocol", "protocols", type=click.Choice(PROTOCOLS), multiple=True, help="Only this protocol; repeatable."
)
@format_option
@home_option
def replay(protocols: tuple[str, ...], fmt: str, home: Path | None) -> None:
    """Translate again what clients of other systems sent.

    A service keeps each request of a DfAnalyzer, ProvLake, MLflow or OpenLineage client in HOME/received before it
    translates it. Replaying gives the same runs and the same graph, however often: after an upgrade that corrects the
    translation, or if journals were lost. Stop the service first.
    """
    require_modules("serve", "starlette", "uvicorn", "jinja2")
    from provml.answers import Answer
    from provml.web.ingest.replay import replay as translate_again

    runs = translate_again(local_home(home), protocols)
    if fmt != "table" or runs:
        print_answer(Answer(["protocol", "run", "changed"], [tuple(run) for run in runs]), fmt)
    changed = sum(run.changed for run in runs)
    click.echo(f"Replayed {plural(len(runs), 'run')}; {plural(changed, 'journal')} changed.", err=True)


COMMANDS = [replay]
