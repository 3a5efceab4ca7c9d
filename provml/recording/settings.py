"""Types of the settings that `provml.record`, captures and sections accept."""

from __future__ import annotations

import os
from typing import Literal, TypedDict, get_args

from provml.journal.run_files import HasId

Detail = Literal["epoch", "batch"]
"""The smallest section that is recorded."""
DataKind = Literal["dataset", "features", "model", "file"]
"""What a piece of data is."""
DATA_KINDS = get_args(DataKind)
StepKind = Literal[
    "training", "validation", "evaluation", "preparation", "filter", "curation", "split", "extraction", "step"
]
"""What a recorded function does."""


class ShippingSettings(TypedDict, total=False):
    """How a run gets to a service, if its home is the URL of one."""

    token: str
    """The service's token for writing; $PROVML_TOKEN by default."""
    spool: str | os.PathLike[str]
    """Directory of the journals here, or "memory"; $PROVML_SPOOL or ./.provml by default."""
    queue: int
    """Number of events that are sent together."""
    seconds: float
    """Longest time that an event waits for others."""
    online: bool
    """False: nothing is sent while the run is recorded; `provml ship` sends it later."""
    wait: float
    """Seconds that the end of a run waits for a service that answers."""


class BaseSettings(TypedDict, total=False):
    """Settings that runs and captures share."""

    model: str
    """Name of the model; the name of the run by default."""
    home: str | os.PathLike[str] | None
    """Directory of the runs, or the URL of a service; $PROVML_HOME or ./.provml by default."""
    shipping: ShippingSettings | None
    """How a run gets to the service, if the home is a URL."""
    detail: Detail
    """Record batches, or only epochs."""
    every: int
    """Record every n-th batch of a section."""
    strict: bool
    """Raise capture errors instead of counting them."""
    workflow: str | os.PathLike[str] | None
    """Path of a workflow file that plans the run."""
    by: str
    """Name of the person who runs it."""
    study: str
    """Name of the study that the run belongs to."""
    task: str
    """Name of the learning task."""
    capture_environment: bool
    """Record the machine, the process, the software and the seeds."""
    capture_code: bool
    """Store the patch of changes that were not committed, and the list of installed packages, as artifacts."""
    energy: bool | str
    """Record energy: True, "counters" (RAPL and NVML only) or "codecarbon"; needs the extra `energy`."""
    country: str
    """Country whose grid causes the emissions, by its code of three letters; without it, none are recorded."""
    validate: bool
    """Validate the run against the shapes when it ends."""
    parent: HasId | str | None
    """The run that this one is a part of, or its id."""
    run_name: str
    """The run's own name; the name of the experiment by default."""


class RunSettings(BaseSettings, total=False):
    """Settings of `provml.record`."""

    run: str | None
    """Id of the run; a new one by default."""
