"""The catalog: query files with a header, as questions with parameters that are bound safely.

query       a question, and its SPARQL for given values
query_file  read and check a query file
catalog     the questions of some folders, by name
lateral     rewrite plain SPARQL for Oxigraph, which is faster with its extension LATERAL

A file is SPARQL 1.1 that any editor reads, with a YAML header in comments that start with `#+`. `$name` is a declared
parameter, `?name` a variable. Binding replaces `$name` outside strings, IRIs and comments by an RDF term, never by
text, so a value cannot change the structure of a query. The SPARQL
that is shown is plain SPARQL 1.1 for any engine; `rewrite` prepares it for the embedded one.
"""

from provml.catalog.catalog import Catalog, user_folders
from provml.catalog.lateral import rewrite
from provml.catalog.query import INTENTS, PAPERS, UNLIMITED, USER_INTENT, Parameter, Query
from provml.catalog.query_file import NAME_KINDS, read_query

__all__ = [
    "INTENTS",
    "NAME_KINDS",
    "PAPERS",
    "UNLIMITED",
    "USER_INTENT",
    "Catalog",
    "Parameter",
    "Query",
    "read_query",
    "rewrite",
    "user_folders",
]
