"""Annotations of a run as things: its tags, notes and names, with who gave them and when."""

from __future__ import annotations

from collections.abc import Iterable

from provml import vocab
from provml.journal.annotations import Annotation, present_texts
from provml.mapping import iris
from provml.model.thing import Thing
from provml.model.values import IRI

CLASSES: dict[str, type[vocab.Annotation]] = {"tag": vocab.Tag, "note": vocab.Note, "name": vocab.RunName}


def annotation_things(run: IRI, experiment: str, name: str, annotations: Iterable[Annotation]) -> list[Thing]:
    """Return a node for each annotation of a run, and the run with its tags; `name` is its own name, if it has one."""
    annotations = list(annotations)
    tags = present_texts(annotations, "tag")
    things: list[Thing] = []
    if name or tags:
        plan = iris.plan_iri(experiment)
        things.append(
            vocab.LearningProcessExecution(run, was_derived_from_workflow=plan, has_tag=tags, label=name or None)
        )
    for annotation in annotations:
        things.append(
            CLASSES[annotation.kind](
                IRI(f"{run}/annotation/{'/'.join(map(iris.quote_segment, annotation.id.split('/')))}"),
                annotates=run,
                value=annotation.text,
                generated_at_time=annotation.added,
                was_attributed_to=_persona(things, annotation.by),
                invalidated_at_time=annotation.removed,
                was_removed_by=_persona(things, annotation.removed_by),
            )
        )
    return things


def _persona(things: list[Thing], name: str) -> IRI | None:
    if not name:
        return None
    iri = iris.shared_iri("persona", name)
    things.append(vocab.Persona(iri, label=name))
    return iri
