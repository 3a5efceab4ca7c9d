"""Names in questions: a model that is left out, a file on the disk, the first digits of a digest."""

from __future__ import annotations

from pathlib import Path

import pytest

import provml
from provml.errors import InvalidParameter
from provml.store import name_lookup


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for rate in (0.1, 0.2):
        (tmp_path / f"model-{rate}.pt").write_text(f"weights {rate}")
        (tmp_path / "train.csv").write_text("train")
        with provml.record("flowers", home=tmp_path / "home", model="net", run=f"r{rate}", strict=True) as run:
            with run.training(using=run.dataset(tmp_path / "train.csv"), learning_rate=rate) as training:
                model = training.produced(tmp_path / f"model-{rate}.pt")
            with run.evaluation(of=model) as test:
                test.measured(accuracy=rate)
    return tmp_path / "home"


def test_the_only_model_of_a_home_can_be_left_out(home: Path):
    with provml.open(home) as store:
        assert store.ask("best-hyperparameters", top=1).rows == store.ask("q5", model="net", top=1).rows
        assert '"net"' in store.sparql("q5")
    with provml.record("trees", home=home, model="forest", strict=True) as run, run.training():
        pass
    with (
        provml.open(home) as store,
        pytest.raises(InvalidParameter, match=r"parameter 'model'.* --model …: forest, net"),
    ):
        store.ask("q5")
    with (
        provml.open(home) as store,
        pytest.raises(InvalidParameter, match=r"no parameter 'modle'\. Did you mean 'model'"),
    ):
        store.ask("q5", modle="net")


def test_the_name_of_a_file_is_no_second_model(tmp_path: Path):
    with provml.record("flowers", home=tmp_path, model="net", strict=True) as run:
        with run.training(learning_rate=0.1) as training:
            model = training.produced(b"weights", name="model.pt")
        with run.evaluation(of=model) as test:
            test.measured(accuracy=0.9)
    with provml.open(tmp_path) as store:
        assert store.ask("best-hyperparameters").column("value") == [0.9]
        with pytest.raises(InvalidParameter, match=r"parameter 'hyperparameter'.* --hyperparameter …: learning_rate"):
            store.ask("runs-by-hyperparameter")


@pytest.mark.parametrize("rate", [0.1, 0.2])
def test_a_file_on_the_disk_is_known_by_its_content(home: Path, rate: float):
    copy = home.parent / "handed-over.bin"
    copy.write_bytes((home.parent / f"model-{rate}.pt").read_bytes())
    with provml.open(home) as store:
        (row,) = store.ask("origin-of-model", model=str(copy)).rows
        assert str(row[1]).endswith(f"r{rate}/training")
        users = store.ask("runs-using-data", sha256=str(home.parent / "train.csv"))
    assert len(users) == 2


def test_data_and_models_are_found_by_the_first_digits_of_their_digest(home: Path):
    with provml.open(home) as store:
        (digest,) = store.query(
            "SELECT ?d { ?m a provml:Model ; provlake:sha256 ?d ; provlake:path ?p FILTER(CONTAINS(?p, '0.1')) }"
        ).rows[0]
        assert len(store.ask("origin-of-model", model=digest[:8])) == 1
        with pytest.raises(InvalidParameter, match="model"):
            store.ask("origin-of-model", model="0000000000")


def test_a_node_that_is_named_by_its_iri_is_found_without_reading_all_names(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    with provml.open(home) as store:
        iri = str(store.query("SELECT ?m { ?m a provml:Model ; prov:wasGeneratedBy ?t } ORDER BY ?m").rows[0][0])
        expected = store.ask("origin-of-model", model=iri).rows
        monkeypatch.setattr(name_lookup, "_nodes_by_name", None)
        assert store.ask("origin-of-model", model=iri).rows == expected != []


def test_the_address_of_a_dataset_is_its_name(tmp_path: Path):
    address = "https://example.org/data.csv"
    with provml.record("flowers", home=tmp_path, model="net", strict=True) as run:
        data = run.dataset(b"rows", name=address, about=address)  # the address is a node of the graph as well
        with run.training(using=data) as training:
            training.produced(b"weights")
    with provml.open(tmp_path) as store:
        assert len(store.ask("models-from-dataset", dataset=address)) == 1
