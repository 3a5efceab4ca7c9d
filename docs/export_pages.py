"""The pages of the export formats, from the table of formats and the mapping tables of their writers."""

from __future__ import annotations

from importlib import import_module

from provml.exchange.mapping_table import MappingTable, Row
from provml.store.export_formats import ALL, EXPORT_FORMATS, RDF_WRITER

RDF = MappingTable(
    "RDF",
    """The graph of a run as it is in the store, with the prefixes of provml; JSON-LD has the context of the ontology.
Nothing is lost, but RDF/XML cannot hold control characters: each becomes U+FFFD. `store.load` reads all of them.""",
    (
        Row("the graph of the run", "the same triples"),
        Row("named graphs of a home (`--all`)", "`nq` and `trig`", "other formats have only the default graph"),
    ),
    ("nt", "nq", "ttl", "trig", "rdf", "jsonld"),
    "provml export latest -o run.ttl\nprovml export --all -o home.nq",
)


def tables() -> dict[str, MappingTable]:
    """Return the mapping tables by the name of their page."""
    pages = {"rdf": RDF}
    for writer in dict.fromkeys(fmt.writer for fmt in ALL if fmt.writer != RDF_WRITER):
        table: MappingTable = import_module(writer).TABLE
        pages[writer.rpartition(".")[2].removesuffix("_export").replace("_", "-")] = table
    return pages


def index_page(head: str) -> str:
    """Return the page with all formats."""
    pages = tables()
    page_of = {name: page for page, table in pages.items() for name in table.formats}
    lines = [
        f"{head}\n# Export formats\n",
        "A page for each format that `provml export` writes: what goes out, field by field, and what is lost.\n",
        "| format (`--as`) | what | extensions | writes | needs |\n|---|---|---|---|---|",
    ]
    for fmt in ALL:
        suffixes = " ".join(f"`{suffix}`" for suffix in fmt.suffixes)
        needs = f"`provml[{fmt.extra}]`" if fmt.extra else ""
        link = f"[`{fmt.name}`]({page_of[fmt.name]}.md)"
        lines.append(f"| {link} | {fmt.summary} | {suffixes} | {fmt.target} | {needs} |")
    lines.append("\n```{toctree}\n:hidden:\n\n" + "\n".join(pages) + "\n```")
    return "\n".join(lines) + "\n"


def format_page(head: str, table: MappingTable) -> str:
    """Return the page of a mapping table."""
    formats = [EXPORT_FORMATS[name] for name in table.formats]
    lines = [f"{head}\n# {table.title}\n", table.text + "\n", f"```text\n{table.example}\n```\n"]
    extras = dict.fromkeys(fmt.extra for fmt in formats if fmt.extra)
    if extras:
        lines.append(f"Needs `pip install 'provml[{','.join(extras)}]'`.\n")
    lines.append("| in the run | there | lost |\n|---|---|---|")
    lines += [f"| {row.run} | {row.there} | {row.lost} |" for row in table.rows]
    options = {name: text for fmt in formats for name, text in fmt.options.items()}
    if options:
        lines.append("\n| option (`--option NAME=VALUE`) | meaning |\n|---|---|")
        lines += [f"| `{name}` | {text} |" for name, text in options.items()]
    return "\n".join(lines) + "\n"
