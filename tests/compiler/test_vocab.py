"""The package `provml.vocab`: exported names and deprecated names."""

from __future__ import annotations

import importlib

import pytest

from provml import vocab
from provml.vocab import provlake, provml

from .helpers import run_mypy


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("BaseLearningExecution", provml.BaseLearningStageExecution),
        ("LearningDataSetReference", provml.LearningDatasetReference),
        ("DatasetSchema", provlake.DataSchema),
    ],
)
def test_package_has_deprecated_names_that_warn(old, new):
    with pytest.warns(DeprecationWarning, match=f"{old} is now called {new.__name__}") as caught:
        assert getattr(vocab, old) is new
    assert caught[0].filename == __file__
    assert old not in vocab.__all__


def test_deprecated_name_can_be_imported():
    with pytest.warns(DeprecationWarning, match="is now called BaseLearningStageExecution"):
        from provml.vocab import BaseLearningExecution
    assert BaseLearningExecution is provml.BaseLearningStageExecution


def test_unknown_name_is_an_error():
    with pytest.raises(AttributeError, match=r"provml\.vocab.*NeverWas"):
        vocab.NeverWas  # noqa: B018
    with pytest.raises(ImportError):
        from provml.vocab import NeverWas  # noqa: F401


def test_deprecated_class_can_be_imported_but_is_not_in_all():
    assert vocab.LearningHyperparameterSetting is provml.LearningHyperparameterSetting
    assert "LearningHyperparameterSetting" not in vocab.__all__


def test_every_exported_name_exists_and_does_not_warn():
    module = importlib.import_module("provml.vocab")
    assert sorted(set(vocab.__all__)) == vocab.__all__
    for name in vocab.__all__:
        assert getattr(module, name)


@pytest.mark.xdist_group("mypy")  # run one after another, because they share the cache of mypy
@pytest.mark.slow
def test_type_checkers_know_deprecated_names(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from provml import vocab\n"
        "from provml.vocab import BaseLearningExecution, LearningHyperparameterSetting\n"
        "from provml.vocab.provml import BaseLearningStageExecution\n"
        "kind: type[BaseLearningStageExecution] = BaseLearningExecution\n"
        "setting: type[vocab.LearningHyperparameterSetting] = LearningHyperparameterSetting\n"
        "wrong: int = vocab.BaseLearningExecution\n"
    )
    output = run_mypy(tmp_path, script).strip().splitlines()
    assert len(output) == 1
    assert output[0].startswith("script.py:6: error: Incompatible types")
