"""Autolog as a user starts it: `provml run`, the command line of the script, studies of Optuna, other processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import provml
from capture.autolog.contracts import autologging
from capture.contract import ask, evaluated_models, measures_by_epoch, used

pytest.importorskip("torch", reason="PyTorch is not installed; `pip install 'provml[torch]'`")
optuna = pytest.importorskip("optuna", reason="Optuna is not installed")

pytestmark = pytest.mark.xdist_group("torch")
SCRIPTS = Path(__file__).parent / "scripts"


def run(*command: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command of provml in a folder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PROVML_")} | variables
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(Path(provml.__file__).parents[1]), variables.get("PYTHONPATH", "")]
    )
    return subprocess.run(
        [sys.executable, "-m", "provml", *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_script_is_recorded_without_a_line_in_it(tmp_path: Path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("import sys; sys.flag_of_user = True")
    script = tmp_path / "mnist.py"
    script.write_text((SCRIPTS / "mnist.py").read_text() + "    import sys; assert sys.flag_of_user; sys.exit(3)\n")
    done = run(
        "run",
        "--model",
        "net",
        str(script),
        "--epochs",
        "2",
        "--gamma",
        "0.5",
        folder=tmp_path,
        PYTHONPATH=str(tmp_path / "own"),
    )
    assert done.returncode == 3, done.stderr
    assert not done.stderr
    facts = json.loads(done.stdout)
    with provml.open(tmp_path / ".provml") as store:
        (recorded,) = store.runs()
        assert (recorded.name, recorded.model, recorded.status) == ("mnist", "net", "FAILED")
        assert ask(store, "SELECT ?s { ?t a provml:TrainingExecution ; provlake:status ?s }") == [("FINISHED",)]
        values = used(store)
        assert {name: values[name] for name in ("epochs", "gamma", "learning_rate", "dry_run")} == {
            "epochs": 2, "gamma": 0.5, "learning_rate": 1.0, "dry_run": False
        }  # fmt: skip
        assert measures_by_epoch(store, "provml:ValidationEpochExecution") == {
            "loss": pytest.approx(facts["validation"])
        }


def test_exact_numbers_of_a_command_line_are_numbers(tmp_path: Path):
    script = tmp_path / "exact.py"
    script.write_text(
        "import argparse\n"
        "from decimal import Decimal\n"
        "from fractions import Fraction\n"
        "from sklearn.linear_model import LinearRegression\n"
        "parser = argparse.ArgumentParser()\n"
        "parser.add_argument('--share', type=Fraction)\n"
        "parser.add_argument('--price', type=Decimal)\n"
        "parser.parse_args()\n"
        "LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0])\n"
    )
    done = run("run", str(script), "--share", "1/4", "--price", "0.10", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    with provml.open(tmp_path / ".provml") as store:
        values = used(store)
        assert values["share"] == 0.25
        assert values["price"] == Decimal("0.10")


def test_processes_that_the_script_starts_are_recorded_into_one_run(tmp_path: Path):
    done = run("run", str(SCRIPTS / "hogwild.py"), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    with provml.open(tmp_path / ".provml") as store:
        assert len(store.runs()) == 1
        statuses = "SELECT ?s { ?t a provml:%s ; provlake:status ?s }"
        assert ask(store, statuses % "TrainingExecution") == [("FINISHED",)] * 2
        assert ask(store, statuses % "TrainingEpochExecution") == [("FINISHED",)] * 4
        assert len(measures_by_epoch(store, "provml:TrainingEpochExecution")["loss"]) == 4, "until the workers end"


def test_wrong_calls_are_explained(tmp_path: Path):
    for command, message in (
        (("run",), "There is nothing to run"),
        (("run", "absent.py"), "There is no script 'absent.py'"),
        (("run", "--framework", "torhc", "-c", "pass"), "autolog.frameworks takes some of"),
    ):
        done = run(*command, folder=tmp_path)
        assert done.returncode == 2
        assert message in done.stderr
        assert "Traceback" not in done.stderr


def test_a_program_that_trains_nothing_is_not_recorded(tmp_path: Path):
    done = run(
        "run", "-c", "import argparse, sys; print(sys.argv, sys.path[0] == ''); sys.exit('bad')", "-x", folder=tmp_path
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "['-c', '-x'] True\n", "bad\n")
    assert not (tmp_path / ".provml").exists()


def test_autolog_imports_nothing_that_it_waits_for():
    from provml.capture.autolog.startup.sitecustomize import TRIGGERS

    program = "import sys, provml.capture.autolog; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not TRIGGERS & set(done.stdout.split()), "it would be imported twice"


@pytest.mark.parametrize(
    "settings",
    [
        {"frameworks": "torch"}, {"frameworks": ["tensorflow"]}, {"run": 3}, {"run": "a b"}, {"learning_rate": 1},
        {"detail": "step"}, {"every": 0}, {"strict": "yes"},
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(settings: dict[str, Any]):
    with pytest.raises((TypeError, ValueError)):
        provml.autolog(**settings)


def test_a_study_is_a_run_with_a_child_run_for_each_trial(isolated_home: Path):
    from sklearn.linear_model import SGDClassifier

    from capture.digits import rows

    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def objective(trial: Any) -> float:
        alpha = trial.suggest_float("alpha", 1e-4, 1e-2)
        model = SGDClassifier(alpha=alpha, random_state=1).fit(*rows(slice(0, 100)))
        if trial.number == 1:
            raise optuna.TrialPruned
        if trial.number == 2:
            raise ValueError("broken")
        return float(model.score(*rows(slice(100, 150))))

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=1))
    with autologging(home=isolated_home / "home", strict=True, capture_environment=False, name="sweep"):
        study.optimize(objective, n_trials=3, catch=ValueError)
    with provml.open(isolated_home / "home") as store:
        statuses = {recorded.name: recorded.status for recorded in store.runs()}
        assert statuses == {"sweep": "FINISHED", "trial 0": "FINISHED", "trial 1": "PRUNED", "trial 2": "FAILED"}
        rows_ = ask(
            store,
            """SELECT ?value { ?e a provml:EvaluationExecution . ?v prov:wasGeneratedBy ?e ; prov:value ?value ;
               provlake:wasDerivedFromAttribute/rdfs:label "objective" }""",
        )
        assert rows_ == [(study.best_value,)]
        assert used(store)["alpha"] in [trial.params["alpha"] for trial in study.trials]


def test_a_trial_of_a_loop_has_one_learning_rate_and_evaluates_its_model(isolated_home: Path):
    import torch

    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def objective(trial: Any) -> float:
        network = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(network.parameters(), lr=trial.suggest_float("lr", 0.1, 0.2))
        for _ in range(trial.suggest_int("n_epochs", 2, 2)):
            optimizer.zero_grad()
            loss = network(torch.ones(3, 2)).square().mean()
            loss.backward()
            optimizer.step()
        return loss.item()

    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    with autologging(home=isolated_home / "home", strict=True, capture_environment=False, name="sweep"):
        study.optimize(objective, n_trials=1)
    with provml.open(isolated_home / "home") as store:
        values = used(store)
        assert values["learning_rate"] == pytest.approx(study.best_params["lr"])
        assert values["epochs"] == 2
        assert not {"lr", "n_epochs"} & values.keys()
        assert len(evaluated_models(store)) == 1


@pytest.mark.parametrize("first", ["", "import torch"])
def test_a_script_that_calls_autolog_itself_has_its_own_settings(first: str, tmp_path: Path):
    """The framework is imported before or after the call."""
    script = tmp_path / "train.py"
    script.write_text(f"""{first}
import provml

provml.autolog(name="own", home="own")
import torch

parameter = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([parameter], lr=0.1)
for _ in range(2):
    parameter.sum().backward()
    optimizer.step()
""")
    done = run("run", "--name", "other", "--home", str(tmp_path / "other"), str(script), folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "other").exists()
    with provml.open(tmp_path / "own") as store:
        assert [recorded.name for recorded in store.runs()] == ["own"]


def test_a_process_that_trains_before_the_script_does_not_name_the_run(tmp_path: Path):
    (tmp_path / "child.py").write_text("""import torch
parameter = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([parameter], lr=0.1)
for _ in range(2):
    parameter.sum().backward()
    optimizer.step()
""")
    script = tmp_path / "sweep.py"
    script.write_text("import subprocess, sys; subprocess.run([sys.executable, 'child.py'], check=True)")
    done = run("run", str(script), folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    with provml.open(tmp_path / ".provml") as store:
        (recorded,) = store.runs()
        assert (recorded.name, recorded.status) == ("sweep", "FINISHED")
        assert store.validate(recorded.id)
