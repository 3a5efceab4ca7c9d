"""Record, serve and look at the pages where there is no network but the loopback interface.

    python lonely_browser.py HOME        in a network namespace of its own

Prints as JSON the interfaces, the pages that were loaded, and the addresses that the browser asked for.
"""

from __future__ import annotations

import fcntl
import json
import socket
import struct
import sys
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import sync_playwright

import provml
from tests.web.serving import running

SIOCSIFFLAGS, IFF_UP = 0x8914, 1


def bring_up_loopback() -> None:
    """Bring up the loopback interface of a new namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def main(home: Path) -> None:
    bring_up_loopback()
    with provml.record("flowers", home=home, run="monday") as run, run.training(lr=0.1) as training:
        for epoch in training.epochs(2):
            epoch.measured(loss=1.0 / epoch.index)
    hosts: set[str] = set()
    failures: list[str] = []
    statuses = {}

    def note_failure(url: str, reason: str | None) -> None:
        if reason != "net::ERR_ABORTED":  # the browser left the page while it loaded its icon
            failures.append(url)

    with running(home, "--no-token", "--quiet") as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page()
        page.on("request", lambda request: hosts.add(str(urlsplit(request.url).hostname)))
        page.on("requestfailed", lambda request: note_failure(request.url, request.failure))
        page.on("console", lambda message: failures.append(message.text) if message.type == "error" else None)
        for path in ("/", "/runs/monday", "/questions", "/api/docs"):
            answer = page.goto(server.url + path, wait_until="load")
            statuses[path] = answer.status if answer is not None else 0
        browser.close()
    names = [name for _, name in socket.if_nameindex()]
    print(json.dumps({"interfaces": names, "statuses": statuses, "hosts": sorted(hosts), "failures": failures}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
