"""The code on the pages of the docs runs, their tables are evaluated, and their links lead to existing targets."""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import provml
from provml import rdf
from provml.cli import main
from provml.model.values import IRI, Literal, Text

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if "vocabulary" not in path.parts),
]
LINKED = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(path: Path) -> list[tuple[str, str]]:
    return re.findall(r"^```(\w+)\n(.*?)^```", path.read_text(), re.S | re.M)


def _param(page: Path) -> object:
    """Return a page as a parameter; pages that load PyTorch run in the process that has loaded it already."""
    marks = [pytest.mark.xdist_group("torch")] if page.parent.name == "frameworks" else []
    return pytest.param(page, id=page.relative_to(ROOT).as_posix(), marks=marks)


FRAMEWORKS = ("keras", "torch", "lightning", "transformers", "sklearn", "xgboost", "lightgbm")


def missing_framework(text: str) -> str | None:
    """Return a framework that the code imports and that is not installed."""
    imported = re.findall(r"^(?:from|import) (\w+)", text, re.M)
    return next((name for name in imported if name in FRAMEWORKS and find_spec(name) is None), None)


@pytest.fixture
def names() -> Iterator[dict[str, object]]:
    """Yield a dict for the names of a page's code, and close the stores that the page leaves open."""
    values: dict[str, object] = {}
    yield values
    for value in values.values():
        if isinstance(value, provml.Store):
            value.close()


# warnings of the frameworks about each other: Keras about numpy 1, Lightning about trees and workers
@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning", "ignore:.*does not have many workers:UserWarning")
@pytest.mark.parametrize("page", [_param(page) for page in PAGES if blocks(page)])
def test_the_code_on_a_page_runs(
    page: Path, names: dict[str, object], isolated_home: Path, monkeypatch: pytest.MonkeyPatch
):
    # pytest gives the folder of a passed test to the next one, in which a store of this page may still be open
    folder = isolated_home / page.relative_to(ROOT).with_suffix("")
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    for language, text in blocks(page):
        if language in ("turtle", "yaml") and (named := re.match(r"# (\S+\.(?:ttl|yaml))\n", text)):
            (folder / named[1]).write_text(text)
        elif language == "python":
            if missing := missing_framework(text):
                pytest.skip(f"{missing} is not installed")
            exec(compile(text, str(page), "exec"), names)
        elif language == "pycon":
            test = doctest.DocTestParser().get_doctest(text, names, page.name, str(page), 0)
            test.globs = names  # it has a copy, whose stores nobody would close
            assert doctest.DocTestRunner().run(test, clear_globs=False).failed == 0
        elif language == "sh" and text.startswith("provml "):
            for line in text.strip().splitlines():
                subprocess.run(
                    [sys.executable, "-m", "provml.cli", *shlex.split(line)[1:]], check=True, capture_output=True
                )


@pytest.fixture(autouse=True)
def _finish_compat_runs() -> Iterator[None]:
    """Finish the runs of dfa-lib-python scripts, which end with their process; a page has no process of its own."""
    yield
    if compat := sys.modules.get("provml.compat.dfa_lib_python._execution"):
        for executions in list(compat._executions.values()):
            for execution in executions.values():
                execution.finish()


@pytest.mark.usefixtures("isolated_home")
def test_the_readme_shows_twelve_lines_of_code_with_their_output(capsys: pytest.CaptureFixture[str]):
    parts = blocks(ROOT / "README.md")
    code = next(text for language, text in parts if language == "python")
    output = next(text for language, text in parts if language == "text")
    assert len([line for line in code.splitlines() if line.strip()]) == 12
    exec(code, {})
    assert capsys.readouterr().out.rstrip() == output.rstrip()


class Colour(Enum):
    RED = "red"


NAMES = {
    "Colour": Colour, "Decimal": Decimal, "IRI": IRI, "Literal": Literal, "Path": Path, "Text": Text, "UTC": UTC,
    "XSD": rdf.XSD, "date": date, "datetime": datetime, "np": np, "time": time, "timedelta": timedelta,
}  # fmt: skip


def value_rows() -> list[tuple[str, str, str]]:
    table = (ROOT / "docs" / "reference" / "values.md").read_text().split("## Fields with a range")[0]
    return re.findall(r"^\| `(.+?)`(?: \([^|]*\))? \| `(.+?)` \| `(.+?)` \|$", table, re.M)


def test_the_table_of_values_has_rows():
    assert len(value_rows()) >= 20


@pytest.mark.parametrize(("python", "written", "back"), value_rows())
def test_the_table_of_values_is_true(python: str, written: str, back: str):
    term = rdf.term(eval(python, dict(NAMES)))
    expected = re.sub(r"\^\^xsd:(\w+)", rf"^^<{rdf.XSD}\1>", written)
    assert str(term) == expected
    read = rdf.value(term)
    wanted = eval(back, dict(NAMES))
    assert type(read) is type(wanted)
    assert read == wanted or (read != read and wanted != wanted)


@pytest.mark.parametrize("page", LINKED, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_to_existing_targets(page: Path):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        there = (page.parent / file) if file else page
        assert there.exists(), f"{page.name} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", there.read_text(), re.M)
            slugs = {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
            assert anchor in slugs, f"{page.name} links to {target}"


def test_every_command_is_on_the_page_of_commands():
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    for name in main.load_commands():
        assert f"## provml {name}" in page


@pytest.mark.parametrize("page", LINKED, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_page_has_an_empty_heading(page: Path):
    assert not re.search(r"^#+\s*$", page.read_text(), re.M)
