"""Tools over the store of a home: what an assistant can ask, and, only if it is allowed, write.

An answer has a bounded number of rows and characters. What is cut is fetched with `offset`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from provml.answers import Answer, as_json
from provml.catalog import Catalog, Parameter, Query
from provml.errors import FilterError, InvalidParameter, ProvmlError, ServiceNotAllowed
from provml.journal.statuses import STATUSES

if TYPE_CHECKING:
    from provml.store import Store

MAX_ROWS = 500
DEFAULT_ROWS = 50
MAX_CHARS = 40_000
"""Characters of an answer: an assistant reads all of it."""
MAX_TEXT_CHARS = 2_000
"""Characters of one value."""
QUERY_SECONDS = 30.0
QUESTION_PREFIX = "ask_"
JSON_TYPES = {"integer": "integer", "double": "number", "boolean": "boolean"}
TERMS = """SELECT ?term ?kind ?label ?definition (GROUP_CONCAT(DISTINCT STR(?super); separator=" ") AS ?broader) WHERE {
  GRAPH <https://w3id.org/provml> {
    ?term a ?kind .
    VALUES ?kind { owl:Class owl:ObjectProperty owl:DatatypeProperty }
    OPTIONAL { ?term rdfs:label ?label }
    OPTIONAL { ?term skos:definition|prov:definition|rdfs:comment ?definition }
    OPTIONAL { ?term rdfs:subClassOf|rdfs:subPropertyOf ?super . FILTER(isIRI(?super)) }
    FILTER(isIRI(?term) && (CONTAINS(LCASE(STR(?term)), $text) || CONTAINS(LCASE(STR(?label)), $text)))
  }
} GROUP BY ?term ?kind ?label ?definition ORDER BY STRLEN(STR(?term)) ?term"""

Schema = dict[str, Any]


@dataclass(frozen=True)
class Tool:
    """A tool: its name, what it does, its parameters as JSON Schema, and the function that answers."""

    name: str
    description: str
    properties: Mapping[str, Schema]
    call: Callable[..., Any]
    required: Sequence[str] = ()
    writes: bool = False
    title: str = ""
    aliases: Mapping[str, str] = field(default_factory=dict)

    @property
    def input_schema(self) -> Schema:
        """The JSON Schema of the arguments."""
        return {
            "type": "object",
            "properties": dict(self.properties),
            "required": list(self.required),
            "additionalProperties": False,
        }


@dataclass(frozen=True)
class ToolSettings:
    """Limits of tools, and whether some of them write."""

    can_write: bool = False
    query_seconds: float = QUERY_SECONDS
    max_rows: int = MAX_ROWS


class Toolbox:
    """The tools over a store."""

    def __init__(
        self,
        store: Store,
        settings: ToolSettings | None = None,
        query: Callable[[str], Answer | bool] | None = None,
    ) -> None:
        self.store = store
        self.settings = settings or ToolSettings()
        self._query = query or self._query_store
        self._cached: tuple[Catalog, dict[str, Tool]] | None = None

    @property
    def tools(self) -> dict[str, Tool]:
        """The tools by name. They are made again when the questions of the user were read again."""
        catalog = self.store.catalog
        cached = self._cached
        if cached is None or cached[0] is not catalog:
            cached = self._cached = catalog, {tool.name: tool for tool in self._tools()}
        return cached[1]

    def call(self, name: str, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
        """Call a tool and return its answer, which is valid JSON; raise ProvmlError for what cannot be answered."""
        tool = self.tools.get(name)
        if tool is None:
            raise InvalidParameter("mcp", "tool", name, "", "List the tools first.", problem=f"no tool {name!r}")
        values = {key: value for key, value in (arguments or {}).items() if value is not None}
        _check(tool, values)
        limit = min(int(values.pop("limit", DEFAULT_ROWS)), self.settings.max_rows)
        offset = int(values.pop("offset", 0))
        result = tool.call(**values)
        if isinstance(result, Answer):
            return page(result, limit, offset)
        return result if isinstance(result, dict) else {"text": _cut(str(result), MAX_CHARS)}

    # ---- the tools

    def _tools(self) -> Iterable[Tool]:
        run = text("A run: its id, its name, a unique part of its id, or `latest`.")
        yield Tool(
            "list_runs",
            "List the recorded runs with their status, hyperparameters and latest measures, the latest run first. "
            "`where` is a condition on the columns, such as `learning_rate > 0.01 and optimizer == 'Adam'`.",
            {
                "where": text("A condition on the columns."),
                "sort": text("The column to sort by."),
                "descending": {"type": "boolean", "description": "Sort in descending order."},
                "status": {"type": "string", "enum": list(STATUSES)},
                "name": text("A pattern of names: * stands for any text."),
                **_paging(self.settings),
            },
            self.store.table,
            title="Runs",
        )
        yield Tool("show_run", "Show what a run did: its stages, settings, measures, data, models and environment.",
                   {"run": run}, self._show, ["run"], title="A run")  # fmt: skip
        yield Tool(
            "compare_runs",
            "Compare runs: hyperparameters, data, measures, adaptations, code, environment. Differences come first.",
            {"runs": {"type": "array", "items": run, "minItems": 2, "maxItems": 10}, **_paging(self.settings)},
            lambda runs: self.store.compare(*runs),
            ["runs"],
            title="Comparison",
        )
        yield Tool(
            "lineage",
            "Say what a model, a dataset or a run came from, or with `forward` what came of it, as a tree of text.",
            {
                "subject": text("A run, a model, a dataset or a step: by name, digest or IRI."),
                "forward": {"type": "boolean", "description": "What came of it."},
            },
            self._lineage,
            ["subject"],
            title="Lineage",
        )
        yield Tool("validate_run", "Check a run against the constraints of the ontology.", {"run": run},
                   self._validate, ["run"], title="Validation")  # fmt: skip
        yield Tool(
            "find_terms",
            "Find classes and properties of the ontology by a part of their name, with definitions. Use it before "
            "`sparql`.",
            {"text": text("A part of the name."), **_paging(self.settings)},
            self._terms,
            ["text"],
            title="Terms of the ontology",
        )
        yield Tool(
            "sparql",
            "Run a read-only SPARQL query over all runs. The prefixes prov, provml, provlake, mls, rdf, rdfs, owl, "
            f"xsd, skos and dcterms are declared. It is ended after {self.settings.query_seconds:g} s.",
            {"query": text("SELECT, ASK, CONSTRUCT or DESCRIBE."), **_paging(self.settings)},
            self._sparql,
            ["query"],
            title="SPARQL",
        )
        for name in self.store.catalog:
            yield self._question(self.store.catalog[name])
        if self.settings.can_write:
            yield from self._writing_tools(run)

    def _writing_tools(self, run: Schema) -> Iterable[Tool]:
        tags = {"type": "array", "items": {"type": "string"}, "minItems": 1}
        note = text("The note.")
        yield Tool("tag_run", "Give a run tags.", {"run": run, "tags": tags}, self._tag, ["run", "tags"], writes=True)
        yield Tool(
            "note_run", "Add a note to a run.", {"run": run, "note": note}, self._note, ["run", "note"], writes=True
        )

    def _question(self, query: Query) -> Tool:
        details = [query.summary.rstrip(".") + "."]
        if query.columns:
            details.append(f"Columns: {', '.join(query.columns)}.")
        if query.needs:
            details.append(f"Needs {query.needs}.")
        properties = {name: _schema(param) for name, param in query.params.items()}
        aliases = {}
        for key in ("limit", "offset"):  # the paging of all tools
            if key in properties:
                aliases[f"question_{key}"] = key
                properties[f"question_{key}"] = properties.pop(key)

        def ask(**values: Any) -> Answer:
            values = {aliases.get(key, key): value for key, value in values.items()}
            return self.store.ask(query, timeout=self.settings.query_seconds, **values)

        return Tool(
            QUESTION_PREFIX + query.name.replace("-", "_"),
            " ".join(details),
            {**properties, **_paging(self.settings)},
            ask,
            [name for name, param in query.params.items() if param.required],
            title=query.summary,
            aliases=aliases,
        )

    def _show(self, run: str) -> dict[str, Any]:
        from provml.store.run_tables import RunTables

        info = self.store.run(run)
        facts: dict[str, Any] = {
            "id": info.id, "name": info.name, "experiment": info.experiment, "model": info.model,
            "status": info.status_text, "started": info.started, "seconds": info.seconds, "error": info.error,
            "tags": list(info.tags), "notes": [note.text for note in info.notes], "parent": info.parent,
            "iri": str(info.iri),
        }  # fmt: skip
        parts = {name: page(part, DEFAULT_ROWS, 0) for name, part in RunTables(self.store, info).parts().items()}
        shown = {name: part for name, part in parts.items() if part["rows"]}
        return bounded({key: value for key, value in facts.items() if value} | shown)

    def _lineage(self, subject: str, *, forward: bool = False) -> str:
        from pathlib import Path

        if Path(subject).exists():  # an assistant must not learn what is on the disk of the service
            problem = "the name of a file on this machine is no subject"
            raise InvalidParameter("lineage", "subject", subject, "", "Pass a name or an IRI.", problem=problem)
        return self.store.lineage(subject, forward=forward).to_text(100)

    def _validate(self, run: str) -> dict[str, Any]:
        report = self.store.validate(self.store.run(run).id)
        return bounded({"conforms": report.conforms, "summary": report.summary, "report": str(report)})

    def _terms(self, text: str) -> Answer:
        answer = self.store.query(TERMS, bindings={"text": text.lower()}, timeout=self.settings.query_seconds)
        assert isinstance(answer, Answer)
        answer.note = "" if answer.rows else f"No term has {text!r} in its name or label. Try a shorter part of a word."
        return answer

    def _sparql(self, query: str) -> Answer | dict[str, Any]:
        answer = self._query(query)
        return {"boolean": answer} if isinstance(answer, bool) else answer

    def _query_store(self, query: str) -> Answer | bool:
        return self.store.query(query, timeout=self.settings.query_seconds)

    def _tag(self, run: str, tags: list[str]) -> dict[str, Any]:
        return {"run": (info := self.store.tag(run, *tags)).id, "tags": list(info.tags)}

    def _note(self, run: str, note: str) -> dict[str, Any]:
        info = self.store.note(run, note)
        return {"run": info.id, "notes": [item.text for item in info.notes]}


# ---- parameters


def text(description: str) -> Schema:
    """Return the schema of a text."""
    return {"type": "string", "description": description}


def _paging(settings: ToolSettings) -> dict[str, Schema]:
    most = settings.max_rows
    return {
        "limit": {"type": "integer", "minimum": 1, "maximum": most, "description": f"Rows, {DEFAULT_ROWS} by default."},
        "offset": {"type": "integer", "minimum": 0, "description": "Rows to skip: `next_offset` of the answer before."},
    }


def _schema(param: Parameter) -> Schema:
    """Return the schema of a parameter of a question."""
    schema: Schema = {"type": JSON_TYPES.get(param.type, "string")}
    if isinstance(param.min, (int, float)):
        schema["minimum"] = param.min
    if param.type == "dateTime":
        schema["format"] = "date-time"
    if param.multiple:
        schema = {"type": "array", "items": schema}
    notes = [param.help, f"Takes {param.expected}."]
    notes += [f"Default: {param.default}."] if param.default is not None and param.required is False else []
    notes += [f"Such as {param.example}."] if param.example is not None else []
    return schema | {"description": " ".join(filter(None, notes))}


_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,), "array": (list,),
}  # fmt: skip
_NAMES_OF_TYPES = {"string": "text", "integer": "a whole number", "number": "a number", "boolean": "true or false"}
_PLURALS = {"string": "texts", "integer": "whole numbers", "number": "numbers", "boolean": "true or false"}


def _check(tool: Tool, values: Mapping[str, Any]) -> None:
    """Raise InvalidParameter for arguments that the schema does not allow."""
    for name, value in values.items():
        schema = tool.properties.get(name)
        if schema is None:
            advice = f"It takes {', '.join(tool.properties) or 'no arguments'}."
            raise InvalidParameter(tool.name, name, value, "", advice)
        kind = schema["type"]
        is_valid = isinstance(value, _PYTHON_TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
        if is_valid and "minimum" in schema:
            is_valid = value >= schema["minimum"]
        if is_valid and kind == "array":
            items = _PYTHON_TYPES[schema["items"]["type"]]
            is_valid = all(isinstance(item, items) for item in value) and len(value) >= schema.get("minItems", 0)
        if not is_valid or value not in schema.get("enum", [value]):
            raise InvalidParameter(tool.name, name, value, _expected(schema), "See the schema of the tool.")
    for name in tool.required:
        if name not in values:
            problem = f"missing argument {name!r}"
            raise InvalidParameter(tool.name, name, None, "", "Pass it.", problem=problem)


def _expected(schema: Schema) -> str:
    """Return what a schema allows, in words."""
    if schema["type"] == "array":
        least = f", at least {schema['minItems']}" if "minItems" in schema else ""
        return f"a list of {_PLURALS[schema['items']['type']]}{least}"
    least = f" from {schema['minimum']} on" if "minimum" in schema else ""
    values = f", one of {', '.join(schema['enum'])}" if "enum" in schema else ""
    return f"{_NAMES_OF_TYPES[schema['type']]}{least}{values}"


# ---- answers


def page(answer: Answer, limit: int, offset: int) -> dict[str, Any]:
    """Return some rows of an answer with the number of all, as JSON has them."""
    rows: list[list[Any]] = []
    size = 0
    for row in answer.rows[offset : offset + limit]:
        cells = [_plain(cell) for cell in row]
        size += len(json.dumps(cells, ensure_ascii=False))
        if rows and size > MAX_CHARS:
            break
        rows.append(cells)
    end = offset + len(rows)
    result: dict[str, Any] = {"columns": list(answer.columns), "rows": rows, "total": len(answer.rows)}
    if end < len(answer.rows):
        result["next_offset"] = end
    return result | ({"note": answer.note} if answer.note else {})


def _plain(value: Any) -> Any:
    plain = json.loads(as_json(value))
    return _cut(plain, MAX_TEXT_CHARS) if isinstance(plain, str) else plain


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… [{len(text):,} characters]"


def bounded(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result without its largest tables if it is too long."""
    plain: dict[str, Any] = json.loads(as_json(result))
    for key, value in plain.items():
        if isinstance(value, str):
            plain[key] = _cut(value, MAX_CHARS // 2)
    while len(json.dumps(plain)) > MAX_CHARS:
        tables = [key for key, value in plain.items() if isinstance(value, dict) and value.get("rows")]
        if not tables:
            break
        largest = max(tables, key=lambda key: len(json.dumps(plain[key]["rows"])))
        rows = plain[largest]["rows"]
        plain[largest] = plain[largest] | {"rows": rows[: len(rows) // 2], "cut": True}
    return plain


def describe_error(error: ProvmlError) -> str:
    """Return the message of an error, for an assistant that can correct itself."""
    if isinstance(error, ServiceNotAllowed):  # an assistant cannot allow it
        return "The query uses SERVICE, which would call another machine. Remove SERVICE."
    return error.problem + ". " + error.advice if isinstance(error, FilterError) else str(error)
