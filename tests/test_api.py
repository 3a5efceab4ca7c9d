"""The public API: the names of the package, and an import that is fast and silent."""

from __future__ import annotations

import builtins
import json
import re
import subprocess
import sys

import pytest

import provml

HEAVY = {
    *("click", "jpype", "keras", "lightning", "msgspec", "numpy", "owlready2", "pandas", "pyoxigraph", "pyshacl"),
    *("rdflib", "sklearn", "starlette", "tensorflow", "torch"),
}


def imported_by(statement: str) -> tuple[set[str], str]:
    """Return the top-level modules that a statement loads in a new process, and what it prints."""
    program = f"import sys\n{statement}\nimport json\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in json.loads(process.stderr)}, process.stdout


@pytest.mark.parametrize("name", [name for name in provml.__all__ if name != "__version__"])
def test_every_public_name_exists_and_is_documented(name: str):
    assert (getattr(provml, name).__doc__ or "").strip(), f"{name} has no docstring"


def test_dir_lists_the_public_names_and_the_short_form_of_open_store():
    assert dir(provml) == sorted([*provml.__all__, "open"])
    assert provml.open is provml.open_store


def test_a_star_import_does_not_replace_the_builtin_open():
    scope: dict[str, object] = {}
    exec("from provml import *", scope)
    assert scope.get("open", builtins.open) is builtins.open
    assert set(provml.__all__) <= set(scope)


def test_no_public_name_is_missing_from_all():
    submodules = {name for name in vars(provml) if f"provml.{name}" in sys.modules}
    public = {name for name in vars(provml) if not name.startswith("_")} - submodules - {"TYPE_CHECKING"}
    assert public <= set(provml.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'provml' has no attribute 'recorder'"):
        _ = provml.recorder  # type: ignore[attr-defined]


def test_the_captures_can_be_reached_and_listed_without_importing_a_framework():
    loaded, printed = imported_by("import provml\nprint(*dir(provml.capture))")
    assert printed.split() == ["keras", "lightgbm", "lightning", "sklearn", "torch", "transformers", "xgboost"]
    assert not loaded & {"keras", "lightning", "sklearn", "torch"}
    with pytest.raises(AttributeError, match="no attribute 'tensorflow'"):
        _ = provml.capture.tensorflow  # type: ignore[attr-defined]


def test_record_returns_a_run(tmp_path, monkeypatch):
    monkeypatch.setenv("PROVML_DISABLED", "1")
    with provml.record("flowers", home=tmp_path) as run:
        assert type(run) is provml.Run


@pytest.mark.parametrize(
    ("setting", "suggestion"), [("learning_rate", ""), ("modle", "Did you mean 'model'? "), ("lr", "")]
)
def test_an_unexpected_setting_is_refused(setting: str, suggestion: str):
    with pytest.raises(TypeError) as caught:
        provml.record("flowers", **{setting: 0.1})
    advice = f"{suggestion}Pass hyperparameters to run.training(learning_rate=0.1)."
    assert str(caught.value) == f"record() got an unexpected argument {setting!r}. {advice}"


def test_unexpected_settings_are_refused_together():
    with pytest.raises(TypeError, match=r"^record\(\) got unexpected arguments 'lr', 'epochs'\."):
        provml.record("flowers", lr=0.1, epochs=3)  # type: ignore[call-arg]


def test_the_docstring_of_record_names_all_settings():
    from provml.recording.settings import RunSettings

    names = set(re.findall(r"`(\w+)`", provml.record.__doc__ or ""))
    assert names == RunSettings.__optional_keys__ == set(provml.Run.__init__.__kwdefaults__ or {})


def test_importing_provml_is_silent_and_loads_nothing_heavy():
    loaded, printed = imported_by("import provml")
    assert printed == ""
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
