"""Drafts of technical documentation: statements with their sources, and every gap marked."""

from __future__ import annotations

import io
import re
from pathlib import Path

import docx
import pytest
from web.viewer.homes import MARKUP, record_flowers, record_hostile

import provml
from provml.store.exporting import Exported


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("annex") / "home"
    record_flowers(home)
    record_hostile(home)
    return home


def draft(home: Path, run: str, fmt: str) -> tuple[Exported, bytes]:
    buffer = io.BytesIO()
    with provml.open(home) as store:
        result = store.export_as(run, buffer, fmt)
    return result, buffer.getvalue()


def test_all_points_of_the_annex_are_there_and_gaps_are_marked(home: Path):
    result, data = draft(home, "tuesday", "annex-iv")
    text = data.decode()
    headings = re.findall(r"^## (\d)", text, re.M)
    assert sorted(set(headings)) == list("123456789")
    assert text.count("GAP:") == len(result.gaps) > 20
    assert f"{len(result.gaps)} gaps" in text


def test_each_statement_has_a_source_that_the_graph_describes(home: Path):
    _, data = draft(home, "tuesday", "annex-iv")
    rows = re.findall(r"^\| (.+?) \| `(\S+)` \|$", data.decode(), re.M)
    sources = {source for _, source in rows if source.startswith(("http", "urn"))}
    assert len(rows) > 15
    with provml.open(home) as store:
        for source in sources:
            assert store.query(f"ASK {{ <{source}> ?p ?o }}"), source
    statements = " ".join(statement for statement, _ in rows)
    assert "accuracy 0.9 on test images" in statements
    assert "learning\\_rate changed from 0.2 to 0.05" in statements
    assert "made by gray-scale" in statements


def test_a_failed_run_says_so(home: Path):
    result, data = draft(home, "wednesday", "annex-iv")
    assert any("did not finish (FAILED)" in gap for gap in result.gaps)
    assert "No evaluation is recorded." in data.decode()


def test_html_and_word_have_the_same_statements(home: Path):
    for run in ("tuesday", "h1", "h2"):
        result, markdown = draft(home, run, "annex-iv")
        _, page = draft(home, run, "annex-iv-html")
        assert page.decode().count("GAP: ") == len(result.gaps)
        assert MARKUP not in page.decode()
        _, data = draft(home, run, "annex-iv-docx")
        document = docx.Document(io.BytesIO(data))
        gaps = [paragraph.text for paragraph in document.paragraphs if paragraph.text.startswith("GAP: ")]
        expected = ["".join(c for c in gap if c >= " ") for gap in result.gaps]  # XML has no control characters
        assert [gap.removeprefix("GAP: ") for gap in gaps] == expected
        rows = sum(len(table.rows) - 1 for table in document.tables[1:])
        assert rows == result.count
        assert markdown
