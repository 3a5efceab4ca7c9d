"""docs/queries.md: how to ask, and every question with its parameters, its SPARQL and a real answer.

The answers are the golden files of the tests, with the values that they were asked with.
"""

from __future__ import annotations

import csv
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from provml.answer import Answer, Curve
from provml.answer.table import as_text
from provml.catalog import ENDLESS, FAMILIES, PAPERS, Catalog, Query
from provml.values import IRI

TESTS = Path(__file__).parents[1] / "tests"
SHOWN = 8
"""How many rows of an answer the page shows."""

CLASSES = {
    "C1": "attributes of entities, in one training",
    "C2": "attributes of entities, over many trainings",
    "C3": "attributes together with the path by which data were derived, in one training",
    "C4": "attributes together with the path by which data were derived, over many trainings",
}
TITLES = {
    "seed 000": "D. Pina, L. Kunstmann, D. de Oliveira, P. Valduriez, M. Mattoso: *Provenance Supporting "
    "Hyperparameter Analysis in Deep Neural Networks*, IPAW 2021",
    "seed 001": "D. Pina: *Captura de dados de proveniência para apoiar a análise de hiperparâmetros em redes de "
    "aprendizado profundo*, dissertation, Federal University of Rio de Janeiro, 2020",
    "seed 002": "R. Souza, L. G. Azevedo, V. Lourenço and others: *Workflow Provenance in the Lifecycle of Scientific "
    "Machine Learning*",
}

