"""Facts that captures of several frameworks record: fingerprints of datasets, settings of callbacks, transformers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from capture.digits import digits
from provml.capture._data import record_data
from provml.capture._fingerprints import fingerprint
from provml.recording.run import Run

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")
pytest.importorskip("xgboost")

import xgboost  # noqa: E402
from sklearn.compose import ColumnTransformer  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import OneHotEncoder, StandardScaler  # noqa: E402

from provml.capture import sklearn as sklearn_capture  # noqa: E402
from provml.capture import xgboost as xgboost_capture  # noqa: E402

pytestmark = pytest.mark.xdist_group("torch")
X, Y = digits()["training"]


def events(home: Path, kind: str) -> list[dict[str, Any]]:
    lines = [line for file in sorted(home.glob("runs/*/*.jsonl")) for line in file.read_text().splitlines()]
    return [event for event in map(json.loads, lines) if event["e"] == kind]


def tensors(seed: int = 1) -> Any:
    return torch.utils.data.TensorDataset(torch.rand(9, 2, generator=torch.Generator().manual_seed(seed)))


def folder(root: Path) -> Any:
    """Return a dataset of files as torchvision has them."""
    root.mkdir()
    for name in ("a.png", "b.png"):
        (root / name).write_bytes(name.encode())
    return SimpleNamespace(root=str(root), samples=[(str(root / "a.png"), 0), (str(root / "b.png"), 1)])


@pytest.mark.parametrize(
    ("create", "basis"),
    [
        (lambda seed: torch.utils.data.Subset(tensors(seed), [1, 2]), "content and indices"),
        (lambda seed: torch.utils.data.ConcatDataset([tensors(seed), tensors(5)]), "content"),
        (lambda seed: SimpleNamespace(data=np.full((2, 2), seed), targets=[1, 2]), "content"),
        (lambda seed: SimpleNamespace(_fingerprint=f"0a{seed}"), "fingerprint of Hugging Face"),
    ],
)
def test_a_dataset_is_recognised_again_by_its_fingerprint(tmp_path: Path, create: Any, basis: str):
    references = []
    for seed in (1, 1, 2):
        with Run("data", home=tmp_path, strict=True, capture_environment=False) as run:
            references += [data.sha256 for data in record_data(run, create(seed), "training", "training data")]
    assert references[0] == references[1] != references[2]
    assert {event["values"]["fingerprint_of"] for event in events(tmp_path, "data")} == {basis}
    assert all(event.get("size", -1) < 0 for event in events(tmp_path, "data")), "its size is not known"


def test_a_folder_of_files_is_recognised_at_another_place(tmp_path: Path):
    first, second = folder(tmp_path / "one"), folder(tmp_path / "two")
    assert fingerprint(first) == fingerprint(second) is not None
    (tmp_path / "two" / "b.png").write_bytes(b"longer than before")
    assert fingerprint(first) != fingerprint(second)
    assert fingerprint(SimpleNamespace(anything=1)) is None


def test_a_transformer_fitted_alone_is_a_preparation_that_links_data(tmp_path: Path):
    with sklearn_capture.Capture("alone", home=tmp_path, strict=True) as capture:
        scaler = capture.fit(StandardScaler(), X)
        scaled = capture.transform(scaler, X)
        again = capture.fit_transform(StandardScaler(with_mean=False), X)
        capture.fit(LogisticRegression(max_iter=500), scaled, Y)
    assert np.array_equal(scaled, StandardScaler().fit_transform(X))
    assert np.array_equal(again, StandardScaler(with_mean=False).fit_transform(X))
    begun = [(event["kind"], event["at"]) for event in events(tmp_path, "begin")]
    names = ["StandardScaler", "StandardScaler-2", "StandardScaler-3"]
    assert begun == [*(("preparation", name) for name in names), ("training", "training")]
    produced = {(event["at"], event["ref"]) for event in events(tmp_path, "produced")}
    (fitted,) = [ref for at, ref in produced if at == "StandardScaler"]
    using = {event["at"]: event["using"] for event in events(tmp_path, "begin")}
    assert fitted in using["StandardScaler-2"]
    assert ("StandardScaler-2", using["training"][0]) in produced, "the training used what the transformer made"


def test_nested_transformers_are_recorded(tmp_path: Path):
    columns = ColumnTransformer([("scale", StandardScaler(), [0, 1]), ("code", OneHotEncoder(), [2])])
    with sklearn_capture.Capture("nested", home=tmp_path, strict=True) as capture:
        capture.fit(make_pipeline(columns, LogisticRegression(max_iter=500)), X[:, :4].round(), Y)
    (step,) = [event for event in events(tmp_path, "begin") if event["kind"] == "preparation"]
    assert json.loads(step["values"]["transformers"]) == [
        ["scale", "StandardScaler", [0, 1]],
        ["code", "OneHotEncoder", [2]],
    ]


def test_private_settings_stay_out(tmp_path: Path):
    with sklearn_capture.Capture("private", parameters={"_instantiator": "x", "shown": 1}, home=tmp_path) as capture:
        capture.fit(LogisticRegression(max_iter=500), X, Y)
    values = events(tmp_path, "begin")[0]["values"]
    assert values["shown"] == 1
    assert "_instantiator" not in values


def test_checkpoint_files_of_xgboost_are_models(tmp_path: Path):
    home, files = tmp_path / "home", tmp_path / "files"
    files.mkdir()
    (files / "net_7.ubj").write_bytes(b"of an earlier training")
    os.utime(files / "net_7.ubj", (1, 1))
    checkpoint = xgboost.callback.TrainingCheckPoint(files, name="net", interval=2)
    with xgboost_capture.Capture("boosted", home=home, strict=True) as capture:
        matrix = xgboost.DMatrix(X[:80], Y[:80] % 2)
        xgboost.train({"max_depth": 2}, matrix, 5, callbacks=[capture, checkpoint])
    models = {
        event["ref"]: Path(event.get("path", "")).name for event in events(home, "data") if event["kind"] == "model"
    }
    rounds = {models[event["ref"]]: event["values"].get("rounds") for event in events(home, "produced")}
    assert rounds == {"net_2.ubj": 3, "net_4.ubj": 5}, "the model in memory is that of the last file"
