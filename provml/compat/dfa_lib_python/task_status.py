"""How a task stands."""

from enum import Enum


class TaskStatus(Enum):
    """How a task stands; FAILED is ours, for one that an error ended."""

    READY = "READY"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
