"""Repeat runs: check what a run needs, execute it again, and compare the results.

needs       what is recorded about a run that has to be the same
checks      whether it can be the same here
workspace   a worktree with the code and the data, and an environment
comparison  how two runs differ, and the verdict
execution   all of it in one function
"""

from provml.repeat.checks import Check
from provml.repeat.comparison import Comparison, Difference, Verdict
from provml.repeat.execution import Rerun, check_repeatable, rerun

__all__ = ["Check", "Comparison", "Difference", "Rerun", "Verdict", "check_repeatable", "rerun"]
