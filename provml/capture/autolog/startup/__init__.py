"""The folder that `provml run` puts on PYTHONPATH: Python imports `sitecustomize` from it when it starts."""
