"""`provml remove`: delete runs after a confirmation."""

from __future__ import annotations

from pathlib import Path

from .helpers import error_of, invoke, json_of, output_of


def test_remove_asks_for_confirmation(home: Path):
    declined = invoke(home, "remove", "flowers-1", text="n\n")
    assert declined.exit_code == 1
    assert "Delete run flowers-1 (flowers, FINISHED," in declined.stderr
    assert invoke(home, "remove", "flowers-1", text="").exit_code == 1
    assert (home / "runs" / "flowers-1").is_dir()
    assert output_of(home, "remove", "flowers-1", text="y\n").endswith("Deleted flowers-1\n")
    assert not (home / "runs" / "flowers-1").exists()
    assert "flowers-1" not in output_of(home, "export", "--all", "--format", "nt")
    assert output_of(home, "remove", "broken-1", "--yes") == "Deleted broken-1\n"
    assert output_of(home, "runs") == "No runs yet.\n"


def test_remove_deletes_either_all_named_runs_or_none(home: Path):
    assert "No run 'nope'" in error_of(home, "remove", "flowers-1", "nope", "-y")
    assert invoke(home, "remove", "flowers-1", "broken-1", text="y\nn\n").exit_code == 1
    assert len(json_of(home, "runs")) == 2
    assert output_of(home, "remove", "broken-1", "flo", "-y") == "Deleted broken-1\nDeleted flowers-1\n"
    assert output_of(home, "runs") == "No runs yet.\n"
