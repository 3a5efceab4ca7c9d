"""Data and models as things: what they are known by, who used and who produced them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from provml import event, vocab
from provml.lift import name
from provml.lift.plan import LEARNING
from provml.rdf.exact import decode_value
from provml.values import IRI

if TYPE_CHECKING:
    from provml.lift.lifter import Lifter

ROLES = {
    "raw": vocab.RAW_ROLE,
    "training": vocab.TRAINING_ROLE,
    "validation": vocab.VALIDATION_ROLE,
    "test": vocab.TEST_ROLE,
}


def data(lifter: Lifter, what: event.Data) -> None:
    iri = name.data(lifter.run, what.ref)
    lifter.state.refs[what.ref] = what.kind
    lifter.state.refs[f"name:{what.ref}"] = what.name
    said: dict[str, Any] = {
        "sha256": what.sha256 or None,
        "size_bytes": what.size if what.size >= 0 else None,
        "path": what.path or None,
        "media_type": what.media or None,
        "about": [IRI(concept) for concept in what.about],
    }
    if what.store:
        store = lifter.plan.once(
            name.shared("store", what.store), lambda iri: vocab.DataStoreInstance(iri, label=what.store)
        )
        said["was_stored_in"] = store
    characteristics = [_characteristic(lifter, what, title, value) for title, value in what.values.items()]
    if what.kind == "model":
        lifter.things.append(vocab.Model(iri, was_derived_from_attribute=lifter.plan.model(what.name), **said))
    elif what.kind == "features":
        plan = lifter.plan.features(what.name)
        lifter.things.append(
            vocab.FeatureSetData(
                iri, was_derived_from_attribute=plan, has_feature_set_characteristic_value=characteristics, **said
            )
        )
    else:
        plan = lifter.plan.dataset(what.name)
        lifter.things.append(
            vocab.LearningDataset(
                iri, was_derived_from_attribute=plan, has_dataset_characteristic_value=characteristics, **said
            )
        )


def _characteristic(lifter: Lifter, what: event.Data, title: str, value: event.Value) -> IRI:
    iri = IRI(f"{lifter.run}/data/{name.slug(what.ref)}/{name.slug(title)}")
    cls = vocab.FeatureSetCharacteristicValue if what.kind == "features" else vocab.DatasetCharacteristicValue
    plan = lifter.plan.characteristic(what.kind, title)
    lifter.things.append(cls(iri, was_derived_from_attribute=plan, value=decode_value(value)))
    return iri


def used(lifter: Lifter, what: event.Used) -> None:
    iri = name.data(lifter.run, what.ref)
    if what.role == "model":
        stage = lifter.place(what.at.partition("/")[0])
        said: dict[str, Any] = {"evaluated" if stage.kind in LEARNING else "used": iri}
    else:
        said = {"used": iri}
        if what.role:
            role = ROLES.get(what.role) or vocab.DatasetRole(name.shared("role", what.role), label=what.role)
            usage = IRI(f"{lifter.run}/{what.at}/usage/{name.slug(what.ref)}-{name.slug(what.role)}")
            lifter.plan.once(role.iri, lambda _: role)
            lifter.things.append(vocab.Usage(usage, entity=iri, had_role=role.iri))
            said["qualified_usage"] = usage
    lifter.things.append(lifter.execution(what.at, **said))


def produced(lifter: Lifter, what: event.Produced) -> None:
    iri = name.data(lifter.run, what.ref)
    at = IRI(f"{lifter.run}/{what.at}")
    kind = lifter.state.refs.get(what.ref, "dataset")
    if kind != "model":
        cls = vocab.FeatureSetData if kind == "features" else vocab.LearningDataset
        plan = lifter.plan.features if kind == "features" else lifter.plan.dataset
        known = lifter.state.refs.get(f"name:{what.ref}", what.ref)
        lifter.things.append(cls(iri, was_derived_from_attribute=plan(known), was_generated_by=at))
        return
    stage_at, _, index = what.at.partition("/")
    network = IRI(f"{lifter.run}/{stage_at}/network") if lifter.place(stage_at).has_network else None
    known = lifter.state.refs.get(f"name:{what.ref}", "")
    lifter.things.append(
        vocab.Model(
            iri, was_derived_from_attribute=lifter.plan.model(known), was_generated_by=at, has_model_schema=network
        )
    )
    values = {"epoch": int(index), **what.values} if index else what.values
    for title, value in values.items():
        lifter.things.append(
            vocab.ModelHyperparameterValue(
                IRI(f"{iri}/hyperparameter/{name.slug(title)}"),
                was_derived_from_attribute=lifter.plan.model_hyperparameter(title),
                was_generated_by=at,
                value=decode_value(value),
            )
        )
