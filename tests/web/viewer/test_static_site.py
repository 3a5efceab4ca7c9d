"""The viewer as a site of files: all links lead to files of the site, and nothing needs a server."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from click.testing import CliRunner

from provml.cli import main
from web.viewer.homes import record_flowers, record_hostile


class Addresses(HTMLParser):
    """The addresses that a page refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.forms = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src")]
        self.forms += tag == "form" and dict(attrs).get("method") == "post"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("site") / "home"
    record_flowers(home)
    return home


def export(home: Path, *arguments: str) -> str:
    result = CliRunner().invoke(main, ["export", "--home", str(home), *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def check_links(site: Path) -> int:
    """Check that all links of all pages lead to files of the site; return the number of links."""
    count = 0
    for path in site.glob("*.html"):
        page = Addresses(path.read_text(encoding="utf-8"))
        assert page.forms == 0, path.name
        for address in page.addresses:
            parts = urlsplit(address)
            assert not parts.scheme, f"{path.name}: {address}"
            assert not parts.netloc, f"{path.name}: {address}"
            target = site / unquote(parts.path) if parts.path else path
            assert target.is_file(), f"{path.name}: {address}"
            count += 1
    return count


def test_the_site_of_a_home_has_all_pages_and_no_broken_link(home: Path, tmp_path: Path):
    site = tmp_path / "site"
    output = export(home, "--site", str(site))
    assert "index.html" in output
    assert check_links(site) > 100
    names = {path.name for path in site.iterdir()}
    assert {"index.html", "models.html", "data.html", "validation.html", "compare.html", "questions.html"} <= names
    assert "learning_rate" in (site / "dataflow.html").read_text(encoding="utf-8")
    assert {"run-monday.html", "run-tuesday-epochs.html", "run-tuesday-validation.html"} <= names
    text = (site / "run-tuesday-validation.html").read_text(encoding="utf-8")
    assert "The graph" in text  # a site has no server that could check later
    assert "step decay" in (site / "question-adaptations-of-best.html").read_text(encoding="utf-8")
    assert str(home) not in (site / "index.html").read_text(encoding="utf-8")


def test_the_site_of_a_run_is_about_that_run(home: Path, tmp_path: Path):
    site = tmp_path / "site"
    export(home, "monday", "--site", str(site), "--no-validation")
    check_links(site)
    names = {path.name for path in site.iterdir()}
    assert "run-monday.html" in names
    assert "run-tuesday.html" not in names
    assert not any("validation" in name for name in names)
    assert "tuesday" not in (site / "models.html").read_text(encoding="utf-8")


def test_hostile_names_do_not_leave_the_folder(tmp_path: Path):
    record_hostile(tmp_path / "home")
    site = tmp_path / "out" / "site"
    site.parent.mkdir()
    export(tmp_path / "home", "--site", str(site), "--no-validation")
    check_links(site)
    assert [path.name for path in site.parent.iterdir()] == ["site"]


def test_a_folder_with_files_is_not_overwritten(home: Path, tmp_path: Path):
    (tmp_path / "mine.txt").write_text("mine")
    result = CliRunner().invoke(main, ["export", "--home", str(home), "--site", str(tmp_path)])
    assert result.exit_code != 0
    assert "not empty" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_site_is_no_rdf_file(home: Path, tmp_path: Path):
    arguments = ["export", "--home", str(home), "--site", str(tmp_path / "site"), "--format", "ttl"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "leave out" in result.output


def test_a_site_has_pages_of_nodes_and_terms_and_those_of_a_run_show_no_other_run(home: Path, tmp_path: Path):
    site, single = tmp_path / "site", tmp_path / "single"
    export(home, "--site", str(site), "--no-validation")
    export(home, "monday", "--site", str(single), "--no-validation")
    texts = {path.name: path.read_text(encoding="utf-8") for path in site.glob("*.html")}
    nodes = [text for name, text in texts.items() if name.startswith("node-")]
    assert any("run/tuesday/training</span>" in text for text in nodes)
    assert "3 here" in texts["term-provml~3a~TrainingExecution.html"]
    assert 'href="term-provml~3a~TrainingExecution.html"' in texts["ontology.html"]
    assert 'href="node-' in texts["models.html"]
    assert check_links(single) > 100
    others = [path.name for path in single.glob("*.html") if "tuesday" in path.read_text(encoding="utf-8")]
    assert others == []
    assert "some of them only" in (single / "question-who-did-what.html").read_text(encoding="utf-8")
