"""Protocols by which other programs and machines record into the home of a service.

A module has a function `routes(service)` that returns its routes, and a line in `provml.web.app.ROUTE_MODULES`.
"""
