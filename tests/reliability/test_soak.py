"""The short form of `make soak`: the same checks, with small numbers."""

from __future__ import annotations

from pathlib import Path

from reliability import mutations


def test_damage_to_any_file_of_a_home_is_noticed_or_changes_nothing(tmp_path: Path):
    wrong = {str(mutation): reason for mutation, reason in mutations.sweep(tmp_path, 12) if reason}
    assert wrong == {}
