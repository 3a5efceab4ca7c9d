"""Answers: rows of Python values, for people and for programs.

rows    an answer: its rows, sorted, cut, and given in any of the ways below
table   rows as a table, in text and in HTML
form    rows as JSON, CSV and TSV, and in the result formats of SPARQL
frame   rows as a data frame of pandas or polars
curve   rows as curves, drawn by matplotlib
chart   curves drawn with characters
"""

from provml.answer.curve import Curve
from provml.answer.form import as_json
from provml.answer.rows import Answer
from provml.answer.table import WIDEST, cell, one_line

__all__ = ["WIDEST", "Answer", "Curve", "as_json", "cell", "one_line"]
