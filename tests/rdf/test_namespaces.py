"""The table of namespaces: it is the only one, and its prefixes are those of the ontologies."""

from __future__ import annotations

import ast
from pathlib import Path

import provml
from provml.rdf import namespaces

PACKAGE = Path(provml.__file__).parent
EXEMPT = ("vocab", "model")
"""Generated code, and the layer below `rdf`, which writes out the few IRIs that it needs."""
NAMESPACES = {
    value for name, value in vars(namespaces).items() if name.isupper() and isinstance(value, str) and value[-1] in "#/"
}


def test_no_other_module_defines_a_namespace():
    copies = [
        (path.relative_to(PACKAGE).as_posix(), node.lineno, node.value)
        for path in PACKAGE.rglob("*.py")
        if path != Path(namespaces.__file__) and path.relative_to(PACKAGE).parts[0] not in EXEMPT
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in NAMESPACES
    ]
    assert copies == []


def test_each_prefix_is_the_lower_case_name_of_its_namespace():
    assert {name: getattr(namespaces, name.upper()) for name in namespaces.PREFIXES} == namespaces.PREFIXES
