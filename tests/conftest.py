"""What all tests share: hypothesis draws the same examples in every run."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None, print_blob=False)
settings.load_profile("same")
