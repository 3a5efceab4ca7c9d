"""The address of a SPARQL endpoint: `sparql+https://user:password@host/dataset?engine=jena&graph=IRI`."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from provml.errors import InvalidIRI, ServiceError
from provml.model.values import IRI
from provml.paths import SPARQL_SCHEMES
from provml.remote.connection import TOKEN_VARIABLE
from provml.store.dialects import DIALECTS, HOST_NAMES

EXAMPLE = "Pass a URL such as sparql+https://host/dataset."
USER_VARIABLE, PASSWORD_VARIABLE = "PROVML_USER", "PROVML_PASSWORD"
QUERY_PATHS = ("/query", "/sparql")
"""Ends of the address of a dataset at which engines answer queries."""


@dataclass(frozen=True)
class EndpointAddress:
    """The URL of a dataset without credentials and options; credentials are never part of a message."""

    url: str
    engine: str = ""
    graph: str = ""
    token: str = field(default="", repr=False)
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    @property
    def text(self) -> str:
        """The address as a user writes it, without credentials."""
        options = {name: value for name, value in (("engine", self.engine), ("graph", self.graph)) if value}
        query = f"{'&' if '?' in self.url else '?'}{urlencode(options, safe=':/')}" if options else ""
        return f"sparql+{self.url}{query}"


def parse_endpoint(
    text: str, *, token: str | None = None, user: str | None = None, password: str | None = None
) -> EndpointAddress:
    """Return the parts of an address; credentials come from the arguments, the URL, or the environment."""
    if not text.lower().startswith(SPARQL_SCHEMES):
        advice = f"Write sparql+ before it: sparql+{text}" if text.lower().startswith("http") else EXAMPLE
        raise ServiceError(text, "this is not the URL of a SPARQL endpoint", advice)
    try:
        parts = urlsplit(text.strip()[len("sparql+") :])
        port = parts.port
    except ValueError as error:
        raise ServiceError(text, str(error).lower(), EXAMPLE) from None
    if not parts.hostname or parts.fragment:
        raise ServiceError(text, "this is not the URL of a SPARQL endpoint", EXAMPLE)
    options = parse_qsl(parts.query, keep_blank_values=True)
    chosen = {name: value for name, value in options if name in ("engine", "graph")}
    others = urlencode([item for item in options if item[0] not in chosen])
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    path = parts.path.rstrip("/")
    url = f"{parts.scheme}://{host}{f':{port}' if port else ''}{path}{f'?{others}' if others else ''}"
    engine = chosen.get("engine", "") or next((e for end, e in HOST_NAMES.items() if parts.hostname.endswith(end)), "")
    if engine and engine not in DIALECTS:
        raise ServiceError(url, f"unknown engine {engine!r}", f"Use one of {', '.join(DIALECTS)}.")
    graph = chosen.get("graph", "")
    if graph:
        try:
            graph = IRI(graph)
        except InvalidIRI as error:
            raise ServiceError(url, f"graph: {str(error).rstrip('.')}", "Pass an absolute IRI.") from None
    user = user or unquote(parts.username or "") or ("" if token else os.environ.get(USER_VARIABLE, ""))
    secrets = {
        "token": token or ("" if user else os.environ.get(TOKEN_VARIABLE, "")),
        "user": user,
        "password": password or unquote(parts.password or "") or os.environ.get(PASSWORD_VARIABLE, ""),
    }
    for name, secret in secrets.items():
        if not secret.isprintable() or (name == "token" and not secret.isascii()):
            raise ServiceError(url, f"the {name} has characters that it cannot have", "Copy it again.")
    return EndpointAddress(url, engine, graph, **secrets)
