"""Docs cannot lie: their code runs, their tables are evaluated, their links lead somewhere."""

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

from provml import rdf
from provml.cli import main
from provml.values import IRI, Literal, Text

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "vocabulary"),
]
LINKED = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(path: Path) -> list[tuple[str, str]]:
    return re.findall(r"^```(\w+)\n(.*?)^```", path.read_text(), re.S | re.M)


EXTRAS = ("keras", "torch", "lightning", "transformers", "sklearn", "xgboost", "lightgbm")


def is_without(text: str) -> bool:
    """Whether code needs a framework that is not installed: captures are extras."""
    return any(find_spec(name) is None for name in re.findall(r"^(?:from|import) (\w+)", text, re.M) if name in EXTRAS)


# what frameworks say of each other: Keras's variables as arrays of numpy 1, Lightning on trees, on workers and on logs
@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning", "ignore:.*does not have many workers:UserWarning")
@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: p.name)
def test_the_code_on_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, object] = {}
    for language, text in blocks(page):
        if language in ("turtle", "yaml") and (named := re.match(r"# (\S+\.(?:ttl|yaml))\n", text)):
            (tmp_path / named[1]).write_text(text)
        elif language == "python" and not is_without(text):
            exec(compile(text, str(page), "exec"), names)
        elif language == "pycon":
            test = doctest.DocTestParser().get_doctest(text, names, page.name, str(page), 0)
            assert doctest.DocTestRunner().run(test).failed == 0
        elif language == "sh" and text.startswith("provml "):
            for line in text.strip().splitlines():
                subprocess.run(
                    [sys.executable, "-m", "provml.cli", *shlex.split(line)[1:]], check=True, capture_output=True
                )


@pytest.fixture(autouse=True)
def _the_script_ends() -> Iterator[None]:
    """Scripts in the way of dfa-lib-python end their run with the process; a page ends here."""
    yield
    compat = sys.modules.get("provml.compat.dfa_lib_python.execution")
    for executions in getattr(compat, "_all", {}).values():
        for one in executions.values():
            one.finish()


def test_the_triples_that_the_readme_shows_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    parts = blocks(ROOT / "README.md")
    code = next(text for language, text in parts if language == "python" and "print(ntriples" in text)
    shown = next(text for language, text in parts if language == "text")
    exec(code, {})
    written = capsys.readouterr().out
    assert shown.strip()
    for line in shown.strip().splitlines():
        assert line in written


class Colour(Enum):
    RED = "red"


KNOWN = {
    "Colour": Colour, "Decimal": Decimal, "IRI": IRI, "Literal": Literal, "Path": Path, "Text": Text, "UTC": UTC,
    "XSD": rdf.XSD, "date": date, "datetime": datetime, "np": np, "time": time, "timedelta": timedelta,
}  # fmt: skip


def value_rows() -> list[tuple[str, str, str]]:
    table = (ROOT / "docs" / "values.md").read_text().split("## What a field")[0]
    return re.findall(r"^\| `(.+?)`(?: \([^|]*\))? \| `(.+?)` \| `(.+?)` \|$", table, re.M)


def test_the_table_of_values_is_read():
    assert len(value_rows()) >= 20


@pytest.mark.parametrize(("python", "written", "back"), value_rows())
def test_the_table_of_values_is_true(python: str, written: str, back: str):
    term = rdf.term(eval(python, dict(KNOWN)))
    expected = re.sub(r"\^\^xsd:(\w+)", rf"^^<{rdf.XSD}\1>", written)
    assert str(term) == expected
    read = rdf.value(term)
    wanted = eval(back, dict(KNOWN))
    assert type(read) is type(wanted)
    assert read == wanted or (read != read and wanted != wanted)


@pytest.mark.parametrize("page", LINKED, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path):
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
    page = (ROOT / "docs" / "cli.md").read_text()
    for name in main.commands:
        assert f"## provml {name}" in page


@pytest.mark.parametrize("page", LINKED, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_page_has_an_empty_heading(page: Path):
    assert not re.search(r"^#+\s*$", page.read_text(), re.M)
