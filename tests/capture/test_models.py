"""Models of a capture: the recorded model of an object or a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import provml
from provml.capture._models import CaptureModels, ModelFiles
from provml.recording.stages import Stage


class Network:
    """A model object."""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[provml.Run]:
    with provml.record("digits", home=tmp_path / "home", strict=True, capture_environment=False) as run:
        yield run


def train(models: CaptureModels, network: Network, run: provml.Run, *, epochs: int = 1) -> Stage:
    stage = run.training()
    models.begin_training(network, stage, models.lookup(network))
    for index in range(1, epochs + 1):
        stage.epoch(index).done()
    return stage


def test_an_object_is_the_model_of_its_training(run: provml.Run):
    models, network = CaptureModels(run), Network()
    assert models.lookup(network) is None
    train(models, network, run)
    model = models.lookup(network)
    assert model is not None
    assert models.lookup(network) == model, "it is recorded once"
    assert models.lookup(Network()) is None


def test_before_its_first_epoch_an_object_is_the_model_it_started_from(run: provml.Run):
    models, network = CaptureModels(run), Network()
    train(models, network, run)
    first = models.lookup(network)
    train(models, network, run, epochs=0)
    assert models.lookup(network) == first
    train(models, network, run)
    assert models.lookup(network) != first


def test_the_last_model_is_resolved_by_default(run: provml.Run):
    models, network = CaptureModels(run), Network()
    stage = train(models, network, run)
    saved = models.record_file(stage, None, epoch=1)
    models.set_last(saved)
    assert models.resolve() == models.resolve(network) == saved


def test_an_alias_is_the_same_model_and_a_rebound_object_is_another(run: provml.Run):
    models, network, alias = CaptureModels(run), Network(), Network()
    train(models, network, run)
    models.add_alias(alias)
    assert models.lookup(alias) == models.lookup(network)
    models.rebind(alias, None)
    assert models.lookup(alias) is None
    models.rebind(alias, models.lookup(network))
    assert models.lookup(alias) == models.lookup(network)


def test_a_file_is_known_after_it_was_recorded(run: provml.Run, tmp_path: Path):
    models, path = CaptureModels(run), tmp_path / "net.bin"
    path.write_bytes(b"weights")
    assert models.checkpoint(path, read=False) is None
    stage = train(models, Network(), run)
    saved = models.record_file(stage, path)
    assert models.lookup(path) == models.resolve(str(path)) == models.checkpoint(path, read=False) == saved


def test_an_unknown_object_is_the_model_that_the_user_passed(run: provml.Run, tmp_path: Path):
    path = tmp_path / "net.bin"
    path.write_bytes(b"weights")
    models, network = CaptureModels(run, path), Network()
    model = models.resolve(network)
    assert model.sha256
    assert models.lookup(network) == models.lookup(path) == models.last == model


def test_a_file_that_changed_since_contains_another_model(run: provml.Run, tmp_path: Path):
    files, path = ModelFiles(), tmp_path / "net.bin"
    path.write_bytes(b"weights")
    model = run._register_data("model", path)
    files.set(path, model)
    assert files.get(str(path)) == model
    path.write_bytes(b"other weights")
    assert files.get(path) is None
    path.unlink()
    assert files.get(path) == model, "a deleted file has not changed"
