"""The syntaxes of OWL that are not RDF: functional syntax, Manchester syntax and OWL/XML, converted to RDF/XML.

The library py-horned-owl parses them, in a child process with limits, because a file can make a parser crash or run for
hours. The child runs this file as a script, so the file imports only what the child needs.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

FUNCTIONAL, MANCHESTER, OWL_XML = "ofn", "omn", "owx"
"""Names of the syntaxes, as the library and file extensions write them."""

TITLES = {FUNCTIONAL: "OWL functional syntax", MANCHESTER: "Manchester syntax", OWL_XML: "OWL/XML"}
MAX_SECONDS = 60
"""CPU time of the child process."""
MAX_MEMORY_BYTES = 2 << 30
"""Address space of the child process."""

_PREFIX = re.compile(
    r"""Prefix\s*\(\s*([\w.\-]*):\s*=\s*<([^>]*)>\s*\)|Prefix:\s*([\w.\-]*):\s*<([^>]*)>"""
    r"""|<Prefix\s+name="([\w.\-]*)"\s+IRI="([^"]*)"\s*/>"""
)


def prefixes(data: bytes) -> dict[str, str]:
    """Return the prefixes that a file declares in any of the syntaxes."""
    pairs: dict[str, str] = {}
    for match in _PREFIX.finditer(data.decode(errors="replace")):
        name, namespace = (group for group in match.groups() if group is not None)
        pairs[name] = namespace
    return pairs


def to_rdf_xml(path: Path, data: bytes, syntax: str) -> bytes:
    """Return the ontology of a file as RDF/XML; raise `OntologyError` if it cannot be read."""
    from importlib.util import find_spec

    from provml.errors import MissingDependency, OntologyError

    if find_spec("pyhornedowl") is None:
        raise MissingDependency("py-horned-owl", "owlsyntax")
    with tempfile.TemporaryDirectory(prefix="provml-owl-") as name:
        source, target = Path(name, f"input.{syntax}"), Path(name, "output.rdf")
        source.write_bytes(data)
        process = subprocess.run(
            [sys.executable, "-P", __file__, str(source), str(target), syntax],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
        if process.returncode == 0:
            return target.read_bytes()
        message = process.stderr.decode(errors="replace").strip()
    reason = message.splitlines()[-1] if message and process.returncode > 0 else "the parser ran out of time or memory"
    offset = re.search(r"ByteSpan\((\d+)", reason)
    line = data[: int(offset[1])].count(b"\n") + 1 if offset else None
    advice = f"Fix the {TITLES[syntax]}, or save it as RDF/XML or Turtle in Protégé."
    raise OntologyError(f"cannot be read ({reason})", advice, file=str(path), line=line)


def _child_main(source: Path, target: Path, syntax: Any) -> None:
    """Convert a file in this process, which has limits."""
    import resource

    import pyhornedowl

    for kind, value in ((resource.RLIMIT_CPU, MAX_SECONDS), (resource.RLIMIT_AS, MAX_MEMORY_BYTES)):
        hard = resource.getrlimit(kind)[1]  # a lower limit that is set already stays
        lower = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (lower, lower))
    try:
        ontology = pyhornedowl.open_ontology_from_string(source.read_text(encoding="utf-8"), syntax)
        target.write_text(ontology.save_to_string("owl"), encoding="utf-8")
    except BaseException as error:  # a panic of the library is no Exception
        sys.exit(str(error).splitlines()[0] if str(error) else type(error).__name__)


if __name__ == "__main__":
    _child_main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
