"""Data and models as things: how they are identified, who used them and who produced them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from provml import vocab
from provml.errors import InvalidIRI
from provml.journal import events
from provml.journal.events import LEARNING_KINDS
from provml.journal.location import parse_location
from provml.mapping import iris
from provml.mapping.context import MappingContext
from provml.mapping.layers import schema_of_model
from provml.mapping.state import ArtifactState, SectionState
from provml.model.values import IRI
from provml.rdf.json_values import decode_value
from provml.rdf.namespaces import NODES

ROLES = {
    "raw": vocab.RAW_ROLE,
    "training": vocab.TRAINING_ROLE,
    "validation": vocab.VALIDATION_ROLE,
    "test": vocab.TEST_ROLE,
}
SHARED_DATA = f"{NODES}data/"
"""Start of the IRIs of data that all runs call by the same name."""
EVALUATION_ROLES = ("validation", "test")
"""Roles of data that a training measures itself on; it learns from data in any other role."""
LEARNING_ROLES = ("raw", "training")
"""Roles of data that an evaluation does not measure a model on."""
DATA_CLASSES: dict[str, type[vocab.DataReference]] = {
    "model": vocab.Model,
    "features": vocab.FeatureSetData,
    "file": vocab.DataReference,
}


def map_data(context: MappingContext, event: events.Data) -> None:
    """Map the description of data."""
    if event.saved:
        _map_saved_model(context, event)
        return
    artifact = _update_artifact(context, event)
    values = _identity(artifact) | _storage(context, artifact, event)
    values["about"] = list(_concepts(context, event.about))
    characteristics = [_characteristic(context, event, artifact, *item) for item in event.values.items()]
    if event.kind == "features":
        values["has_feature_set_characteristic_value"] = characteristics
    elif event.kind not in ("model", "file"):
        values["has_dataset_characteristic_value"] = characteristics
    context.emit(_data_node(context, artifact, IRI(artifact.content_iri), **values))


def _storage(context: MappingContext, artifact: ArtifactState, event: events.Data) -> dict[str, Any]:
    """Return where and in which format data is stored."""
    values: dict[str, Any] = {"path": event.path or None}
    if event.media_type and _ordinal(artifact, "media", event.media_type) == 1:
        values["media_type"] = event.media_type
    if event.store:
        store = iris.shared_iri("store", event.store)
        values["was_stored_in"] = context.plan.emit_once(vocab.DataStoreInstance, store, label=event.store)
    return values


def _map_saved_model(context: MappingContext, event: events.Data) -> None:
    """Map that a model was saved in a file: the model is an alternate of the content of each of its files.

    Digest and size of the first file are those of the model.
    """
    artifact = artifact_state(context, event.ref, "model")
    values = _storage(context, artifact, event)
    if event.sha256:
        if not artifact.sha256:
            artifact.sha256, artifact.size = event.sha256, event.size
        file = ArtifactState("model", artifact.name, "", "", sha256=event.sha256, size=event.size)
        file.paths = [event.path] if event.path else []
        values |= {"alternate_of": _file_content(context, file), **_identity(artifact)}
        if event.sha256 == artifact.sha256:
            artifact.paths += [path for path in file.paths if path not in artifact.paths]
    iri = IRI(artifact.iri)
    context.emit(_data_node(context, artifact, iri, **values))
    if artifact.produced_by:
        _emit_model_hyperparameters(context, artifact, event.values)


def _update_artifact(context: MappingContext, event: events.Data) -> ArtifactState:
    artifact = context.state.artifacts.get(event.ref)
    if artifact is None:
        suffix = "" if "@" in event.ref else context.state.writer_suffix
        iri = str(iris.data_iri(context.run, event.ref, suffix))
        artifact = context.state.artifacts[event.ref] = ArtifactState(event.kind, event.name, iri, iri)
    artifact.kind, artifact.name = event.kind, event.name
    if event.sha256 != artifact.sha256:  # a model of another content
        artifact.paths = []
    if event.path and event.path not in artifact.paths:
        artifact.paths.append(event.path)
    artifact.sha256, artifact.size = event.sha256, event.size
    return artifact


def _identity(artifact: ArtifactState) -> dict[str, Any]:
    return {"sha256": artifact.sha256 or None, "size_bytes": artifact.size if artifact.size >= 0 else None}


def _data_node(context: MappingContext, artifact: ArtifactState, iri: IRI, **values: Any) -> vocab.DataReference:
    """Return the node of data, with the attribute of the plan that it is a value of."""
    cls = DATA_CLASSES.get(artifact.kind, vocab.LearningDataset)
    return cls(iri, was_derived_from_attribute=_attribute(context, artifact.kind, artifact.name), **values)


def _attribute(context: MappingContext, kind: str, name: str) -> IRI:
    """Return the attribute of the plan that data of a kind is a value of."""
    plan = context.plan
    if kind == "model":
        return plan.model(name)
    if kind == "features":
        return plan.features(name)
    return plan.file(name) if kind == "file" else plan.dataset(name)


def _concepts(context: MappingContext, about: list[str]) -> Iterator[IRI]:
    for concept in about:
        try:
            yield IRI(concept)
        except InvalidIRI as error:
            context.problems.append(str(error))


def _ordinal(artifact: ArtifactState, key: str, value: Any) -> int:
    """Return the 1-based position of a value among the distinct values recorded under a key."""
    values = artifact.characteristics.setdefault(key, [])
    if str(value) not in values:
        values.append(str(value))
    return values.index(str(value)) + 1


def _characteristic(
    context: MappingContext, event: events.Data, artifact: ArtifactState, name: str, value: events.Value
) -> IRI:
    is_features = event.kind == "features"
    cls = vocab.FeatureSetCharacteristicValue if is_features else vocab.DatasetCharacteristicValue
    kind = "feature-characteristic" if is_features else "characteristic"
    ordinal = _ordinal(artifact, f"{kind}/{name}", value)
    number = f"/{ordinal}" if ordinal > 1 else ""
    is_shared = _is_shared(artifact)
    owner = f"{context.run}/data/{iris.quote_segment(event.ref)}" if is_shared else artifact.content_iri
    iri = IRI(f"{owner}/{kind}/{iris.quote_segment(name)}{number}{context.state.writer_suffix}")
    attribute = context.plan.characteristic(event.kind, name)
    context.emit(cls(iri, was_derived_from_attribute=attribute, value=decode_value(value)))
    return iri


def map_artifact(context: MappingContext, event: events.Artifact) -> None:
    """Map that the content of data was stored, as an entity of the run that specializes the content."""
    state = artifact_state(context, event.ref)
    content = iris.data_iri(context.run, f"sha256:{event.sha256}")
    if state.kind == "model":  # its own node is not the content
        _file_content(context, state)
    name = iris.quote_segment(event.name)
    iri = IRI(f"{context.run}/artifact/{event.sha256[:16]}/{name}{context.state.writer_suffix}")
    if context.plan.register(iri):  # the same content under the same name again
        context.emit(
            vocab.Artifact(
                iri,
                label=event.name,
                was_derived_from_attribute=_attribute(context, state.kind, state.name),
                specialization_of=content,
                sha256=event.sha256,
                size_bytes=event.size if event.size >= 0 else None,
                media_type=event.media_type or None,
                path=event.path or None,
                generated_at_time=iris.to_datetime(event.time),
            )
        )
    context.emit_run(has_artifact=iri)


# ---- references


def artifact_state(context: MappingContext, ref: str, kind: str = "dataset") -> ArtifactState:
    """Return the state of referenced data; inferred from the reference if its description is lost."""
    artifacts = context.state.artifacts
    artifact = artifacts.get(ref)
    if artifact is None and context.inherit_state():
        artifact = artifacts.get(ref)
    if artifact is None:
        iri = iris.data_iri(context.run, ref)
        artifact = artifacts[ref] = ArtifactState(kind, ref, str(iri), str(iri))
        context.emit(_data_node(context, artifact, iri))
    return artifact


def current_entity(context: MappingContext, ref: str, kind: str = "dataset") -> IRI:
    """Return the entity that a reference means now: the one that this run produced, else the content."""
    return IRI(artifact_state(context, ref, kind).iri)


# ---- use


def map_used(context: MappingContext, event: events.Used) -> None:
    """Map that a stage or a step used data, in a role."""
    section = context.section_state(event.location)
    if event.role == "model":
        values = _model_usage(context, event)
    else:
        iri = current_entity(context, event.ref)
        values = {"used": iri}
        if event.role:
            values["qualified_usage"] = _qualified_usage(context, event, section, iri)
            _link_purpose(context, event, iri)
        context.links.add_use(context.step_iri(event.location), iri)
    context.emit_execution(event.location, **values)


def _link_purpose(context: MappingContext, event: events.Used, entity: IRI) -> None:
    """State that a training, also in one of its epochs, learned from data, or that an evaluation measured on it."""
    kind, stage = context.stage_state(event.location).kind, parse_location(event.location).stage_location
    if kind == "training" and event.role not in EVALUATION_ROLES:
        context.emit_execution(stage, learned_from=entity)
    elif kind == "evaluation" and event.role not in LEARNING_ROLES:
        context.emit_execution(stage, evaluated_on=entity)


def _model_usage(context: MappingContext, event: events.Used) -> dict[str, Any]:
    """Return the values of an execution that used a model; learning stages evaluate it."""
    iri = current_entity(context, event.ref, "model")
    artifact = context.state.artifacts[event.ref]
    is_model = artifact.kind == "model"
    is_learning = context.stage_state(event.location).kind in LEARNING_KINDS
    values: dict[str, Any] = {"evaluated": iri} if is_model and is_learning else {"used": [iri]}
    if is_model and artifact.sha256 and not artifact.generations:  # another run may have produced the same content
        values.setdefault("used", []).append(_file_content(context, artifact))
    for entity in (iri, *values.get("used", ())):
        context.links.add_use(context.step_iri(event.location), entity)
    return values


def _qualified_usage(context: MappingContext, event: events.Used, section: SectionState, entity: IRI) -> IRI:
    role = ROLES.get(event.role) or vocab.DatasetRole(iris.shared_iri("role", event.role), label=event.role)
    if context.plan.register(role.iri):
        context.emit(role)
    generations = context.state.artifacts[event.ref].generations
    number = f"/{generations}" if generations > 1 else ""
    ref, role_name = iris.quote_segment(event.ref), iris.quote_segment(event.role)
    usage = IRI(f"{context.section_iri(section)}/usage/{ref}/{role_name}{number}{section.iri_suffix}")
    context.emit(vocab.Usage(usage, entity=entity, had_role=role.iri))
    return usage


def _file_content(context: MappingContext, artifact: ArtifactState) -> IRI:
    """Emit the content of a model's file, which all runs share."""
    content = iris.data_iri(context.run, f"sha256:{artifact.sha256}")
    attribute = context.plan.model(artifact.name)
    context.emit(
        vocab.DataReference(content, was_derived_from_attribute=attribute, path=artifact.paths, **_identity(artifact))
    )
    return content


