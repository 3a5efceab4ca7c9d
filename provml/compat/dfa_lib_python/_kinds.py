"""A dataflow as the workflow of a run, and the columns of its sets."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from provml import workflow as flow
from provml.compat.dfa_lib_python._rows import BOOKKEEPING, FILE_TYPES
from provml.compat.dfa_lib_python.attribute import Attribute
from provml.compat.dfa_lib_python.attribute_type import AttributeType
from provml.compat.dfa_lib_python.dataflow import Dataflow
from provml.compat.dfa_lib_python.extractor import Extractor
from provml.compat.dfa_lib_python.extractor_cartridge import ExtractorCartridge
from provml.compat.dfa_lib_python.set import Set
from provml.compat.dfa_lib_python.set_type import SetType
from provml.compat.dfa_lib_python.transformation import Transformation
from provml.journal.events import LEARNING_KINDS
from provml.recording.kinds import hyperparameter_of, kind_of

TYPES = {AttributeType.NUMERIC: "double", AttributeType.TEXT: "string"}
EPOCH_NUMBERS = ("epoch", "epoch_id")
"""Columns with the number of an epoch; Keras-Prov uses the second."""
EPOCH_COLUMNS = (*EPOCH_NUMBERS, "elapsed_time")


def measure_of(name: str) -> str:
    """Return the name of a measure: training, validation and test share it; Keras-Prov prefixes those of its test."""
    return name.removeprefix("val_").removeprefix("otest_")


def is_layer(names: Collection[str]) -> bool:
    """Return whether a row with these columns is a layer of Keras-Prov."""
    return "name" in names and "value" in names and ("attribute_type" in names or "type" in names)


def to_workflow(dataflow: Dataflow) -> dict[str, Any]:
    """Return the workflow that a dataflow declares, as plain data for an event.

    Adaptations are part of the training that they change.
    """
    workflow = flow.Workflow(dataflow.tag)
    transformations = dataflow.merged()
    for transformation in transformations:
        if kind_of(transformation.tag) != "adaptation":
            workflow.transformations[transformation.tag] = _step(workflow, transformation)
    all_sets = (data_set for transformation in transformations for data_set in transformation.set_objects)
    for data_set in (data_set for data_set in all_sets if not data_set.dependency):
        for extractor in data_set.extractor_objects:
            is_taken = extractor.tag in workflow.transformations
            name = f"{extractor.tag} ({data_set.tag})" if is_taken else extractor.tag
            workflow.transformations[name] = _extraction(workflow, data_set, extractor)
    workflow.version = flow.content_version(workflow)
    fields: dict[str, Any] = msgspec.to_builtins(workflow)
    return fields


def _step(workflow: flow.Workflow, transformation: Transformation) -> flow.Transformation:
    kind = kind_of(transformation.tag)
    input_sets, output_sets = transformation.sets_of(SetType.INPUT), transformation.sets_of(SetType.OUTPUT)
    inputs = {key for data_set in input_sets for key in _inputs(workflow, kind, data_set)}
    outputs = {key for data_set in output_sets for key in _outputs(workflow, kind, data_set)}
    if kind == "training":
        outputs.add(_declare(workflow, workflow.name, "model"))
    elif kind == "evaluation":
        inputs.add(_declare(workflow, workflow.name, "model"))
    return flow.Transformation(kind, inputs=sorted(inputs), outputs=sorted(outputs))


def _extraction(workflow: flow.Workflow, data_set: Set, extractor: Extractor) -> flow.Transformation:
    """Return the step that extracts the rows of a set from its files."""
    files = sorted(
        _declare(workflow, column.name.lower(), "dataset") for column in data_set.columns if column.kind in FILE_TYPES
    )
    kind = "extraction" if extractor.cartridge_type is ExtractorCartridge.EXTRACTION else "step"
    description = f"{extractor.cartridge.lower()} ({extractor.extension})"
    return flow.Transformation(kind, description, inputs=files, outputs=[_declare(workflow, data_set._tag, "dataset")])


def _inputs(workflow: flow.Workflow, kind: str, data_set: Set) -> list[str]:
    """Declare the inputs of a set: files as data, all else as parameters; only the files if it is an output."""
    if data_set.dependency:
        names = [column.name.lower() for column in data_set.columns if column.kind in FILE_TYPES]
        return [_declare(workflow, name, "dataset") for name in names if "model" not in name]
    if kind == "training" and is_layer([column.name.lower() for column in data_set.columns]):
        return []
    parameter_kind = "hyperparameter" if kind in LEARNING_KINDS else "parameter"
    return [
        _declare(
            workflow,
            _parameter_name(column, kind),
            "dataset" if column.kind in FILE_TYPES else parameter_kind,
            TYPES.get(column.kind),
        )
        for column in data_set.columns
        if not BOOKKEEPING.fullmatch(column.name.lower())
    ]


def _outputs(workflow: flow.Workflow, kind: str, data_set: Set) -> list[str]:
    """Declare the outputs of a set: files as data, numbers of learning as measures, other rows as data."""
    files = [column.name.lower() for column in data_set.columns if column.kind in FILE_TYPES]
    if kind in LEARNING_KINDS:
        numbers = [column.name.lower() for column in data_set.columns if column.kind is AttributeType.NUMERIC]
        measures = {measure_of(name) for name in numbers if name not in EPOCH_COLUMNS}
        data = [] if kind == "training" else files
        keys = [_declare(workflow, name, "measure", "double") for name in sorted(measures)]
        return [*keys, *(_declare(workflow, name, "dataset") for name in data)]
    if kind == "filter" and not files:
        return []
    return [_declare(workflow, name, "dataset") for name in files or [data_set._tag]]


def _parameter_name(column: Attribute, kind: str) -> str:
    name = column.name.lower()
    if kind == "training":
        return hyperparameter_of(name)
    return "filter_name" if kind == "filter" and name in ("filter_type", "filter") else name


def _declare(workflow: flow.Workflow, name: str, kind: str, datatype: str | None = None) -> str:
    """Declare an attribute once and return its key; a name that another kind uses gets the kind as a suffix."""
    existing = workflow.attributes.get(name)
    key = name if existing is None or existing.kind == kind else f"{name} ({kind})"
    if key not in workflow.attributes:
        workflow.attributes[key] = flow.Attribute(kind, name=name if key != name else "", type=datatype)
    return key
