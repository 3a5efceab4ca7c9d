"""Data and models as things: what they are known by, who used and who produced them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from provml import event, vocab
from provml.errors import NotAnIRI
from provml.event import LEARNING
from provml.lift import name
from provml.lift.environment import location
from provml.lift.state import Known
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
    """Take in what data is known by."""
    known = lifter.state.refs.get(what.ref)
    if known is None:
        base = str(name.data(lifter.run, what.ref, "" if "@" in what.ref else lifter.state.own))
        known = lifter.state.refs[what.ref] = Known(what.kind, what.name, base, base)
    known.kind, known.name = what.kind, what.name
    if what.sha256 != known.sha256:  # a model of another content
        known.paths = []
    if what.path and what.path not in known.paths:
        known.paths.append(what.path)
    known.sha256, known.size = what.sha256, what.size
    said: dict[str, Any] = {**_identity(known), "path": what.path or None, "about": list(_concepts(lifter, what.about))}
    if what.media and _is_new(known, "media", what.media) == 1:
        said["media_type"] = what.media
    if what.store:
        said["was_stored_in"] = lifter.plan.once(
            name.shared("store", what.store), lambda iri: vocab.DataStoreInstance(iri, label=what.store)
        )
    held = [_characteristic(lifter, what, known, title, value) for title, value in what.values.items()]
    if what.kind == "features":
        said["has_feature_set_characteristic_value"] = held
    elif what.kind != "model":
        said["has_dataset_characteristic_value"] = held
    lifter.tell(_thing(lifter, known, IRI(known.base), **said))


def _identity(known: Known) -> dict[str, Any]:
    return {"sha256": known.sha256 or None, "size_bytes": known.size if known.size >= 0 else None}


def _thing(lifter: Lifter, known: Known, iri: IRI, **said: Any) -> vocab.DataReference:
    """Data of a kind, with the attribute of the plan that it is a value of."""
    plan = lifter.plan
    if known.kind == "model":
        return vocab.Model(iri, was_derived_from_attribute=plan.model(known.name), **said)
    if known.kind == "features":
        return vocab.FeatureSetData(iri, was_derived_from_attribute=plan.features(known.name), **said)
    return vocab.LearningDataset(iri, was_derived_from_attribute=plan.dataset(known.name), **said)


def _concepts(lifter: Lifter, about: list[str]) -> Any:
    for concept in about:
        try:
            yield IRI(concept)
        except NotAnIRI as error:
            lifter.complaints.append(str(error))


def _is_new(known: Known, title: str, value: Any) -> int:
    """The how-manieth of what is said under a title a value is; the same value twice is one."""
    said = known.said.setdefault(title, [])
    if str(value) not in said:
        said.append(str(value))
    return said.index(str(value)) + 1


def _characteristic(lifter: Lifter, what: event.Data, known: Known, title: str, value: event.Value) -> IRI:
    kind = "feature-characteristic" if what.kind == "features" else "characteristic"
    count = _is_new(known, f"{kind}/{title}", value)
    again = f"/{count}" if count > 1 else ""
    head = f"{lifter.run}/data/{name.slug(what.ref)}" if known.base.startswith("urn:") else known.base
    iri = IRI(f"{head}/{kind}/{name.slug(title)}{again}{lifter.state.own}")
    cls = vocab.FeatureSetCharacteristicValue if what.kind == "features" else vocab.DatasetCharacteristicValue
    plan = lifter.plan.characteristic(what.kind, title)
    lifter.tell(cls(iri, was_derived_from_attribute=plan, value=decode_value(value)))
    return iri


def known_as(lifter: Lifter, ref: str, kind: str = "dataset") -> Known:
    """What is known of a reference; where its line is lost, what the reference tells."""
    known = lifter.state.refs.get(ref)
    if known is None and lifter.asks_kin():
        known = lifter.state.refs.get(ref)
    if known is None:
        iri = name.data(lifter.run, ref)
        known = lifter.state.refs[ref] = Known(kind, ref, str(iri), str(iri))
        lifter.tell(_thing(lifter, known, iri))
    return known


def entity(lifter: Lifter, ref: str, kind: str = "dataset") -> IRI:
    """The entity that a reference means to who uses it now: the run's own where it has made one, else the content."""
    return IRI(known_as(lifter, ref, kind).iri)


