"""`python -m provml.cli`: the same as `provml`."""

from __future__ import annotations

from provml.cli import main

if __name__ == "__main__":
    main(prog_name="provml")