# ---- production


def map_produced(context: MappingContext, event: events.Produced) -> None:
    """Map that data was produced.

    An entity is generated only once, and all runs share content. Therefore a run that produces some content has an
    entity of its own for it, and another one each time that it produces the same data again.
    """
    artifact = artifact_state(context, event.ref)
    if not event.location:
        values = {"was_generated_by": context.run, **_next_generation(context, event.ref, artifact)}
        context.emit(_data_node(context, artifact, IRI(artifact.iri), **values))
        return
    section = context.section_state(event.location)
    execution = context.section_iri(section)
    values = {"was_generated_by": execution, **_next_generation(context, event.ref, artifact)}
    iri = IRI(artifact.iri)
    if artifact.kind == "model":
        stage = context.stage_state(event.location)
        values["has_model_schema"] = schema_of_model(context, stage, artifact.name)
        if artifact.sha256:  # links the runs that continue from the file
            values["alternate_of"] = _file_content(context, artifact)
    context.emit(_data_node(context, artifact, iri, **values))
    context.links.add_product(context.step_iri(event.location), iri)
    if artifact.kind == "model":
        epoch = parse_location(event.location).epoch
        artifact.produced_by = str(execution)
        hyperparameters = {section.kind: epoch, **event.values} if epoch is not None else event.values
        _emit_model_hyperparameters(context, artifact, hyperparameters)