def used(lifter: Lifter, what: event.Used) -> None:
    """Take in that a stage or a step used data, in a role."""
    place = lifter.place(what.at)
    if what.role == "model":
        iri = entity(lifter, what.ref, "model")
        known = lifter.state.refs[what.ref]
        stage = lifter.place(what.at.partition("/")[0])
        is_judged = known.kind == "model" and stage.kind in LEARNING
        said: dict[str, Any] = {"evaluated": iri} if is_judged else {"used": [iri]}
        if known.kind == "model" and known.sha256 and not known.made:  # another run may have made what is in its file
            said.setdefault("used", []).append(_file(lifter, known))
    else:
        iri = entity(lifter, what.ref)
        said = {"used": iri}
        if what.role:
            role = ROLES.get(what.role) or vocab.DatasetRole(name.shared("role", what.role), label=what.role)
            made = lifter.state.refs[what.ref].made
            again = f"/{made}" if made > 1 else ""
            usage = IRI(
                f"{lifter.node(place)}/usage/{name.slug(what.ref)}/{name.slug(what.role)}{again}{place.tail}",
            )
            lifter.plan.once(role.iri, lambda _: role)
            lifter.tell(vocab.Usage(usage, entity=iri, had_role=role.iri))
            said["qualified_usage"] = usage
    lifter.tell(lifter.execution(what.at, **said))


def _file(lifter: Lifter, known: Known) -> IRI:
    """The content of a model's file, which is everybody's."""
    content = name.data(lifter.run, f"sha256:{known.sha256}")
    attribute = lifter.plan.model(known.name)
    lifter.tell(
        vocab.DataReference(content, was_derived_from_attribute=attribute, path=known.paths, **_identity(known))
    )
    return content


def produced(lifter: Lifter, what: event.Produced) -> None:
    """Take in that data was produced. An entity is generated once, and content is everybody's: what a run makes of it
    is an entity of the run's own, and so is the same made again."""
    place = lifter.place(what.at)
    at = lifter.node(place)
    known = known_as(lifter, what.ref)
    known.made += 1
    said: dict[str, Any] = {"was_generated_by": at}
    is_shared = known.base.startswith("urn:")
    if known.made > 1 or is_shared:
        again = f"/{known.made}" if known.made > 1 else ""
        head = f"{lifter.run}/data/{name.slug(what.ref)}{lifter.state.own}" if is_shared else known.base
        known.iri = f"{head}{again}"
        said["specialization_of"] = IRI(known.base)
        if is_shared:  # what is true of the content is true of it
            said |= {**_identity(known), "path": known.paths}
    iri = IRI(known.iri)
    stage_at, _, index = what.at.partition("/")
    if known.kind == "model" and lifter.place(stage_at).counts.get("network"):
        said["has_model_schema"] = IRI(f"{lifter.node(lifter.place(stage_at))}/network")
    if known.kind == "model" and known.sha256:  # whoever goes on from its file goes on from it
        said["alternate_of"] = _file(lifter, known)
    lifter.tell(_thing(lifter, known, iri, **said))
    if known.kind != "model":
        return
    values = {place.kind: int(index), **what.values} if index else what.values
    for title, value in values.items():
        lifter.tell(
            vocab.ModelHyperparameterValue(
                IRI(f"{iri}/hyperparameter/{name.slug(title)}"),
                was_derived_from_attribute=lifter.plan.model_hyperparameter(title),
                was_generated_by=at,
                value=decode_value(value),
            )
        )


def implementation(lifter: Lifter, what: event.Implementation) -> None:
    """What carried out a stage or a step, and its characteristics, which are the run's own."""
    once = lifter.plan.once
    algorithm = software = None
    if what.algorithm:
        algorithm = once(
            name.shared("algorithm", what.algorithm), lambda iri: vocab.Algorithm(iri, label=what.algorithm)
        )
    if what.software:
        software = once(
            name.shared("software", what.software, *([what.version] if what.version else [])),
            lambda iri: vocab.Software(iri, label=what.software, software_version=what.version or None),
        )
    own = name.slug(f"{what.name} {what.where}")  # two of one name may lie in two places
    iri = IRI(f"{lifter.run}#implementation/{own}")
    made = []
    for title, value in what.values.items():
        made.append(IRI(f"{iri}/{name.slug(title)}"))
        lifter.tell(vocab.ImplementationCharacteristic(made[-1], label=title, value=decode_value(value)))
    lifter.tell(
        vocab.Implementation(
            iri,
            label=what.name,
            software_version=what.version or None,
            implements_algorithm=algorithm,
            is_part_of_software=software,
            has_implementation_characteristic=made,
            at_location=location(lifter, what.where) if what.where else None,
        )
    )
    lifter.tell(lifter.execution(what.at, was_associated_with=iri))
