"""Kinds of steps by the names that scripts give to them."""

from __future__ import annotations

import re

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
"""Kind of a step by its name."""
HYPERPARAMETERS = {
    "learning_rate": ("lrate", "lr", "learningrate"),
    "optimizer": ("optimizername",),
    "epochs": ("numepochs", "nepochs", "maxepochs", "numberofepochs"),
}
"""Names under which hyperparameters are recorded, and other names that scripts have for them."""


def kind_of(name: str) -> str:
    """Return the kind of a step by its name; "step" for any other name."""
    bare = re.sub(r"[^a-z]", "", name.lower())
    return next((kind for kind, tags in KINDS.items() if bare in tags), "step")


def hyperparameter_of(name: str) -> str:
    """Return the name under which a hyperparameter is recorded, whichever way it comes."""
    bare = name.lower().replace("_", "")
    return next((own for own, others in HYPERPARAMETERS.items() if bare in others), name)
