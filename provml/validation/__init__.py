"""Validation of a graph against SHACL shapes, PROV-CONSTRAINTS and OWL, and its report.

engine            validate() with either SHACL engine      shacl/             SHACL translated to SPARQL
pyshacl_engine    SHACL by pySHACL                         prov_constraints/  W3C PROV-CONSTRAINTS
owl               consistency by HermiT                    inputs             data as quads or as a store
graph             data with its datatypes and types        datatypes          datatypes that Oxigraph changes
class_hierarchy   types that the ontologies imply          shape_files        built-in and user shapes
shapes_graph      statements of shape files                cycles             strongly connected components
results, report   results, grouped for people              report_formats     reports as JSON, RDF, Markdown and HTML
inference         RDFS and OWL RL                          sarif              reports as SARIF
"""

from provml.validation.engine import EngineName, validate
from provml.validation.inference import InferenceName
from provml.validation.report import ProgressCallback, Report
from provml.validation.results import Result, ResultGroup, ValidationScope
from provml.validation.shape_files import builtin_shapes, user_shapes

__all__ = [
    "EngineName",
    "InferenceName",
    "ProgressCallback",
    "Report",
    "Result",
    "ResultGroup",
    "ValidationScope",
    "builtin_shapes",
    "user_shapes",
    "validate",
]
