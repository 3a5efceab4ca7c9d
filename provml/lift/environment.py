"""Where a run and its steps run, as things: the machine, the process, its software, the seeds that were in force."""

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


def ran(lifter: Lifter, what: event.Ran) -> None:
    """Take in where a stage or a step ran, and what it wrote: of each stream what was said first."""
    place = lifter.place(what.at)
    said: dict[str, Any] = {"label": what.name or None}
    if what.where:
        said["at_location"] = location(lifter, what.where)
    if what.on:
        said["was_associated_with"] = lifter.plan.once(
            IRI(f"{lifter.run}#resource/{name.slug(what.on)}"),
            lambda iri: vocab.ExecutionEnvironment(iri, label=what.on),
        )
    for stream, text in (("standard_output", what.output), ("standard_error", what.errors)):
        if text and place.counts.setdefault(stream, 0):
            lifter.complaints.append(f"the {stream.replace('_', ' ')} of {what.at} was said twice; the first is kept")
        elif text:
            place.counts[stream] = 1
            said[stream] = text
    lifter.tell(lifter.execution(what.at, **said))


def location(lifter: Lifter, path: str) -> IRI:
    """A folder or a file as a place: the run's own, since another machine has another of that path."""
    iri = IRI(f"{lifter.run}#location/{name.slug(path)}")
    return lifter.plan.once(iri, lambda iri: vocab.Location(iri, label=path))


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
