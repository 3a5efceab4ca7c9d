"""load, graphs, unload, update: RDF of one's own beside the runs."""

from __future__ import annotations

from pathlib import Path

import click

from provml.cli.options import format_option, home_option, open_store, print_answer
from provml.errors import plural


@click.command()
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE..."
)
@click.option("--graph", metavar="IRI", help="Named graph to load into.  [default: the default graph]")
@click.option("--replace", is_flag=True, help="Replace everything that was loaded into this graph.")
@home_option
def load(files: tuple[Path, ...], graph: str | None, replace: bool, home: Path | None) -> None:
    """Load RDF files, for queries beside the runs.

    RDF in any format, and PROV-N, PROV-JSON, PROV-XML and PROV-JSONLD. A file that was loaded before is
    replaced, so loading it again changes nothing. The home is created if it does not exist.

    \b
    provml load people.ttl
    provml load people.ttl --graph http://example.org/people
    """
    with open_store(home, create=True) as store:
        for number, file in enumerate(files):
            count = store.load(file, graph=graph, replace=replace and not number)
            where = f"<{graph}>" if graph else "the default graph"
            click.echo(f"Loaded {plural(count, 'triple')} of {file} into {where}")


@click.command()
@format_option
@home_option
def graphs(fmt: str, home: Path | None) -> None:
    """List the graphs that were loaded, with their files."""
    from provml.answers import Answer

    with open_store(home) as store:
        rows = [(item.graph or "default", item.source, item.triples, item.loaded) for item in store.graphs()]
    if not rows and fmt == "table":
        click.echo("Nothing was loaded. Load RDF with `provml load FILE`.")
        return
    print_answer(Answer(["graph", "source", "triples", "loaded"], rows), fmt)


@click.command()
@click.argument("names", nargs=-1, metavar="IRI|FILE|default...")
@click.option("--all", "everything", is_flag=True, help="Remove everything that was loaded.")
@home_option
def unload(names: tuple[str, ...], everything: bool, home: Path | None) -> None:
    """Remove loaded graphs by IRI or by file.

    What runs recorded stays. `provml graphs` lists what was loaded; `default` stands for all that was loaded into the
    default graph.
    """
    if bool(names) == everything:
        raise click.UsageError("Pass the IRI of a graph, a file, or --all. `provml graphs` lists them.")
    with open_store(home) as store:
        listed = dict.fromkeys(item.graph or "default" for item in store.graphs())
        removed = store.unload(*(listed if everything else names))
    click.echo(f"Removed {plural(sum(item.triples for item in removed), 'triple')} of {plural(len(removed), 'source')}")


@click.command()
@click.argument("sparql", metavar="'INSERT …'|FILE|-")
@home_option
def update(sparql: str, home: Path | None) -> None:
    """Run a SPARQL update on loaded graphs.

    Pass the update, a file that contains it, or - to read it from standard input. Its patterns see everything, and it
    can change what was loaded. An update that would remove what a run recorded is refused as a whole.

    \b
    provml update 'INSERT DATA { GRAPH <http://example.org/g> { <http://example.org/a> rdfs:label "a" } }'
    provml update 'WITH <http://example.org/g> DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }'
    """
    from provml.cli.query import read_query

    text = read_query(sparql)
    with open_store(home) as store:
        change = store.update(text)
    click.echo(f"Added {plural(change.added, 'triple')}, removed {change.removed}")


COMMANDS = (load, graphs, unload, update)
