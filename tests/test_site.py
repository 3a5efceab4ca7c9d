"""The documentation site builds without warnings, fetches nothing, and reads in short paragraphs."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
MAX_WORDS = 80
pytestmark = pytest.mark.xdist_group("site")  # one site for all


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-j", "2", "-b", "html"]
    cache = str(tmp_path_factory.mktemp("doctrees"))
    done = subprocess.run(
        [*command, "-d", cache, str(ROOT / "docs"), str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_has_its_four_parts_in_order(site: Path):
    menu = (site / "index.html").read_text()
    places = [menu.index(f'href="{part}/index.html"') for part in ("tutorial", "how-to", "reference", "explanation")]
    assert places == sorted(places)


def test_the_site_fetches_nothing_from_other_hosts(site: Path):
    for page in site.rglob("*.html"):
        loaded = re.findall(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"([^\"]*)\"", page.read_text())
        loaded += re.findall(r"<link\b[^>]*\bhref=\"([^\"]*)\"", page.read_text())
        remote = [address for address in loaded if re.match(r"(https?:)?//", address)]
        assert not remote, f"{page.relative_to(site)} loads {remote}"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(\s*[\"']?(https?:)?//|@import\s+[\"'](https?:)?//", sheet.read_text()), sheet.name


def test_the_site_can_be_searched_offline(site: Path):
    assert "Search.setIndex" in (site / "searchindex.js").read_text()[:100]


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs and list items of a Markdown text, without code, tables, headings and comments."""
    text = re.sub(r"^(```+).*?^\1\s*$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text)
    return [block.strip() for block in blocks if block.strip() and not block.lstrip().startswith(("|", "#"))]


def word_count(paragraph: str) -> int:
    """Count words; a name in code font is one word, and a list of such names counts as names, not as prose."""
    prose = re.sub(r"`[^`]*`(?:,\s*`[^`]*`)+", "names", paragraph)
    prose = re.sub(r"`[^`]*`", "code", prose)
    prose = re.sub(r"\]\([^)]*\)", "]", prose)
    return len(re.findall(r"[\w'’-]+", prose))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_paragraph_is_long(page: Path):
    long = [text[:60] for text in paragraphs(page.read_text()) if word_count(text) > MAX_WORDS]
    assert not long, f"{page.relative_to(ROOT)} has paragraphs of more than {MAX_WORDS} words: {long}"


WORDS = re.compile(
    r"\b(anew|mend(?:ed|s)?|slate|kin|mould|glance|lift(?:ed|er|s)|told|so many|where that is to be had|promise[sd]?"
    r"|the house|rooms?|floors?)\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_use_words_of_the_field(page: Path):
    text = re.sub(r"^(```+).*?^\1\s*$|`[^`]*`", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    words = {match[0].lower() for match in WORDS.finditer(text)}
    assert not words, f"{page.relative_to(ROOT)} uses {sorted(words)}"


def test_the_development_group_needs_no_framework():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = project["dependency-groups"]
    dev = [entry for entry in groups["dev"] if isinstance(entry, str)] + groups["lint"] + groups["docs"]
    names = {re.split(r"[<>=\[ ]", entry)[0].lower() for entry in dev}
    frameworks = {re.split(r"[<>=\[ ]", entry)[0].lower() for entry in groups["frameworks"]}
    assert not names & frameworks
    assert project["project"]["optional-dependencies"]["docs"] == groups["docs"]
