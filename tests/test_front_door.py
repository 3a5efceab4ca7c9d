"""The front door: a short list of names, and an import that costs and says nothing."""

from __future__ import annotations

import json
import subprocess
import sys

import provml

HEAVY = {
    *("click", "jpype", "keras", "lightning", "msgspec", "numpy", "owlready2", "pandas", "pyoxigraph", "pyshacl"),
    *("rdflib", "sklearn", "starlette", "tensorflow", "torch"),
}


def imported_by(statement: str) -> tuple[set[str], str]:
    """The top-level modules that a statement loads in a fresh process, and what it prints."""
    program = f"import sys\n{statement}\nimport json\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in json.loads(done.stderr)}, done.stdout


def test_the_front_door_is_a_short_sorted_list():
    assert provml.__all__ == sorted(provml.__all__)
    assert len(provml.__all__) <= 10


def test_every_name_on_the_front_door_is_there_and_documented():
    for name in provml.__all__:
        thing = getattr(provml, name)
        assert name == "__version__" or (thing.__doc__ or "").strip(), f"{name} has no docstring"


def test_nothing_public_is_off_the_list():
    submodules = {name for name in vars(provml) if f"provml.{name}" in sys.modules}
    public = {name for name in vars(provml) if not name.startswith("_")} - submodules - {"TYPE_CHECKING"}
    lazy = {"open", "record"}  # given by the module's __getattr__, so that they cost nothing before
    assert public | lazy == {name for name in provml.__all__ if not name.startswith("_")}


def test_importing_provml_is_silent_and_loads_nothing_heavy():
    loaded, said = imported_by("import provml")
    assert said == ""
    assert "provml" in loaded
    assert not loaded & HEAVY


def test_the_vocabulary_needs_the_standard_library_only():
    loaded, _ = imported_by("import provml.vocab")
    assert not loaded & HEAVY


def test_writing_things_needs_no_heavy_package():
    loaded, _ = imported_by(
        "from provml.rdf import ntriples\nfrom provml.vocab import Training\nntriples(Training('http://example.org/t'))"
    )
    assert not loaded & HEAVY


def test_the_check_for_heavy_packages_can_fail():
    loaded, _ = imported_by("import pyoxigraph")
    assert loaded & HEAVY == {"pyoxigraph"}
