"""Answers: rows of Python values, for people and for programs.

answer          the rows of a query: sort, slice, convert
stream          rows that are computed while they are read, for large results
table           text and HTML tables
formats         JSON, CSV, TSV, the result formats of SPARQL, RDF
dataframe       pandas and polars
humanize        durations and sizes as text
plot            curves, drawn with matplotlib
terminal_chart  curves, drawn with characters
"""

from provml.answers.answer import Answer
from provml.answers.formats import as_json
from provml.answers.plot import Curve
from provml.answers.stream import RowStream
from provml.answers.table import MAX_CELL_WIDTH, format_cell, html_table, single_line

__all__ = ["MAX_CELL_WIDTH", "Answer", "Curve", "RowStream", "as_json", "format_cell", "html_table", "single_line"]
