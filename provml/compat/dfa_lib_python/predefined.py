"""What DNNProv and DLProv declare by themselves: the transformations of a training, with their sets."""

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
"""Transformations, each with its sets: the columns of a set (`#` a number, `@` a file, else text) or, for what another
transformation gives out, the tag of that one."""


def dnnprov() -> list[Transformation]:
    """Training, adaptation and testing."""
    return _made(DNNPROV)


def dlprov() -> list[Transformation]:
    """From loading the data to testing."""
    return _made(DLPROV)


def _made(said: dict[str, dict[str, str]]) -> list[Transformation]:
    made = []
    for tag, sets in said.items():
        transformation = Transformation(tag)
        for title, columns in sets.items():
            source = columns if columns in said else ""
            side = SetType.INPUT if source or title.startswith("i") else SetType.OUTPUT
            attributes = [_attribute(one) for one in (said[source][title] if source else columns).split()]
            transformation.add_set(Set(title, side, attributes, dependency=source.lower()))
        made.append(transformation)
    return made


def _attribute(said: str) -> Attribute:
    return Attribute(said.lstrip("#@"), TYPES.get(said[0], AttributeType.TEXT))
