"""The tracking server that MLflow's client talks to: experiments, runs, models and artifacts.

tracking   what was received, and the answers to questions about it
search     the grammar of filters and orders
artifacts  files by their paths, stored by content
endpoints  the routes
"""

from provml.web.ingest.mlflow.endpoints import routes

__all__ = ["routes"]
