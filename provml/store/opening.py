"""Open a store: of a home on this machine, of a service, or of a SPARQL endpoint."""

from __future__ import annotations

import os

from provml.paths import endpoint_url, service_url, store_location
from provml.store.store import Store


def open_store(
    home: str | os.PathLike[str] | None = None,
    *,
    create: bool = False,
    token: str | None = None,
    user: str | None = None,
    password: str | None = None,
) -> Store:
    """Open the store of a home; by default $PROVML_STORE, $PROVML_HOME, or `.provml` in the working directory.

    A home that does not exist is an error, unless `create` makes an empty one. The URL of a service opens the runs of
    that service, with its `token`, by default $PROVML_TOKEN. The URL of a SPARQL endpoint, such as
    `sparql+https://host/dataset`, opens the runs of that dataset, with a `token`, or with a `user` and a `password`.
    """
    home = home or store_location(None)
    if url := endpoint_url(home):
        from provml.store.endpoint.store import EndpointStore

        return EndpointStore(url, token=token, user=user, password=password)
    if url := service_url(home):
        from provml.store.remote import RemoteStore

        return RemoteStore(url, token=token)
    return Store(home, create=create)
