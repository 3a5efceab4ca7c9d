"""What must hold: a graph against SHACL shapes, PROV-CONSTRAINTS and OWL, and the report of what does not.

engine        one door to both engines of SHACL          compiled   SHACL as SPARQL that Oxigraph runs
reference     pySHACL, for any shapes graph              report     what validation said, grouped for people
constraints   W3C PROV-CONSTRAINTS                       format     a report as JSON, RDF, Markdown and HTML
owl           whether HermiT finds a run consistent      loading    what is to be validated, as quads or in a store
"""

from provml.validation.engine import validate
from provml.validation.report import Checked, Group, Report, Result

__all__ = ["Checked", "Group", "Report", "Result", "validate"]
