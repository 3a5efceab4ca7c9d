"""The HTTP service over a home: SPARQL, REST, live data, and the protocols of other recorders. Extra: `serve`.

settings   what a service is started with: home, address, tokens, limits
service    the running service: its store, tokens, background sync
security   tokens, tickets, cookies; checks of Host and Origin; headers
routing    routes that state the token they need and their limits
problems   errors as RFC 9457 problem documents
app        the ASGI application: middleware and the routes of all modules
ingest     protocols by which other programs record

Nothing here is imported by `import provml`.
"""
