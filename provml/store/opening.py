"""Open a store: of a home on this machine, or of a service."""

from __future__ import annotations

import os

from provml.paths import service_url
from provml.store.store import Store


def open_store(home: str | os.PathLike[str] | None = None, *, create: bool = False, token: str | None = None) -> Store:
    """Open the store of a home; by default $PROVML_HOME, or `.provml` in the working directory.

    A home that does not exist is an error, unless `create` makes an empty one. The URL of a service opens the runs of
    that service, with its `token`, by default $PROVML_TOKEN.
    """
    if url := service_url(home):
        from provml.store.remote import RemoteStore

        return RemoteStore(url, token=token)
    return Store(home, create=create)
