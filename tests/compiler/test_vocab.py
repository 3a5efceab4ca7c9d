"""The front of the vocabulary: what it offers, what it still knows under old names, and what it keeps back."""

from __future__ import annotations

import importlib

import pytest

from provml import vocab
from provml.vocab import provlake, provml

from .workshop import check_types


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("BaseLearningExecution", provml.BaseLearningStageExecution),
        ("LearningDataSetReference", provml.LearningDatasetReference),
        ("DatasetSchema", provlake.DataSchema),
    ],
)
def test_old_names_come_from_the_front_too_and_warn(old, new):
    with pytest.warns(DeprecationWarning, match=f"{old} is now called {new.__name__}") as caught:
        assert getattr(vocab, old) is new
    assert caught[0].filename == __file__
    assert old not in vocab.__all__


def test_old_names_can_be_imported_by_name():
    with pytest.warns(DeprecationWarning, match="is now called BaseLearningStageExecution"):
        from provml.vocab import BaseLearningExecution
    assert BaseLearningExecution is provml.BaseLearningStageExecution


def test_a_name_that_never_was_is_an_error():
    with pytest.raises(AttributeError, match=r"provml\.vocab.*NeverWas"):
        vocab.NeverWas  # noqa: B018
    with pytest.raises(ImportError):
        from provml.vocab import NeverWas  # noqa: F401


def test_a_retired_class_is_importable_but_not_offered():
    assert vocab.LearningHyperparameterSetting is provml.LearningHyperparameterSetting
    assert "LearningHyperparameterSetting" not in vocab.__all__


def test_what_is_offered_is_there_and_warns_of_nothing():
    module = importlib.import_module("provml.vocab")
    assert sorted(set(vocab.__all__)) == vocab.__all__
    for name in vocab.__all__:
        assert getattr(module, name)


@pytest.mark.xdist_group("mypy")  # one after the other, they share what it has cached
def test_type_checkers_know_old_names(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from provml import vocab\n"
        "from provml.vocab import BaseLearningExecution, LearningHyperparameterSetting\n"
        "from provml.vocab.provml import BaseLearningStageExecution\n"
        "kind: type[BaseLearningStageExecution] = BaseLearningExecution\n"
        "setting: type[vocab.LearningHyperparameterSetting] = LearningHyperparameterSetting\n"
        "wrong: int = vocab.BaseLearningExecution\n"
    )
    said = check_types(tmp_path, script).strip().splitlines()
    assert len(said) == 1
    assert said[0].startswith("script.py:6: error: Incompatible types")