INTRODUCTION = '''# Questions

Each question is a file of SPARQL in `queries/` with a header that says what it asks, what it takes and what it answers.
It is asked by name, in Python and on the command line.

```python
import provml

with provml.record("flowers", model="alexnet", run="monday") as run:
    photos = run.dataset(b"stand-in for a file", name="photos", role="training")
    with run.training(using=photos, learning_rate=0.1) as training:
        for epoch in training.epochs(3):
            epoch.measured(loss=1 / epoch.index)

store = provml.open()
```

```pycon
>>> print(store.ask("q1", model="alexnet", epoch=2))
training             epoch  value
───────────────────  ─────  ─────
run/monday/training      2    0.5

```

```sh
provml ask --list
provml ask q1 --help
provml ask q1 --model alexnet --epoch 2
provml ask q1 --model alexnet --epoch 2 --show
```

Where a parameter stands for a run, a model or a dataset, the name that people use will do: a run's id or a part of it,
a model's name or `name@run` (the last, where a run made several), a dataset's name, path or SHA-256. A name that fits
several, or none, is told with the near ones. An answer without rows has a `note` that says what was asked, or that
nothing has an IRI that was given. A question goes by its id or by the name of its file. A parameter whose name is a
word of Python is given as `from_=100`.
A shell completes questions, their parameters and runs after `eval "$(_PROVML_COMPLETE=bash_source provml)"` (or
`zsh_source`, `fish_source`).

## Answers

An answer has rows of Python values: floats, whole numbers, datetimes, IRIs, text.

```pycon
>>> answer = store.ask("q3", model="alexnet")
>>> len(answer), answer.columns
(3, ['training', 'epoch', 'seconds', 'value'])
>>> [row[3] for row in answer.sorted("value")]  # what is missing comes last
[0.3333333333333333, 0.5, 1.0]
>>> answer[:2].column("epoch")
[1, 2]
>>> answer.to_pandas()["epoch"].mean()  # also to_polars(), to_dicts()
np.float64(2.0)

```

| `--format` | in Python | ending of `-o FILE` | what it is |
|---|---|---|---|
| `table` | `print(answer)` | `.txt` | for people; a notebook shows it as HTML |
| `json` | `to_json()` | `.json` | a list of objects |
| `csv`, `tsv` | `to_csv()`, `to_tsv()` | `.csv`, `.tsv` | plain values, for spreadsheets and scripts |
| `sparql-json` | `to_sparql("json")` | `.srj` | W3C's result formats: terms just as the graph has them |
| `sparql-xml` | `to_sparql("xml")` | `.srx` | |
| `sparql-csv` | `to_sparql("csv")` | | without datatypes, as W3C has it |
| `sparql-tsv` | `to_sparql("tsv")` | | |
| `ttl`, `nt`, `jsonld` | `to_rdf("ttl")` … | `.ttl`, `.nt`, `.jsonld` | the triples of CONSTRUCT and DESCRIBE |

A file is written whole or not at all.

## Curves

Questions that are curves can be drawn: `answer.plot()` by matplotlib (`pip install 'provml[plot]'`), which gives the
axes, and `--plot` in the terminal, or as a picture where the file of `-o` ends in .png, .svg or .pdf, or with
characters where it ends in .txt. The answer of any question, or of SPARQL of your own, is drawn once its columns are
named.

```python
axes = store.ask("q3", model="alexnet").plot()
axes.figure.savefig("loss.png")

store.ask("q3", model="alexnet").plot(x="epoch", y="seconds", by="training", ax=axes)
```

```sh
provml ask q3 --model alexnet --plot
provml ask q3 --model alexnet --plot -o loss.svg
```

## Questions of your own

Put a file into the folder `queries` of a home, or into a folder that `PROVML_QUERIES` names (several with `:` between
them, `;` on Windows). It works like the others: in Python, on the command line, with help, list, plot and all.

```python
from pathlib import Path

Path(".provml/queries").mkdir()
Path(".provml/queries/u1-losses-below.rq").write_text("""\\
#+ id: u1
#+ summary: Which epochs had a loss below a limit?
#+ params:
#+   limit: {type: double, help: the limit, example: 0.4}
#+   run: {type: iri, of: run, optional: true, help: only this run}
#+ columns: {run: iri, epoch: integer, loss: double}
#+ plot: {x: epoch, y: loss, by: run}
PREFIX prov: <http://www.w3.org/ns/prov#>
PREFIX provlake: <https://w3id.org/provlake#>
PREFIX provml: <https://w3id.org/provml#>
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>

SELECT ?run ?epoch ?loss WHERE {
  VALUES ?run { $run }
  ?training a provml:TrainingExecution ; provlake:wasMemberOfWorkflowExecution ?run .
  ?section provml:wasSectionOf ?training ; provml:sectionIndex ?epoch .
  ?evaluation prov:wasGeneratedBy ?section ; a provml:ModelEvaluation ; prov:value ?loss ;
              provlake:wasDerivedFromAttribute/rdfs:label "loss" .
  FILTER(?loss < $limit)
} ORDER BY ?run ?epoch
""")
```

```sh
provml ask u1 --limit 0.4
```

`$name` is a parameter and `?name` a variable. A parameter has a `type` (string, integer, double, boolean, dateTime,
iri), and may have `help`, `example`, `default`, `optional`, `many`, `min`, the least that a number may be (itself a
number, or the parameter that it may not be less than), `of` (run, model or dataset) where a name stands for the node,
and `names` (model, measure, hyperparameter, person or content) where a text that nothing is called is told. A whole
number after `LIMIT` or `OFFSET` is not negative. One that is optional or many stands in `VALUES ?name { $name }`, which
becomes `UNDEF` when it is left out. A value is put in as a term, never as text, so none can change a query. `columns`
names what is selected, all of it, each with its type. `plot` says which columns make a curve: `x`, one or more `y`,
`by` what they are told apart, the `unit` of y, and `named`, the parameter whose value says what y is. `needs` says what
has to be recorded for an answer, and is told where there is none. `class`, `scope`, `timing`, `source`, `data` and
`direction` are for people.

`queries/queries.ttl` describes provml's own questions in SHACL's words, for publishing.
'''


