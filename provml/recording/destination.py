"""The home of a run that is recorded for a service: a directory here, and where its journals are shipped to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provml.errors import ServiceError
from provml.journal.shipping import read_state
from provml.paths import absolute, default_home, endpoint_url, service_url
from provml.recording.settings import ShippingSettings

if TYPE_CHECKING:
    from provml.remote.shipper import Destination

MEMORY = "memory"
MEMORY_FOLDER = Path("/dev/shm")
"""Memory that looks like a directory; a journal there survives the process, not the machine."""


def choose_spool(shipping: ShippingSettings) -> Path:
    """Return the directory in which journals are kept, until a service has them and after that."""
    spool = shipping.get("spool") or os.environ.get("PROVML_SPOOL", "")
    if spool == MEMORY:
        if not MEMORY_FOLDER.is_dir():
            raise ValueError(f"spool='memory' needs {MEMORY_FOLDER}, which this machine does not have.")
        return MEMORY_FOLDER / f"provml-{os.getuid()}"
    return Path(spool) if spool else default_home()


def parse_destination(home: object, shipping: ShippingSettings | None) -> tuple[Destination | None, Path | None]:
    """Return where a run goes, and the directory that it is recorded in; None and None if the home is a directory."""
    if url := endpoint_url(home or os.environ.get("PROVML_HOME")):
        advice = "Record in a directory, and send it with `provml sync --to URL`."
        raise ServiceError(url, "runs are recorded in a home, not at a SPARQL endpoint", advice)
    url = service_url(home)
    if not url:
        if shipping and home:
            advice = "Pass the URL of a service: home='http://host:8420'."
            raise ValueError(f"shipping is for a service, but the home is a directory, {os.fspath(home)!r}. {advice}")  # type: ignore[call-overload]
        return None, None
    settings: dict[str, Any] = {**(shipping or {})}
    _check(settings)
    from provml.remote.connection import parse_address
    from provml.remote.shipment import Batching
    from provml.remote.shipper import WAIT_SECONDS, Destination

    defaults = Batching()
    batching = Batching(settings.get("queue", defaults.queue), settings.get("seconds", defaults.seconds))
    destination = Destination(
        parse_address(url, settings.get("token")),
        batching,
        is_online=bool(settings.get("online", True)),
        wait_seconds=settings.get("wait", WAIT_SECONDS),
        is_temporary=settings.get("spool") == MEMORY,
    )
    return destination, absolute(choose_spool(shipping or {}))


def _check(settings: dict[str, Any]) -> None:
    accepted = ShippingSettings.__annotations__
    if unexpected := [name for name in settings if name not in accepted]:
        raise ValueError(f"shipping has no setting {unexpected[0]!r}. It takes {', '.join(accepted)}.")
    for name, least in (("queue", 1), ("seconds", 0), ("wait", 0)):
        value = settings.get(name, least)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= least:
            raise ValueError(f"shipping: {name} must be a number of at least {least}, not {value!r}.")


def joined_destination(folder: Path) -> Destination | None:
    """Return where the run that a process joins is shipped to; None if it stays here."""
    state = read_state(folder)
    if state is None:
        return None
    from provml.remote.connection import parse_address
    from provml.remote.shipper import Destination

    try:
        return Destination(parse_address(state.url))
    except ServiceError:
        return None
