"""Where a run runs, as things: the machine, the process, its software, and the seeds that were in force."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from provml import event, vocab
from provml.lift import name
from provml.things import Thing
from provml.values import IRI

if TYPE_CHECKING:
    from provml.lift.lifter import Lifter


def environment(lifter: Lifter, what: event.Environment) -> None:
    """Take in where a writer runs."""
    first = lifter.state.first
    machine = None
    if what.machine:
        said = _fitting(lifter, vocab.Machine, what.machine)
        digest = hashlib.sha256(repr(sorted(said.items())).encode()).hexdigest()[:8]
        machine = name.shared("machine", str(said.get("hostname", "unknown")), digest)
        lifter.tell(vocab.Machine(machine, **said))
    software = [name.shared("software", title, version) for title, version in sorted(what.software.items())]
    for iri, (title, version) in zip(software, sorted(what.software.items()), strict=True):
        lifter.tell(vocab.Software(iri, label=title, software_version=version))
    around = _fitting(lifter, vocab.ExecutionEnvironment, what.around)
    iri = IRI(f"{lifter.run}#environment/{name.slug(first.writer if first else lifter.kin.writer)}")
    lifter.tell(vocab.ExecutionEnvironment(iri, was_run_on=machine, has_software=software, **around))
    lifter.tell(
        vocab.LearningProcessExecution(
            lifter.run,
            was_derived_from_workflow=lifter.plan.experiment,
            was_associated_with=iri,
            used=[_seed(lifter, title, seed) for title, seed in what.seeds.items()],
        )
    )


def _seed(lifter: Lifter, title: str, seed: int) -> IRI:
    """A seed that was in force when a writer began: a hyperparameter of the run."""
    label = f"seed of {title}"
    own = name.slug(f"{title}{lifter.state.own}")
    plan = lifter.plan.once(
        IRI(f"{lifter.plan.experiment}#seed/{name.slug(title)}"),
        lambda iri: vocab.LearningHyperparameter(iri, label=label, tag="Hyperparameter"),
    )
    value = IRI(f"{lifter.run}#seed/{own}")
    lifter.tell(vocab.LearningHyperparameterValue(value, was_derived_from_attribute=plan, value=seed))
    return value


def _fitting(lifter: Lifter, cls: type[Thing], said: dict[str, Any]) -> dict[str, Any]:
    """What a class has fields for; the rest is left out, and complained of."""
    for key in said.keys() - cls.FIELDS.keys():
        lifter.complaints.append(f"{cls.__name__} has no field {key!r}; it is left out")
    return {key: value for key, value in said.items() if key in cls.FIELDS and value is not None}
