"""The catalog: query files with a header, as questions with parameters that are bound safely.

question  a question, and its SPARQL for given values
header    query files: their headers, read and checked
folders   the questions of some folders, by name

A file is SPARQL 1.1 that any editor reads, with a YAML header in comments that begin with `#+`. `$name` is a declared
parameter, `?name` a variable. Binding replaces `$name` outside strings, IRIs and comments by a term, never by text, so
a value cannot change a query, and what is shown is what runs.
"""

from provml.catalog.folders import Catalog, user_folders
from provml.catalog.header import NAMES, read_query
from provml.catalog.question import ENDLESS, FAMILIES, PAPERS, YOURS, Parameter, Query

__all__ = [
    "ENDLESS",
    "FAMILIES",
    "NAMES",
    "PAPERS",
    "YOURS",
    "Catalog",
    "Parameter",
    "Query",
    "read_query",
    "user_folders",
]
