"""Contents of a run from the graph: stages, hyperparameters, measures, adaptations, data, models, environment."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

from provml.answers import Answer
from provml.journal.location import Location
from provml.store.name_lookup import Queryable, natural_key
from provml.store.run_info import RunInfo

GENERIC_KIND = "preparation"
"""Kind that filters and splits have besides their own."""

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
  ?at a provlake:DataTransformationExecution ; prov:used ?node .
  FILTER NOT EXISTS {{ ?at a provml:AdaptationExecution }}
  FILTER NOT EXISTS {{ ?layer provml:hasParameter ?node }}
  ?node prov:value ?value ; provlake:wasDerivedFromAttribute/rdfs:label ?name .
  OPTIONAL {{ ?at prov:startedAtTime ?started }}
}} ORDER BY ?started ?at ?name"""

MEASURES = f"""SELECT ?at ?index ?node ?name ?value ?validated WHERE {{
  {MEMBER}
  {{ ?node prov:wasGeneratedBy ?at }}
  UNION
  {{
    ?section provml:wasSectionOf ?at ; provml:sectionIndex ?index . ?node prov:wasGeneratedBy ?section .
    OPTIONAL {{ ?section provml:validatedSection/provml:sectionIndex ?validated }}
  }}
  ?node a provml:ModelEvaluation ; prov:value ?value ; provlake:wasDerivedFromAttribute/rdfs:label ?name .
  OPTIONAL {{ ?at prov:startedAtTime ?started }}
}} ORDER BY ?started ?at ?index ?node"""

_DATA = """?data a provlake:DataReference ; provlake:wasDerivedFromAttribute ?attribute .
    ?attribute rdfs:label ?name . $run provlake:wasDerivedFromWorkflow ?plan .
    FILTER (STRSTARTS(STR(?attribute), CONCAT(STR(?plan), "/")))
    FILTER NOT EXISTS { ?data a provml:Model }"""
DATASETS = f"""SELECT ?data ?name ?at ?did ?size ?sha256 ?path WHERE {{ # all in both parts: joins stay in the run
  {{ {MEMBER} ?at prov:used ?data . {_DATA} BIND("used by" AS ?did) }}
  UNION {{ {MEMBER} ?data prov:wasGeneratedBy ?at . {_DATA} BIND("made by" AS ?did) }}
  OPTIONAL {{ ?data provlake:sizeBytes ?size }}
  OPTIONAL {{ ?data provlake:sha256 ?sha256 }}
  OPTIONAL {{ ?data provlake:path ?path }}
  OPTIONAL {{ ?at prov:startedAtTime ?started }}
}} ORDER BY ?started ?name"""

ROLES = f"""SELECT ?at ?data ?role WHERE {{
  {MEMBER}
  {{ ?at prov:qualifiedUsage ?usage }} UNION {{ ?section provml:wasSectionOf ?at ; prov:qualifiedUsage ?usage }}
  ?usage prov:entity ?data ; prov:hadRole/rdfs:label ?role .
}} ORDER BY ?role"""

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

MODEL_FILES = f"""SELECT ?model ?path ?size ?sha256 WHERE {{
  {MEMBER}
  {{ ?model prov:wasGeneratedBy ?at }} UNION {{ ?by provml:wasSectionOf ?at . ?model prov:wasGeneratedBy ?by }}
  ?model a provml:Model ; provlake:path ?path ; prov:alternateOf ?file .
  ?file provlake:path ?path ; provlake:sha256 ?sha256 .
  OPTIONAL {{ ?file provlake:sizeBytes ?size }}
}} ORDER BY ?model ?path"""