def _next_generation(context: MappingContext, ref: str, artifact: ArtifactState) -> dict[str, Any]:
    """Count a production of data, set its current entity, and return the values of a specialized entity."""
    artifact.generations += 1
    is_shared = _is_shared(artifact)
    if artifact.generations == 1 and not is_shared:
        return {}
    number = f"/{artifact.generations}" if artifact.generations > 1 else ""
    if not is_shared:
        artifact.iri = f"{artifact.content_iri}{number}"
        return {"specialization_of": IRI(artifact.content_iri)}
    artifact.iri = f"{context.run}/data/{iris.quote_segment(ref)}{context.state.writer_suffix}{number}"
    return {"specialization_of": IRI(artifact.content_iri), **_identity(artifact), "path": artifact.paths}


def _is_shared(artifact: ArtifactState) -> bool:
    """Return whether all runs share the node of data: it stands for a content, or for a name that all runs use."""
    return artifact.content_iri.startswith(("urn:", SHARED_DATA))


def _emit_model_hyperparameters(context: MappingContext, artifact: ArtifactState, values: events.Values) -> None:
    for name, value in values.items():
        iri = f"{artifact.iri}/hyperparameter/{iris.quote_segment(name)}"
        ordinal = _ordinal(artifact, iri, value)
        context.emit(
            vocab.ModelHyperparameterValue(
                IRI(iri if ordinal == 1 else f"{iri}/{ordinal}"),
                was_derived_from_attribute=context.plan.model_hyperparameter(name),
                was_generated_by=IRI(artifact.produced_by),
                value=decode_value(value),
            )
        )


