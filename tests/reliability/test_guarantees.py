"""The page of guarantees names tests and checks that exist."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PAGE = (TESTS.parent / "docs" / "explanation" / "guarantees.md").read_text(encoding="utf-8")


def test_every_test_of_the_page_exists():
    sources = "".join(path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    names = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(names) > 10
    assert {name for name in names if f"def {name}(" not in sources} == set()
    assert {name for name in re.findall(r"`(tests/[\w/]+\.\w+)`", PAGE) if not (TESTS.parent / name).exists()} == set()


def test_the_numbers_of_the_soak_test_are_those_of_the_page():
    source = (TESTS / "reliability" / "soak.py").read_text(encoding="utf-8")
    checks = dict(re.findall(r'^    "([\w ]+)": Check\(\w+, ([\d_]+)', source, re.MULTILINE))
    rows = PAGE.partition("| check | long form")[2].partition("\n\n")[0]
    table = dict(re.findall(r"^\| ([\w ]+) \| ([\d,]+) \|", rows, re.MULTILINE))
    shared = checks.keys() & table.keys()
    assert len(shared) >= 8
    assert {name: checks[name].replace("_", "") for name in shared} == {
        name: table[name].replace(",", "") for name in shared
    }
