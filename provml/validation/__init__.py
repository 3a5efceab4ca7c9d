"""What must hold: a graph against SHACL shapes, and the report of what does not.

report      what validation said, grouped for people
reference   pySHACL, the reference engine, for any shapes graph
"""

from provml.validation.reference import validate
from provml.validation.report import Report, Result

__all__ = ["Report", "Result", "validate"]
