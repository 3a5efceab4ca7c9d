"""The wheel: it contains the data folders, and an installed package finds them without a checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.xdist_group("wheel")  # one wheel for all

PROGRAM = """
import sys
from pathlib import Path
import provml, provml.vocab
from provml import compiler, paths
folders = {paths.ontologies(): "*.ttl", paths.shapes(): "**/*.ttl", paths.queries(): "*.rq"}
for folder, pattern in folders.items():
    assert Path(provml.__file__).parent in folder.parents, folder
    print(folder.name, len(list(folder.glob(pattern))))
files, notes = compiler.user_files([Path("my.ttl")], Path("my_vocab.py"))
compiler.write(files)
from my_vocab import Forest
print(Forest.TYPES[1])
"""

ONTOLOGY = """
@prefix owl: <http://www.w3.org/2002/07/owl#> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix provml: <https://w3id.org/provml#> .
<http://example.org/forest#Forest> a owl:Class ; rdfs:subClassOf provml:Model .
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return next(folder.glob("provml-*.whl"))


def test_the_wheel_contains_ontologies_shapes_and_queries(wheel: Path):
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("ontologies", "shapes", "queries"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file():
                assert f"provml/{path.relative_to(ROOT).as_posix()}" in names
    assert "provml/py.typed" in names
    assert not any(name.startswith(("tests/", "docs/")) for name in names)


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of packages with provml installed from the wheel."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), str(wheel)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def test_an_installed_wheel_finds_its_folders_and_compiles(site: Path, tmp_path: Path):
    (tmp_path / "my.ttl").write_text(ONTOLOGY)
    environment = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{tmp_path}"}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    count = len(list((ROOT / "ontologies").glob("*.ttl")))
    assert f"ontologies {count}" in result.stdout
    assert "https://w3id.org/provml#Model" in result.stdout


def test_an_installed_wheel_does_not_compile_provml_itself(site: Path, tmp_path: Path):
    environment = {**os.environ, "PYTHONPATH": str(site)}
    result = subprocess.run(
        [sys.executable, "-m", "provml.cli", "compile"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert "provml compile my.ttl -o my_vocab.py" in result.stderr
