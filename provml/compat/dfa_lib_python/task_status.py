"""Status of a task."""

from enum import Enum


class TaskStatus(Enum):
    """Status of a task. FAILED is an addition of provml, for a task that an error ended."""

    READY = "READY"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