# ---- implementations


def map_implementation(context: MappingContext, event: events.Implementation) -> None:
    """Map what carried out a stage or a step; its characteristics belong to this run."""
    emit_once = context.plan.emit_once
    version = event.version or None
    algorithm = software = None
    if event.algorithm:
        iri = iris.shared_iri("algorithm", event.algorithm)
        algorithm = emit_once(vocab.Algorithm, iri, label=event.algorithm)
    if event.software:
        iri = iris.shared_iri("software", event.software, *([version] if version else []))
        software = emit_once(vocab.Software, iri, label=event.software, software_version=version)
    name = iris.quote_segment(f"{event.name} {event.source}")  # the same name may occur in two source files
    implementation = IRI(f"{context.run}#implementation/{name}")
    characteristics = []
    for key, value in event.values.items():
        iri = IRI(f"{implementation}/{iris.quote_segment(key)}")
        characteristics.append(iri)
        context.emit(vocab.ImplementationCharacteristic(iri, label=key, value=decode_value(value)))
    context.emit(
        vocab.Implementation(
            implementation,
            label=event.name,
            software_version=version,
            implements_algorithm=algorithm,
            is_part_of_software=software,
            has_implementation_characteristic=characteristics,
            at_location=context.file_location(event.source) if event.source else None,
        )
    )
    context.emit_execution(event.location, was_associated_with=implementation)
