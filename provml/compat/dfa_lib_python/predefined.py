"""Transformations that DNNProv and DLProv predefine, with their sets."""

from __future__ import annotations

from provml.compat.dfa_lib_python.attribute import Attribute
from provml.compat.dfa_lib_python.attribute_type import AttributeType
from provml.compat.dfa_lib_python.set import Set
from provml.compat.dfa_lib_python.set_type import SetType
from provml.compat.dfa_lib_python.transformation import Transformation

TYPES = {"#": AttributeType.NUMERIC, "@": AttributeType.FILE}
EPOCH = "TIMESTAMP ELAPSED_TIME #LOSS #ACCURACY #VAL_LOSS #VAL_ACCURACY #EPOCH"
TEST = "#LOSS #ACCURACY"
DNNPROV = {
    "TrainingModel": {
        "iTrainingModel": "OPTIMIZER_NAME #LEARNING_RATE #NUM_EPOCHS #NUM_LAYERS",
        "oTrainingModel": EPOCH,
    },
    "Adaptation": {
        "oTrainingModel": "TrainingModel",
        "iAdaptation": "#EPOCHS_DROP #DROP_N #INITIAL_LRATE",
        "oAdaptation": "#NEW_LRATE TIMESTAMP #EPOCH_ID #ADAPTATION_ID",
    },
    "TestingModel": {"oTrainingModel": "TrainingModel", "oTestingModel": TEST},
}
DLPROV = {
    "LoadData": {"iInputDataset": "DATASET_NAME DATASET_SOURCE", "oLoadData": "@DATASET_DIR"},
    "ApplyFilter": {"iFilter": "FILTER_TYPE", "oLoadData": "LoadData", "oFilter": "@PP_DATASET"},
    "SplitData": {
        "oFilter": "ApplyFilter",
        "iSplitConfig": "#TRAIN_SIZE #VAL_SIZE #TEST_SIZE",
        "oTrainSet": "@TrainSetX @TrainSetY",
        "oValSet": "@ValSetX @ValSetY",
        "oTestSet": "@TestSetX @TestSetY",
    },
    "Train": {
        "oTrainSet": "SplitData",
        "oValSet": "SplitData",
        "iTrain": "OPTIMIZER_NAME #LEARNING_RATE #NUM_EPOCHS #BATCH_SIZE #NUM_LAYERS",
        "oTrain": EPOCH,
        "oTrainedModel": "MODEL_NAME @MODEL_DIR",
        "oWeights": "@WEIGHTS_PATH",
    },
    "Test": {"oTestSet": "SplitData", "oTrainedModel": "Train", "oTest": TEST},
}
DLPROV_EARLIER = {
    "LoadData": DLPROV["LoadData"],
    "NormalizeData": {"iInputDataset": "DATASET_NAME DATASET_SOURCE", "oNormalizeData": "@DATASET_DIR"},
    "RandomHorizontal": {"oLoadData": "LoadData", "oRandomHorizontal": "@DATASET_DIR"},
    "Normalize": {"oRandomHorizontal": "RandomHorizontal", "oNormalize": "@DATASET_DIR"},
    "SplitData": DLPROV["SplitData"],
    "TrainModel": {
        "oTrainSet": "SplitData",
        "oValSet": "SplitData",
        "iTrainModel": "OPTIMIZER_NAME #LEARNING_RATE #NUM_EPOCHS #NUM_LAYERS",
        "oTrainModel": EPOCH,
        "oTrainedModel": "MODEL_NAME @MODEL_DIR",
        "oWeights": "@WEIGHTS_PATH",
    },
    "TestModel": {"oTestSet": "SplitData", "oTrainedModel": "TrainModel", "oTestModel": TEST},
}
"""Transformations with their sets: the columns of a set (`#` a number, `@` a file, else text) or, for the output of
another transformation, the tag of that transformation. Earlier versions of DLProv name some of them differently."""
EARLIER_TAGS = {tag.lower() for tag in DLPROV_EARLIER if tag not in DLPROV}


def dnnprov() -> list[Transformation]:
    """Return training, adaptation and testing."""
    return _transformations(DNNPROV)


def dlprov() -> list[Transformation]:
    """Return the transformations from loading the data to testing."""
    return _transformations(DLPROV)


def dlprov_earlier(tag: str) -> Transformation | None:
    """Return a transformation that only earlier versions of DLProv predefine; None for any other tag."""
    steps = _transformations(DLPROV_EARLIER) if tag.lower() in EARLIER_TAGS else []
    return next((step for step in steps if step._tag == tag.lower()), None)


def _transformations(specification: dict[str, dict[str, str]]) -> list[Transformation]:
    transformations = []
    for tag, sets in specification.items():
        transformation = Transformation(tag)
        for name, columns in sets.items():
            source = columns if columns in specification else ""
            side = SetType.INPUT if source or name.startswith("i") else SetType.OUTPUT
            attributes = [_attribute(text) for text in (specification[source][name] if source else columns).split()]
            transformation.add_set(Set(name, side, attributes, dependency=source.lower()))
        transformations.append(transformation)
    return transformations


def _attribute(text: str) -> Attribute:
    return Attribute(text.lstrip("#@"), TYPES.get(text[0], AttributeType.TEXT))
