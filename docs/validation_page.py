"""docs/validation.md: how to validate, and each promise in words with an example of what breaks it."""

from __future__ import annotations

import re
from pathlib import Path

import pyoxigraph as ox

from provml import resources
from provml.validation import validate
from provml.validation.report import GRAVEST

EXAMPLES = Path(__file__).parents[1] / "tests" / "shapes"
SHAPE = "https://w3id.org/provml/shape/"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"

INTRODUCTION = """
# What must hold

A run is held to **promises**: those that the ontology makes (which class has which property, of which kind, how
many), and those below, which are written by hand. They are SHACL, in `shapes/`, so any SHACL engine can check them.

```python
import provml

with provml.record("flowers", model="alexnet", validate=True) as run:
    photos = run.dataset(b"stand-in for a file", name="photos")
    with run.training(using=photos, learning_rate=0.1) as training:
        for epoch in training.epochs(3):
            epoch.measured(loss=1 / epoch.index)
        model = training.produced(b"stand-in for weights")
    with run.evaluation(of=model) as test:
        test.measured(accuracy=0.8)
```

`validate=True` validates the run when it ends: how it stands is logged and shown by `provml status`, and the training
never hears of it (with `strict=True` it does). Later, or from elsewhere:

```sh
provml validate
provml validate latest --constraints
provml validate --all --format json
```

A run is validated from its own journals, all runs in the index, where they are. A file is taken by its ending, and
may leave to the ontology which class is below which. The command ends with 1 where a promise is broken, so it can
gate a CI, and with 2 for bad input.

```pycon
>>> with provml.open() as store:
...     report = store.validate("latest")  # None for all; shapes=["my-shapes"] for more
>>> bool(report), report.checked.engine
(True, 'compiled')
>>> report.raise_if_broken()

```

A report is true when nothing of the severity Violation was found; a Warning is worth a look and an Info worth
knowing, and neither breaks anything. It is iterable, groups what breaks one promise into one line however often it is
broken (`groups()`), and goes out by `to_markdown()`, `to_json()`, `to_html()` and `to_rdf()`, a standard
`sh:ValidationReport` (whose `sh:conforms` is false for a warning too, as the standard has it).

```pycon
>>> from provml.validation import validate
>>> from provml.vocab import EvaluationMeasure, ModelEvaluation
>>> loss = EvaluationMeasure("http://example.org/loss", label="loss")
>>> def measured(number):
...     iri = f"http://example.org/{number}"
...     return ModelEvaluation(iri, was_derived_from_attribute=loss, value="low")
>>> values = [measured(number) for number in range(1000)]
>>> report = validate(values)
>>> len(report), len(report.groups())
(1000, 1)
>>> print(str(report).splitlines()[1].partition(". ")[0])
- Violation at 1,000 nodes: A measure is a number, not text

```

## Shapes of your own

Shapes in the folders that `PROVML_SHAPES` names, in the folder `shapes` of a home, or given with `--shapes` are
checked with ours. Those two kinds of folders may be empty or hold other Turtle files too.

```turtle
# enough.ttl
@prefix ex:       <http://example.org/> .
@prefix provlake: <https://w3id.org/provlake#> .
@prefix provml:   <https://w3id.org/provml#> .
@prefix sh:       <http://www.w3.org/ns/shacl#> .

ex:Enough a sh:NodeShape ;
    sh:targetClass provml:LearningProcessExecution ;
    sh:property [
        sh:path [ sh:inversePath provlake:wasMemberOfWorkflowExecution ] ; sh:minCount 2 ;
        sh:severity sh:Warning ; sh:message "Our runs train and test."@en
    ] .
```

```sh
provml validate --shapes enough.ttl
```

## Engines

- **compiled** (the default): SHACL Core and SHACL-SPARQL become SPARQL that the store runs itself. A shape that it
  does not cover is handed to pySHACL, and the report says which. It keeps a thousand results of each shape and counts
  the rest.
- **reference**: pySHACL, `--engine reference`, with the targets and rules of SHACL's advanced features.

## PROV-CONSTRAINTS and OWL

`provml validate --constraints FILE` holds any PROV document to W3C PROV-CONSTRAINTS; each named graph is a bundle and
is judged on its own. `provml validate --owl` asks HermiT whether a run, without its batches, is consistent with the
ontology, and if not, which few statements clash, as far as it is found in 15 minutes. It needs Java and
`pip install 'provml[owl]'`; times go to it in milliseconds, which is as fine as it reads. OWL knows no missing value
and lets two names mean one node, so it finds less than the shapes, but what it finds follows from the ontology alone.
"""


def validation_page(head: str) -> str:
    """The page."""
    own = resources.shapes()
    files = [*sorted(own.glob("*.ttl")), own / "generated" / "known-term.ttl"]
    parts = [head + INTRODUCTION, "## The promises\n"]
    promises = [_promise(path) for path in files]
    parts.append("\n".join(f"- [{title}](#{_anchor(title)})" for title, _ in promises) + "\n")
    parts += [text for _, text in promises]
    return "\n".join(parts)


def _anchor(title: str) -> str:
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def _promise(path: Path) -> tuple[str, str]:
    store = ox.Store()
    store.load(path=str(path), format=ox.RdfFormat.TURTLE)
    node = ox.NamedNode(SHAPE + path.stem)
    title, words = (
        next(iter(store.quads_for_pattern(node, ox.NamedNode(RDFS + name), None))).object.value
        for name in ("label", "comment")
    )
    lines = [f"### {title}\n", f"{words} (`{path.relative_to(resources.shapes().parent).as_posix()}`)\n"]
    told: dict[tuple[str, str], Path] = {}
    for example in sorted((EXAMPLES / path.stem).glob("fail-*.ttl")):
        for result in validate(example, path):
            told.setdefault((result.severity, result.message), example)
    gravest = sorted(told, key=lambda one: (GRAVEST.index(one[0]), one[1]))
    lines += [f"- {severity}: {message}" for severity, message in gravest]
    lines += ["\nThis breaks it:\n", f"```turtle\n{told[gravest[0]].read_text().strip()}\n```\n"]
    return title, "\n".join(lines)
