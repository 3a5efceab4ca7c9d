"""The REST interface at `/api/v1`: runs, questions, artifacts, validation, ontology terms and live events.

types      what answers and bodies look like
tables     answers as JSON, CSV and other formats, cached by the position of the index
runs       the table of runs, and one run with its parts
questions  the questions of the catalog, and their answers
artifacts  contents by their SHA-256, and lineage
terms      terms of the ontologies
live       events of a run, by polling and as server-sent events
openapi    the OpenAPI document of all of this, and a page that shows it
"""
