"""docs/reference/api.md: the public names of provml with their signatures and docstrings.

Members are found by inspection. Captures are read as source, because their frameworks need not be installed.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any, is_typeddict

PACKAGE = Path(__file__).parents[1] / "provml"
INTRODUCTION = """
# Python API

What you import from `provml`. Names that begin with an underscore, and names that are not on this page, may change
without notice. The typed classes of `provml.vocab` are in the [vocabulary](vocabulary/index.md),
the errors in [errors](errors.md).
"""
SECTIONS: dict[str, list[str]] = {
    "Record": [
        "provml.record",
        "provml.not_secret",
        "provml.Run",
        "provml.recording.stages.Step",
        "provml.recording.stages.Stage",
        "provml.recording.stages.Epoch",
        "provml.recording.batches.Batch",
        "provml.Data",
    ],
    "Read and query": [
        "provml.open_store",
        "provml.Store",
        "provml.store.RunInfo",
        "provml.store.compare.RunComparison",
        "provml.store.Annotation",
        "provml.store.Artifact",
        "provml.Answer",
        "provml.answers.RowStream",
        "provml.drawing.lineage.Lineage",
        "provml.store.run_report.RunReport",
        "provml.catalog.Catalog",
    ],
    "Lake": [
        "provml.lake.build",
        "provml.lake.update",
        "provml.lake.LakeReport",
        "provml.lake.open_lake",
        "provml.lake.Lake",
    ],
    "Import": [
        "provml.exchange.read",
        "provml.exchange.ImportReport",
        "provml.exchange.ImportedRun",
        "provml.exchange.bundle",
        "provml.exchange.merge",
    ],
    "Export": ["provml.store.exporting.Exported"],
    "Validate": ["provml.validation.validate", "provml.Report"],
    "Typed nodes and RDF": [
        "provml.Thing",
        "provml.IRI",
        "provml.Text",
        "provml.Literal",
        "provml.rdf.ntriples",
        "provml.rdf.nquads",
        "provml.rdf.read",
        "provml.rdf.term",
        "provml.rdf.value",
    ],
}
CAPTURES = {
    "keras": "keras",
    "torch": "pytorch",
    "lightning": "lightning",
    "transformers": "transformers",
    "sklearn": "scikit-learn",
    "xgboost": "xgboost",
    "lightgbm": "lightgbm",
}


def api_page(head: str) -> str:
    """Return the whole page."""
    parts = [head + INTRODUCTION]
    for title, names in SECTIONS.items():
        parts.append(f"## {title}\n")
        for name in names:
            parts += _entry(name, _find(name))
    return "\n".join([*parts, *_captures()])


def _find(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def _entry(name: str, item: Any) -> list[str]:
    if not inspect.isclass(item):
        return [_directive("function", name + _signature(item), item), *_settings(item)]
    parts = [f"### {item.__name__}\n", _directive("class", name, item)]
    for member, raw in _members(item):
        function = raw.__func__ if isinstance(raw, (classmethod, staticmethod)) else raw
        if isinstance(function, FunctionType):
            kind = {classmethod: "classmethod", staticmethod: "staticmethod"}.get(type(raw), "method")
            parts.append(_directive(kind, f"{name}.{member}{_signature(function, is_bound=True)}", function))
        elif isinstance(raw, property):
            parts.append(_directive("property", f"{name}.{member}", raw.fget))
    fields = [field for field in getattr(item, "__dataclass_fields__", {}) if not field.startswith("_")]
    if fields:
        parts.append(f"Fields: {', '.join(f'`{field}`' for field in fields)}.\n")
    return parts


def _members(item: type) -> Iterator[tuple[str, Any]]:
    """Yield the public members of a class in the order of definition, its own before inherited ones."""
    names: set[str] = set()
    for cls in item.__mro__:
        if not cls.__module__.startswith("provml"):
            continue
        for name, raw in vars(cls).items():
            if not name.startswith("_") and name not in names:
                names.add(name)
                yield name, raw


def _directive(kind: str, signature: str, item: Any) -> str:
    text = (inspect.getdoc(item) or "").strip()
    return f"```{{py:{kind}}} {signature}\n{text}\n```\n"


def _signature(function: Any, *, is_bound: bool = False) -> str:
    """Return a signature as it is written in the source, the same in every version of Python."""
    signature = inspect.signature(function)
    parts = []
    is_keyword = False
    for position, param in enumerate(signature.parameters.values()):
        if is_bound and position == 0:
            continue
        if param.kind is param.KEYWORD_ONLY and not is_keyword:
            parts.append("*")
        is_keyword = is_keyword or param.kind in (param.KEYWORD_ONLY, param.VAR_POSITIONAL)
        star = {param.VAR_POSITIONAL: "*", param.VAR_KEYWORD: "**"}.get(param.kind, "")
        text = star + param.name
        if param.annotation is not param.empty:
            text += f": {_annotation(param.annotation)}"
        if param.default is not param.empty:
            text += f" = {_default(param.default)}" if param.annotation is not param.empty else f"={param.default!r}"
        parts.append(text)
    returned = (
        f" -> {_annotation(signature.return_annotation)}" if signature.return_annotation is not signature.empty else ""
    )
    return f"({', '.join(parts)}){returned}"


def _annotation(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\s+", " ", text)


def _default(value: Any) -> str:
    text = repr(value)
    return "..." if " at 0x" in text or text.startswith("<") else text


def _settings(function: Any) -> list[str]:
    """Return a table of the settings that a function takes as `**settings: Unpack[...]`."""
    for param in inspect.signature(function).parameters.values():
        typed = re.fullmatch(r"Unpack\[(\w+)\]", str(param.annotation)) if param.kind is param.VAR_KEYWORD else None
        settings = typed and getattr(inspect.getmodule(function), typed[1], None)
        if settings and is_typeddict(settings):
            rows = [f"| `{name}` | `{_escaped(kind)}` | {text} |" for name, kind, text in _keys(settings)]
            return ["Settings:\n", "| name | type | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n"]
    return []


def _keys(settings: Any) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and docstring of each key of a TypedDict, its bases first, as they are in the source."""
    tree = ast.parse(inspect.getsource(inspect.getmodule(settings)))
    choices = {ast.unparse(node.targets[0]): _choices(node.value) for node in tree.body if isinstance(node, ast.Assign)}
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    pending = [classes[settings.__name__]]
    order: list[ast.ClassDef] = []
    while pending:
        cls = pending.pop()
        order.insert(0, cls)
        pending += [classes[base.id] for base in cls.bases if isinstance(base, ast.Name) and base.id in classes]
    for cls in order:
        for node, following in zip(cls.body, [*cls.body[1:], None], strict=True):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                is_text = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
                kind = ast.unparse(node.annotation)
                yield node.target.id, choices.get(kind) or kind, following.value.value if is_text else ""


def _choices(node: ast.expr) -> str:
    """Return the values of `Literal[...]`; empty for any other type."""
    if not isinstance(node, ast.Subscript) or ast.unparse(node.value) != "Literal":
        return ""
    return " | ".join(map(ast.unparse, node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]))


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _captures() -> list[str]:
    rows = []
    for module, page in CAPTURES.items():
        path = PACKAGE / "capture" / f"{module}.py"
        path = path if path.is_file() else PACKAGE / "capture" / module / "__init__.py"
        tree = ast.parse(path.read_text(encoding="utf-8"))
        cls = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Capture")
        first = (ast.get_docstring(cls) or "").partition("\n")[0]
        rows.append(f"| `provml.capture.{module}.Capture` | {first} | [page](../how-to/frameworks/{page}.md) |")
    text = "\n".join(rows)
    return [
        "## Captures\n",
        "All captures take [the same arguments](../how-to/frameworks/index.md#arguments).\n",
        f"| class | what it records | how-to |\n|---|---|---|\n{text}\n",
    ]
