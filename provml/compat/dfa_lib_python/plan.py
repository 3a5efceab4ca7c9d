"""A dataflow as the prospective side of a run: its steps and their attributes, as a workflow file says them."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import msgspec

from provml import workflow as flow
from provml.compat.dfa_lib_python.attribute import Attribute
from provml.compat.dfa_lib_python.attribute_type import AttributeType
from provml.compat.dfa_lib_python.dataflow import Dataflow
from provml.compat.dfa_lib_python.extractor import Extractor
from provml.compat.dfa_lib_python.extractor_cartridge import ExtractorCartridge
from provml.compat.dfa_lib_python.row import BOOKKEEPING, FILES
from provml.compat.dfa_lib_python.set import Set
from provml.compat.dfa_lib_python.set_type import SetType
from provml.compat.dfa_lib_python.transformation import Transformation
from provml.event import LEARNING

KINDS = {
    "training": ("training", "trainingmodel", "train", "trainmodel", "fit"),
    "adaptation": ("adaptation", "adapt"),
    "evaluation": ("testing", "testingmodel", "test", "testmodel", "evaluation", "evaluate", "evaluatemodel"),
    "validation": ("validation", "validationmodel", "validate", "validatemodel"),
    "filter": ("filter", "filters", "applyfilter", "applyfilters"),
    "split": ("split", "splitdata", "datasplit", "splitdataset"),
    "preparation": ("preparation", "datapreparation", "preparedata", "preprocessing", "preprocess"),
    "extraction": ("featureextraction", "extractfeatures"),
}
"""What a transformation is, by its tag."""
TYPES = {AttributeType.NUMERIC: "double", AttributeType.TEXT: "string"}
OF_EPOCHS = ("epoch", "elapsed_time")


def kind_of(tag: str) -> str:
    """What a transformation does, told by its tag; a step, where that does not tell."""
    bare = re.sub(r"[^a-z]", "", tag.lower())
    return next((kind for kind, tags in KINDS.items() if bare in tags), "step")


def measure_of(name: str) -> str:
    """The name of a measure: that of the validation is the same as that of the training."""
    return name.removeprefix("val_")


def is_layer(names: Collection[str]) -> bool:
    """Whether a row with these columns is a layer, as Keras-Prov tells them."""
    return "name" in names and "value" in names and ("attribute_type" in names or "type" in names)


def workflow(dataflow: Dataflow) -> dict[str, Any]:
    """The workflow that a dataflow declares, as an event holds it. Adaptations come with what they change."""
    made = flow.Workflow(dataflow.tag)
    steps = dataflow.merged()
    for one in steps:
        if kind_of(one.tag) != "adaptation":
            made.transformations[one.tag] = _step(made, one)
    for held in (held for one in steps for held in one.held if not held.dependency):
        for extractor in held.readers:
            taken = extractor.tag in made.transformations
            made.transformations[f"{extractor.tag} ({held.tag})" if taken else extractor.tag] = _extraction(
                made, held, extractor
            )
    made.version = flow.content_version(made)
    said: dict[str, Any] = msgspec.to_builtins(made)
    return said


def _step(made: flow.Workflow, one: Transformation) -> flow.Transformation:
    kind = kind_of(one.tag)
    inputs = {key for held in one.on(SetType.INPUT) for key in _inputs(made, kind, held)}
    outputs = {key for held in one.on(SetType.OUTPUT) for key in _outputs(made, kind, held)}
    if kind == "training":
        outputs.add(_declare(made, made.name, "model"))
    elif kind == "evaluation":
        inputs.add(_declare(made, made.name, "model"))
    return flow.Transformation(kind, inputs=sorted(inputs), outputs=sorted(outputs))


def _extraction(made: flow.Workflow, held: Set, extractor: Extractor) -> flow.Transformation:
    """What gets the rows of a set out of its files."""
    files = sorted(_declare(made, one.name.lower(), "dataset") for one in held.columns if one.kind in FILES)
    kind = "extraction" if extractor.does is ExtractorCartridge.EXTRACTION else "step"
    said = f"{extractor.cartridge.lower()} ({extractor.extension})"
    return flow.Transformation(kind, said, inputs=files, outputs=[_declare(made, held._tag, "dataset")])


def _inputs(made: flow.Workflow, kind: str, held: Set) -> list[str]:
    """Files are data, all else parameters; of what another gives out, what that gives out as data."""
    if held.dependency:
        files = [one.name.lower() for one in held.columns if one.kind in FILES and "model" not in one.name.lower()]
        return [_declare(made, name, "dataset") for name in files]
    if kind == "training" and is_layer([one.name.lower() for one in held.columns]):
        return []
    of = "hyperparameter" if kind in LEARNING else "parameter"
    return [
        _declare(made, _title(one, kind), "dataset" if one.kind in FILES else of, TYPES.get(one.kind))
        for one in held.columns
        if not BOOKKEEPING.fullmatch(one.name.lower())
    ]


def _outputs(made: flow.Workflow, kind: str, held: Set) -> list[str]:
    """Files are data, numbers of learning are measures; the rows of any other set are data."""
    files = [one.name.lower() for one in held.columns if one.kind in FILES]
    if kind in LEARNING:
        numbers = [one.name.lower() for one in held.columns if one.kind is AttributeType.NUMERIC]
        measures = {measure_of(name) for name in numbers if name not in OF_EPOCHS}
        data = [] if kind == "training" else files
        found = [_declare(made, name, "measure", "double") for name in sorted(measures)]
        return [*found, *(_declare(made, name, "dataset") for name in data)]
    if kind == "filter" and not files:
        return []
    return [_declare(made, name, "dataset") for name in files or [held._tag]]


def _title(one: Attribute, kind: str) -> str:
    name = one.name.lower()
    return "filter_name" if kind == "filter" and name in ("filter_type", "filter") else name


def _declare(made: flow.Workflow, name: str, kind: str, datatype: str | None = None) -> str:
    """The key of an attribute, declared when it is first met; where its name is another kind's, with that beside it."""
    known = made.attributes.get(name)
    key = name if known is None or known.kind == kind else f"{name} ({kind})"
    if key not in made.attributes:
        made.attributes[key] = flow.Attribute(kind, name=name if key != name else "", type=datatype)
    return key
