"""Results of a SPARQL endpoint as terms: the JSON of SELECT and ASK, and the triples of CONSTRUCT and DESCRIBE."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyoxigraph as ox

JSON_RESULTS = "application/sparql-results+json"
N_TRIPLES = "application/n-triples"
ACCEPT = f"{JSON_RESULTS}, {N_TRIPLES};q=0.9"
"""What a client asks for: a query decides which of the two it can have."""


def parse_results(data: bytes, media_type: str) -> ox.QuerySolutions | ox.QueryBoolean | list[ox.Triple]:
    """Return the result in a body of one of the two media types; raise ValueError if it is neither, or incomplete."""
    import pyoxigraph as ox

    kind = media_type.partition(";")[0].strip().lower()
    if kind == N_TRIPLES:
        return [quad.triple for quad in ox.parse(data, format=ox.RdfFormat.N_TRIPLES)]
    if kind != JSON_RESULTS:
        raise ValueError(f"the answer is {kind or 'of no type'}, not {JSON_RESULTS}")
    try:
        return ox.parse_query_results(data, format=ox.QueryResultsFormat.JSON)
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"the answer is not complete ({error})") from None
