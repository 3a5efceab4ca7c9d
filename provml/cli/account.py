"""An account of a run: what the graph says of it, part by part."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from provml.answer import Answer
from provml.store import RunInfo, Store

BROAD = "preparation"
"""The kind that filters and splits are of too."""

MEMBER = "?at provlake:wasMemberOfWorkflowExecution $run ."

STAGES = f"""SELECT ?at ?kind ?status ?seconds ?error ?message (COUNT(?section) AS ?sections) WHERE {{
  {MEMBER}
  FILTER NOT EXISTS {{ ?at a provml:AdaptationExecution }}
  OPTIONAL {{
    VALUES (?type ?kind) {{
      (provml:TrainingExecution "training") (provml:ValidationExecution "validation")
      (provml:EvaluationExecution "evaluation") (provml:DataCurationExecution "curation")
      (provml:DataPreparationExecution "preparation") (provml:FilterExecution "filter")
      (provml:DataSplitExecution "split") (provml:FeatureExtractionExecution "extraction")
    }}
    ?at a ?type .
  }}
  OPTIONAL {{ ?at prov:startedAtTime ?started }}
  OPTIONAL {{ ?at provlake:status ?status }}
  OPTIONAL {{ ?at provml:elapsedSeconds ?seconds }}
  OPTIONAL {{ ?at provlake:exceptionType ?error }}
  OPTIONAL {{ ?at provlake:exceptionMessage ?message }}
  OPTIONAL {{ ?section provml:wasSectionOf ?at }}
}} GROUP BY ?at ?kind ?started ?status ?seconds ?error ?message ORDER BY ?started ?at"""

PARAMETERS = f"""SELECT ?at ?name ?value WHERE {{
  {MEMBER}
  ?at a provlake:DataTransformationExecution ; prov:used ?held .
  FILTER NOT EXISTS {{ ?at a provml:AdaptationExecution }}
  FILTER NOT EXISTS {{ ?layer provml:hasParameter ?held }}
  ?held prov:value ?value ; provlake:wasDerivedFromAttribute/rdfs:label ?name .
  OPTIONAL {{ ?at prov:startedAtTime ?started }}
}} ORDER BY ?started ?at ?name"""

MEASURES = f"""SELECT ?at ?index ?held ?name ?value WHERE {{
  {MEMBER}
  {{ ?held prov:wasGeneratedBy ?at }}
  UNION
  {{ ?section provml:wasSectionOf ?at ; provml:sectionIndex ?index . ?held prov:wasGeneratedBy ?section }}
  ?held a provml:ModelEvaluation ; prov:value ?value ; provlake:wasDerivedFromAttribute/rdfs:label ?name .
  OPTIONAL {{ ?at prov:startedAtTime ?started }}
}} ORDER BY ?started ?at ?index ?held"""

DATASETS = f"""SELECT ?data ?name ?at ?did ?role ?size ?sha256 ?path WHERE {{
  {MEMBER}
  {{
    ?at prov:used ?data . BIND("used by" AS ?did)
    OPTIONAL {{ ?at prov:qualifiedUsage [ prov:entity ?data ; prov:hadRole/rdfs:label ?role ] }}
  }}
  UNION {{ ?data prov:wasGeneratedBy ?at . BIND("made by" AS ?did) }}
  ?data a provlake:DataReference ; provlake:wasDerivedFromAttribute ?attribute .
  ?attribute rdfs:label ?name .
  $run provlake:wasDerivedFromWorkflow ?plan .
  FILTER (STRSTARTS(STR(?attribute), CONCAT(STR(?plan), "/")))
  FILTER NOT EXISTS {{ ?data a provml:Model }}
  OPTIONAL {{ ?data provlake:sizeBytes ?size }}
  OPTIONAL {{ ?data provlake:sha256 ?sha256 }}
  OPTIONAL {{ ?data provlake:path ?path }}
  OPTIONAL {{ ?at prov:startedAtTime ?started }}
}} ORDER BY ?started ?name"""

MODELS = f"""SELECT ?model ?name ?by ?layers ?parameters ?size ?sha256 ?path WHERE {{
  {MEMBER}
  {{ ?model prov:wasGeneratedBy ?at . BIND(?at AS ?by) }}
  UNION {{ ?by provml:wasSectionOf ?at . ?model prov:wasGeneratedBy ?by }}
  ?model a provml:Model ; provlake:wasDerivedFromAttribute/rdfs:label ?name .
  OPTIONAL {{
    ?model provml:hasModelSchema ?schema .
    OPTIONAL {{ ?schema provml:layerCount ?layers }}
    OPTIONAL {{ ?schema provml:parameterCount ?parameters }}
  }}
  OPTIONAL {{ ?model provlake:sizeBytes ?size }}
  OPTIONAL {{ ?model provlake:sha256 ?sha256 }}
  OPTIONAL {{ ?model provlake:path ?path }}
  OPTIONAL {{ ?by prov:startedAtTime ?started }}
}} ORDER BY ?started ?name"""

ADAPTATIONS = """SELECT ?during ?name ?old ?value ?technique ?reason ?by WHERE {
  ?at a provml:AdaptationExecution ; provlake:wasMemberOfWorkflowExecution $run .
  ?held prov:wasGeneratedBy ?at ; prov:value ?value ; provlake:wasDerivedFromAttribute/rdfs:label ?name .
  OPTIONAL { ?at provml:adaptedDuring ?during }
  OPTIONAL { ?held provml:revisesValue/prov:value ?old }
  OPTIONAL { ?at provml:technique ?technique }
  OPTIONAL { ?at provml:reason ?reason }
  OPTIONAL { ?at provml:wasSteeredBy/rdfs:label ?by }
  OPTIONAL { ?at prov:startedAtTime ?started }
} ORDER BY ?started ?name"""

ENVIRONMENT = """SELECT DISTINCT ?property ?value WHERE {
  $run prov:wasAssociatedWith ?environment .
  ?environment a provlake:ExecutionEnvironment .
  { ?environment ?property ?value . FILTER (isLiteral(?value)) }
  UNION { ?environment provlake:wasRunOn ?machine . ?machine ?property ?value . FILTER (isLiteral(?value)) }
  UNION {
    ?environment provml:hasSoftware ?software .
    ?software rdfs:label ?title . OPTIONAL { ?software provml:softwareVersion ?version }
    BIND(provml:hasSoftware AS ?property) BIND(CONCAT(?title, " ", COALESCE(?version, "")) AS ?value)
  }
} ORDER BY ?property ?value"""


def in_order(iri: str) -> list[str | int]:
    """What sorts IRIs so that one with a number comes after the same without, and 10 after 9."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"([0-9]+)", iri)]