def queries_page(head: str) -> str:
    """The whole page."""
    catalog = Catalog()
    cases = _cases()
    parts = [f"{head}\n{INTRODUCTION}", "## All questions\n"]
    families = {family: [catalog[name] for name in catalog if catalog[name].family == family] for family in _order()}
    for family, queries in families.items():
        rows = "\n".join(f"| [{query.id}](#{query.id}) | {query.summary} |" for query in queries)
        parts.append(f"**{family}**\n\n| | |\n|---|---|\n{rows}\n")
    parts.append(_legend())
    for family, queries in families.items():
        parts.append(f"## {family}\n")
        if any("data" in query.about for query in queries):
            parts.append(_taxonomy(queries))
        parts += [_question(query, *cases[query.id]) for query in queries]
    return "\n".join(parts)


def _order() -> list[str]:
    return list(FAMILIES.values())


def _legend() -> str:
    classes = "\n".join(f"- {name}: {words}" for name, words in CLASSES.items())
    papers = "\n".join(f"- {short}: {TITLES[key]}" for key, short in PAPERS.items())
    return (
        f"Each question has its class, by what it reads:\n\n{classes}\n\n"
        "It reads one training or several (intra- or inter-training), and can be asked while a training goes on "
        "(online) or once it is over (offline). The papers that ask them:\n\n"
        f"{papers}\n\nThe answers below are those of the tests: trainings with the numbers that the papers print, and "
        "a life cycle from seismic files to models.\n"
    )


def _taxonomy(queries: list[Query]) -> str:
    head = "Their place in the paper's taxonomy:\n\n| | data | timing | scope | direction |\n|---|---|---|---|---|\n"
    keys = ("data", "timing", "scope", "direction")
    rows = [f"| {query.id} | {' | '.join(str(query.about[key]) for key in keys)} |" for query in queries]
    return head + "\n".join(rows) + "\n"


def _question(query: Query, case: str, values: dict[str, Any]) -> str:
    traits = [f"class {query.about['class']}"] if "class" in query.about else []
    traits += [str(query.about[key]) for key in ("data", "scope", "timing", "direction") if key in query.about]
    traits += [query.source] if query.source else []
    said = [f"### {query.id}\n", f"**{query.summary}**\n", " · ".join(traits) + "\n"]
    if query.params:
        said.append(_parameters(query))
    answer = _answer(query, case, values)
    asked = " ".join([f"provml ask {query.id}", *(_words(values))])
    rows = as_text(answer.columns, answer.rows[:SHOWN], max(len(answer) - SHOWN, 0))
    said.append(f"```text\n$ {asked}\n{rows}\n```\n")
    if query.plot is not None and len(answer.curves().series) <= SHOWN:
        said.append(f"```text\n$ {asked} --plot\n{answer.chart(80, 9)}\n```\n")
    text = "\n".join(line for line in query.text.splitlines() if not line.startswith("#+")).strip()
    said.append(f"<details><summary>SPARQL</summary>\n\n```sparql\n{text}\n```\n\n</details>\n")
    return "\n".join(said)


def _parameters(query: Query) -> str:
    rows = []
    for one in query.params.values():
        rest = "required" if one.required else "may be left out"
        if one.default is not None and one.default != ENDLESS:
            rest = f"`{str(one.default).lower() if isinstance(one.default, bool) else one.default}` unless given"
        rows.append(f"| `{one.name}` | {one.expected} | {rest} | {one.help} |")
    return "| parameter | takes | | |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"


def _words(values: dict[str, Any]) -> list[str]:
    words = []
    for name, value in values.items():
        for each in value if isinstance(value, list) else [value]:
            words.append(f"--{name} {str(each).lower() if isinstance(each, bool) else each}")
    return words


def _cases() -> dict[str, tuple[str, dict[str, Any]]]:
    """For each question, the first of its golden answers and what it was asked with."""
    sys.path.insert(0, str(TESTS))
    from world.cases import ALEXNET, SEISMIC

    sys.path.remove(str(TESTS))
    cases: dict[str, tuple[str, dict[str, Any]]] = {}
    for case, values in (ALEXNET | SEISMIC).items():
        cases.setdefault(case.partition("-")[0], (case, values))
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
    """A value as CSV has it, back as what it was; a moment as text in UTC, for the page is the same everywhere."""
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
