"""Validate a crate with rocrate-validator, without a network: prints the issues as JSON.

usage: build/rocrate-validator/bin/python tests/exchange/validate_crate.py FOLDER PROFILE

Contexts come from here: that of RO-Crate 1.1 is the one of 1.3 in the package `rocrate`, with the four terms that
differ set to their IRIs of 1.1; that of Workflow Run Crate has the terms of its specification. All other requests get
404, and the checks of availability are off.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import rocrate
from rocrate_validator import models, services
from rocrate_validator.utils.http import HttpRequester

CRATE = "https://w3id.org/ro/crate/1.1/context"
RUN = "https://w3id.org/ro/terms/workflow-run"
RUN_TERMS = (
    "ParameterConnection", "connection", "sourceParameter", "targetParameter", "md5", "sha1", "sha256", "sha512",
)  # fmt: skip
BIOSCHEMAS = "https://bioschemas.org/"


def contexts() -> dict[str, Any]:
    """Return the contexts by their URLs."""
    crate = json.loads((Path(rocrate.__file__).parent / "data" / "ro-crate.jsonld").read_text())
    crate["@context"] |= {
        "ComputationalWorkflow": f"{BIOSCHEMAS}ComputationalWorkflow",
        "FormalParameter": f"{BIOSCHEMAS}FormalParameter",
        "input": f"{BIOSCHEMAS}ComputationalWorkflow#input",
        "output": f"{BIOSCHEMAS}ComputationalWorkflow#output",
    }
    return {CRATE: crate, f"{RUN}/context": {"@context": {term: f"{RUN}#{term}" for term in RUN_TERMS}}}


def answer(url: str, documents: dict[str, Any]) -> Any:
    """Return what a server would answer."""
    content = documents.get(url)
    return SimpleNamespace(
        status_code=404 if content is None else 200,
        json=lambda: content,
        text=json.dumps(content),
        content=json.dumps(content).encode(),
        headers={"Content-Type": "application/ld+json"},
        url=url,
        ok=content is not None,
    )


def main(folder: str, profile: str) -> None:
    """Validate a crate and print its issues."""
    documents = contexts()
    for method in ("get", "head", "fetch_fresh"):
        setattr(HttpRequester, method, lambda self, url, *args, **options: answer(url, documents))
    settings = services.ValidationSettings(
        rocrate_uri=folder,
        profile_identifier=profile,
        requirement_severity=models.Severity.RECOMMENDED,
        skip_availability_check=True,
    )
    result = services.validate(settings)
    issues = [(issue.severity.name, issue.message, str(issue.violatingEntity)) for issue in result.get_issues()]
    print(json.dumps(issues))


if __name__ == "__main__":
    main(*sys.argv[1:])