ADAPTATIONS = """SELECT ?during ?name ?old ?value ?technique ?reason ?by WHERE {
  ?at a provml:AdaptationExecution ; provlake:wasMemberOfWorkflowExecution $run .
  ?node prov:wasGeneratedBy ?at ; prov:value ?value ; provlake:wasDerivedFromAttribute/rdfs:label ?name .
  OPTIONAL { ?at provml:adaptedDuring ?during }
  OPTIONAL { ?node provml:revisesValue/prov:value ?old }
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


class RunTables:
    """Tables that describe a run."""

    def __init__(self, store: Queryable, info: RunInfo) -> None:
        self.store = store
        self.info = info

    def parts(self) -> dict[str, Answer]:
        """Return all tables by title."""
        builders: dict[str, Callable[[], Answer]] = {
            "stages": self.stages,
            "hyperparameters": self.hyperparameters,
            "measures": self.measures,
            "adaptations": self.adaptations,
            "datasets": self.datasets,
            "models": self.models,
            "environment": self.environment,
        }
        return {title: build() for title, build in builders.items()}

    def select(self, sparql: str) -> list[tuple[Any, ...]]:
        """Return the distinct rows of a query about this run."""
        stream = self.store.stream(sparql.replace("$run", f"<{self.info.iri}>"), sync=False)
        return [] if isinstance(stream, bool) else list(dict.fromkeys(stream))

    def place(self, iri: str | None) -> str:
        """Return a section of the run as text: `training 3`."""
        location = Location.from_text(unquote(str(iri or "").removeprefix(f"{self.info.iri}/")))
        indices = [str(index) for index in (location.epoch, location.batch) if index is not None]
        return " ".join([location.stage_location, *indices])

    def stages(self) -> Answer:
        """Return a row per stage or step, with its most specific kind."""
        columns = ["stage", "kind", "status", "sections", "seconds", "error"]
        rows: dict[str, tuple[Any, ...]] = {}
        for at, kind, status, seconds, error, message, sections in self.select(STAGES):
            if at in rows and kind == GENERIC_KIND:
                continue
            failure = ": ".join(part for part in (error, message) if part) or None
            rows[at] = (self.place(at), kind or "step", status or self.info.status, sections or None, seconds, failure)
        return Answer(columns, list(rows.values()))

    def hyperparameters(self) -> Answer:
        rows = [(self.place(at), name, value) for at, name, value in self.select(PARAMETERS)]
        return Answer(["stage", "name", "value"], rows)

    def measures(self) -> Answer:
        """Return a row per section and a column per measure; of repeated measurements, the last.

        Validations with numbers of their own, such as those at steps, have the epoch that they validated.
        """
        measured = self.select(MEASURES)
        table: dict[tuple[str, int | None], dict[str, Any]] = {(at, index): {} for at, index, *_ in measured}
        for at, index, _, name, value, _ in sorted(measured, key=lambda row: natural_key(row[2])):
            table[at, index][name] = value
        names = list(dict.fromkeys(name for row in table.values() for name in row))
        rows = [(self.place(at), index, *map(row.get, names)) for (at, index), row in table.items()]
        validated = {(at, index): epoch for at, index, _, _, _, epoch in measured}
        if all(epoch in (None, index) for (_, index), epoch in validated.items()):
            return Answer(["stage", "section", *names], rows)
        epochs = [validated[key] for key in table]
        rows = [(*row[:2], epoch, *row[2:]) for row, epoch in zip(rows, epochs, strict=True)]
        return Answer(["stage", "section", "of epoch", *names], rows)

    def adaptations(self) -> Answer:
        columns = ["during", "hyperparameter", "from", "to", "technique", "reason", "by"]
        return Answer(columns, [(self.place(during), *rest) for during, *rest in self.select(ADAPTATIONS)])

    def datasets(self) -> Answer:
        """Return a row per dataset and stage that used or made it; data with several names is one dataset."""
        roles: dict[tuple[str, str], list[str]] = {}
        for at, data, role in self.select(ROLES):
            roles.setdefault((at, data), []).append(str(role).removesuffix(" role"))
        rows = [
            (names, f"{did} {self.place(at)}", role, size, sha256, path)
            for names, data, at, did, size, sha256, path in _with_all_names(self.select(DATASETS))
            for role in (roles.get((at, data), [None]) if did == "used by" else [None])
        ]
        return Answer(["dataset", "where", "role", "bytes", "sha256", "path"], rows)

    def models(self) -> Answer:
        """Return a row per model and file, with size and digest of this file."""
        columns = ["model", "made by", "layers", "parameters", "bytes", "sha256", "path"]
        contents: dict[tuple[Any, Any], list[tuple[Any, Any]]] = {}
        for model, path, size, sha256 in self.select(MODEL_FILES):
            contents.setdefault((model, path), []).append((size, sha256))
        rows = []
        for model, name, by, layers, parameters, size, sha256, path in self.select(MODELS):
            files = contents.get((model, path), [])
            content = files[0] if len(files) == 1 else (size, sha256)
            rows.append((name, self.place(by), layers, parameters, *content, path))
        return Answer(columns, rows)

    def environment(self) -> Answer:
        """Return the environment of the run; values that differ between writers are joined."""
        values: dict[str, list[Any]] = {}
        for key, value in self.select(ENVIRONMENT):
            name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", key.name).lower().removeprefix("has ")
            values.setdefault(name, []).append(value.strip() if isinstance(value, str) else value)
        rows = [(name, items[0] if len(items) == 1 else ", ".join(map(str, items))) for name, items in values.items()]
        return Answer(["name", "value"], rows)


def _with_all_names(rows: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of `DATASETS` with all names of their data first, and one row for data with several names.

    A journal refers to data by its content. Of data of one content that a run made under several names, it does not
    say under which of them a stage used it.
    """
    products: dict[Any, dict[str, None]] = {}
    for _, name, _, did, _, sha256, _ in rows:
        if did == "made by" and sha256:
            products.setdefault(sha256, {})[str(name)] = None
    own = {data for data, _, _, did, *_ in rows if did == "made by"}
    names: dict[tuple[Any, ...], dict[str, None]] = {}
    for data, name, at, did, size, sha256, path in rows:
        aliases = products.get(sha256, {}) if did == "used by" and data in own else {}
        names.setdefault((data, at, did, size, sha256, path), {}).update({**aliases, str(name): None})
    for facts, aliases in names.items():
        yield ", ".join(aliases), *facts
