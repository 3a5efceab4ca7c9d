"""docs/reference/questions.md: every question with its parameters, its SPARQL and a real answer.

The answers are the golden files of the tests, with the parameter values of those tests.
"""

from __future__ import annotations

import csv
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from provml.answers import Answer, Curve
from provml.answers.table import text_table
from provml.catalog import INTENTS, PAPERS, UNLIMITED, Catalog, Query
from provml.model.values import IRI

TESTS = Path(__file__).parents[1] / "tests"
MAX_ROWS = 8  # of an answer on the page

CLASSES = {
    "C1": "attributes of entities, in one training",
    "C2": "attributes of entities, over many trainings",
    "C3": "attributes together with the path by which data were derived, in one training",
    "C4": "attributes together with the path by which data were derived, over many trainings",
}
TITLES = {
    "pina-2021": "D. Pina, L. Kunstmann, D. de Oliveira, P. Valduriez, M. Mattoso: *Provenance Supporting "
    "Hyperparameter Analysis in Deep Neural Networks*, IPAW 2021",
    "pina-2020": "D. Pina: *Captura de dados de proveniência para apoiar a análise de hiperparâmetros em redes de "
    "aprendizado profundo*, dissertation, Federal University of Rio de Janeiro, 2020",
    "souza-2021": "R. Souza, L. G. Azevedo, V. Lourenço and others: *Workflow Provenance in the Lifecycle of "
    "Scientific Machine Learning*, Concurrency and Computation: Practice and Experience, 2021",
}

INTRODUCTION = """# Questions

Every question of the catalog with its parameters, an answer and its SPARQL.
[Ask questions](../how-to/ask-questions.md) shows how to ask one and how to add your own.
"""


def queries_page(head: str) -> str:
    """Return the whole page."""
    catalog = Catalog()
    cases = _cases(catalog)
    parts = [f"{head}\n{INTRODUCTION}", "## All questions\n"]
    intents = {intent: [query for query in catalog.values() if query.intent == intent] for intent in INTENTS}
    for intent, queries in intents.items():
        rows = "\n".join(
            f"| [{query.name}](#{query.name}) | {', '.join(query.aliases)} | {query.summary} |" for query in queries
        )
        parts.append(f"**{intent.capitalize()}**\n\n| name | alias | |\n|---|---|---|\n{rows}\n")
    parts.append(_legend())
    parts.append(_taxonomy([query for query in catalog.values() if "data" in query.metadata]))
    for intent, queries in intents.items():
        parts.append(f"## {intent.capitalize()}\n")
        parts += [_question(query, *cases[query.name]) for query in queries]
    return "\n".join(parts)


def _legend() -> str:
    classes = "\n".join(f"- {name}: {words}" for name, words in CLASSES.items())
    papers = "\n".join(f"- {short}: {TITLES[key]}" for key, short in PAPERS.items())
    return (
        f"Each question has a class:\n\n{classes}\n\n"
        "It reads one training or several (intra- or inter-training). It can be asked while a training runs "
        "(online) or afterwards (offline). The questions come from these papers:\n\n"
        f"{papers}\n\nThe answers below are those of the tests: trainings with the numbers printed in the papers, and "
        "a life cycle from seismic files to models.\n"
    )


def _taxonomy(queries: list[Query]) -> str:
    head = "The questions of Souza et al. in the taxonomy of the paper:\n\n"
    head += "| | data | timing | scope | direction |\n|---|---|---|---|---|\n"
    keys = ("data", "timing", "scope", "direction")
    rows = [f"| {query.name} | " + " | ".join(str(query.metadata[key]) for key in keys) + " |" for query in queries]
    return head + "\n".join(rows) + "\n"


def _question(query: Query, case: str, values: dict[str, Any]) -> str:
    traits = [f"`{alias}`" for alias in query.aliases]
    traits += [f"class {query.metadata['class']}"] if "class" in query.metadata else []
    traits += [str(query.metadata[key]) for key in ("data", "scope", "timing", "direction") if key in query.metadata]
    traits += [query.source] if query.source else []
    parts = [f"### {query.name}\n", f"**{query.summary}**\n", " · ".join(traits) + "\n"]
    if query.params:
        parts.append(_parameters(query))
    answer = _answer(query, case, values)
    asked = " ".join([f"provml ask {query.name}", *(_options(values))])
    rows = text_table(answer.columns, answer.rows[:MAX_ROWS], max(len(answer) - MAX_ROWS, 0))
    parts.append(f"```text\n$ {asked}\n{rows}\n```\n")
    if query.plot is not None and len(answer.curves().series) <= MAX_ROWS:
        parts.append(f"```text\n$ {asked} --plot\n{answer.chart(80, 9)}\n```\n")
    text = "\n".join(line for line in query.text.splitlines() if not line.startswith("#+")).strip()
    parts.append(f"<details><summary>SPARQL</summary>\n\n```sparql\n{text}\n```\n\n</details>\n")
    return "\n".join(parts)


def _parameters(query: Query) -> str:
    rows = []
    for param in query.params.values():
        default = "required" if param.required else "optional"
        if param.default is not None and param.default != UNLIMITED:
            value = str(param.default).lower() if isinstance(param.default, bool) else param.default
            default = f"default `{value}`"
        rows.append(f"| `{param.name}` | {param.expected} | {default} | {param.help} |")
    return "| parameter | value | | |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"


def _options(values: dict[str, Any]) -> list[str]:
    options = []
    for name, value in values.items():
        for item in value if isinstance(value, list) else [value]:
            options.append(f"--{name} {str(item).lower() if isinstance(item, bool) else item}")
    return options


def _cases(catalog: Catalog) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return for each question its first golden answer and the parameter values of that test."""
    sys.path.insert(0, str(TESTS))
    from example_runs.cases import CASES

    sys.path.remove(str(TESTS))
    cases: dict[str, tuple[str, dict[str, Any]]] = {}
    for case, values in CASES.items():
        cases.setdefault(catalog[case.partition("-")[0]].name, (case, values))
    return cases


def _answer(query: Query, case: str, values: dict[str, Any]) -> Answer:
    with (TESTS / "golden" / f"{case}.csv").open(encoding="utf-8", newline="") as file:
        columns, *rows = csv.reader(file)
    kinds = [query.columns[name] for name in columns]
    answer = Answer(columns, [tuple(map(_value, kinds, row)) for row in rows])
    if query.plot is not None:
        named = query.plot["named"]
        called = str(values.get(named) or query.params[named].default or "") if named else ""
        y, by = tuple(query.plot["y"]), tuple(query.plot["by"])
        answer.curve = Curve(query.plot["x"], y, by, called, query.plot["unit"])
    return answer


def _value(kind: str, text: str) -> Any:
    """Convert a CSV value back to its type; a dateTime stays text in UTC, so that the page is the same everywhere."""
    if not text:
        return None
    if kind == "iri":
        return IRI(text)
    if kind == "dateTime":
        return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M:%S}"
    try:
        return int(text) if kind == "integer" else float(text) if kind in ("double", "any") else text
    except ValueError:
        return text
