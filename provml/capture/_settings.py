"""Types of the settings that captures accept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from provml.recording.run import Run
from provml.recording.settings import BaseSettings

Watch = Literal["epoch", "batch"]
"""How often a capture looks for changed hyperparameters."""


class CaptureSettings(BaseSettings, total=False):
    """Settings of every capture: those of a run, and these."""

    run: Run | str | None
    """The run to record into, or its id; a new run by default."""
    data: Mapping[str, Any] | None
    """Data by role: training, validation, test, model."""
    hyperparameters: Mapping[str, bool] | None
    """Hyperparameters to record (True) or to leave out (False), by name."""
    parameters: Mapping[str, Any] | None
    """More hyperparameters of each training, such as `vars(args)`; what the framework really uses has precedence."""
    watch: Watch
    """How often to look for changed hyperparameters."""
