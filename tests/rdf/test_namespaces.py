"""The table of namespaces: it is the only one, and its prefixes are those of the ontologies."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import provml
from provml.rdf import namespaces

PACKAGE = Path(provml.__file__).parent
EXEMPT = ("vocab", "model")
"""Generated code, and the layer below `rdf`, which writes out the few IRIs that it needs."""
NAMESPACES = {
    value for name, value in vars(namespaces).items() if name.isupper() and isinstance(value, str) and value[-1] in "#/"
}


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and value of every string of a module that is not a docstring or the description of a constant."""
    descriptions = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in descriptions:
            yield node.lineno, node.value


def test_no_other_module_writes_a_namespace_out():
    copies = [
        (path.relative_to(PACKAGE).as_posix(), line, text)
        for path in PACKAGE.rglob("*.py")
        if path != Path(namespaces.__file__) and path.relative_to(PACKAGE).parts[0] not in EXEMPT
        for line, text in texts(ast.parse(path.read_text(encoding="utf-8")))
        if any(namespace in text for namespace in NAMESPACES)
    ]
    assert copies == []


def test_a_namespace_inside_a_query_is_found():
    query = ast.parse(f'"""The namespace {namespaces.SH}."""\nQUERY = "PREFIX sh: <{namespaces.SH}> ASK {{}}"')
    assert [line for line, text in texts(query) if namespaces.SH in text] == [2]


def test_each_prefix_is_the_lower_case_name_of_its_namespace():
    assert {name: getattr(namespaces, name.upper()) for name in namespaces.PREFIXES} == namespaces.PREFIXES