class Account:
    """The parts of a run's account, each an answer."""

    def __init__(self, store: Store, info: RunInfo) -> None:
        self.store = store
        self.info = info

    def parts(self) -> dict[str, Answer]:
        """Every part, by its title."""
        made: dict[str, Callable[[], Answer]] = {
            "stages": self.stages,
            "hyperparameters": self.hyperparameters,
            "measures": self.measures,
            "adaptations": self.adaptations,
            "datasets": self.datasets,
            "models": self.models,
            "environment": self.environment,
        }
        return {title: make() for title, make in made.items()}

    def ask(self, sparql: str) -> list[tuple[Any, ...]]:
        """The rows of a query about this run."""
        answer = self.store.query(sparql.replace("$run", f"<{self.info.iri}>"), sync=False)
        return list(dict.fromkeys(answer.rows)) if isinstance(answer, Answer) else []

    def place(self, iri: str | None) -> str:
        """A place in the run as people say it."""
        at = unquote(str(iri or "").removeprefix(f"{self.info.iri}/"))
        stage, _, index = at.partition("/")
        return f"{stage} {index}" if index else stage

    def stages(self) -> Answer:
        """A row a stage or a step, with the most specific of its kinds."""
        columns = ["stage", "kind", "status", "sections", "seconds", "error"]
        rows: dict[str, tuple[Any, ...]] = {}
        for at, kind, status, seconds, error, message, sections in self.ask(STAGES):
            if at in rows and kind == BROAD:
                continue
            told = ": ".join(part for part in (error, message) if part) or None
            rows[at] = (self.place(at), kind or "step", status or self.info.status, sections or None, seconds, told)
        return Answer(columns, list(rows.values()))

    def hyperparameters(self) -> Answer:
        rows = [(self.place(at), title, value) for at, title, value in self.ask(PARAMETERS)]
        return Answer(["stage", "name", "value"], rows)

    def measures(self) -> Answer:
        """A row a section, a column a measure; where one was taken again, the last."""
        asked = self.ask(MEASURES)
        table: dict[tuple[str, int | None], dict[str, Any]] = {(at, index): {} for at, index, *_ in asked}
        for at, index, _, title, value in sorted(asked, key=lambda row: in_order(row[2])):
            table[at, index][title] = value
        titles = list(dict.fromkeys(title for row in table.values() for title in row))
        rows = [(self.place(at), index, *map(row.get, titles)) for (at, index), row in table.items()]
        return Answer(["stage", "section", *titles], rows)

    def adaptations(self) -> Answer:
        columns = ["during", "hyperparameter", "from", "to", "technique", "why", "by"]
        return Answer(columns, [(self.place(during), *rest) for during, *rest in self.ask(ADAPTATIONS)])

    def datasets(self) -> Answer:
        """A row a dataset and a place that used or made it."""
        rows = [
            (title, f"{did} {self.place(at)}", (role or "").removesuffix(" role") or None, size, sha256, path)
            for _, title, at, did, role, size, sha256, path in self.ask(DATASETS)
        ]
        return Answer(["dataset", "where", "role", "bytes", "sha256", "path"], rows)

    def models(self) -> Answer:
        columns = ["model", "made by", "layers", "parameters", "bytes", "sha256", "path"]
        return Answer(columns, [(title, self.place(by), *rest) for _, title, by, *rest in self.ask(MODELS)])

    def environment(self) -> Answer:
        """What surrounded the run; where its writers differ, all that they had."""
        held: dict[str, list[Any]] = {}
        for key, value in self.ask(ENVIRONMENT):
            words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", key.name).lower().removeprefix("has ")
            held.setdefault(words, []).append(value.strip() if isinstance(value, str) else value)
        one = {key: values[0] if len(values) == 1 else ", ".join(map(str, values)) for key, values in held.items()}
        return Answer(["name", "value"], list(one.items()))
