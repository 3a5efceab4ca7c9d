"""A dataflow: the workflow that tasks execute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from provml.compat.dfa_lib_python import _dataflow_files, predefined
from provml.compat.dfa_lib_python._registry import add_missing, find_tagged
from provml.compat.dfa_lib_python.extractor import Extractor
from provml.compat.dfa_lib_python.program import Program
from provml.compat.dfa_lib_python.ProvenanceObject import ProvenanceObject, expect, expect_all, specifications
from provml.compat.dfa_lib_python.transformation import Transformation
from provml.errors import TagNotFound, WrongType

_declared: dict[str, Dataflow] = {}


class Dataflow(ProvenanceObject):
    """A workflow of transformations. `hyperparameters=True` declares those of DNNProv, `predefined=True` DLProv's.

    Scripts pass a bare `True` after the tag for either; the first task then shows which of the two is meant.
    `steps` are the transformations as objects; `transformations` are plain data, as in the originals.
    """

    def __init__(
        self,
        tag: str,
        *args: bool | str | Sequence[Transformation],
        predefined: bool = False,
        hyperparameters: bool = False,
        email: str = "",
        transformations: Sequence[Transformation] = (),
    ) -> None:
        super().__init__(tag)
        self.steps: list[Transformation] = []
        self.email = expect(self, "email", email, str)
        self.undecided = False
        for arg in args:
            if isinstance(arg, bool):
                self.undecided = arg
            elif isinstance(arg, str):
                self.email = arg
            else:
                transformations = arg
        self.transformations = transformations
        self.hyperparameters = hyperparameters
        self.predefined = predefined
        self._register()

    def _register(self) -> None:
        """Let tasks of this process find the dataflow by its tag."""
        _declared[self._tag] = self

    def _declare(self, family: str) -> None:
        self.undecided = False
        self.families.append(family)
        self.steps += predefined.dnnprov() if family == "dnnprov" else predefined.dlprov()

    @property
    def hyperparameters(self) -> bool:
        """Whether the transformations of DNNProv are declared; setting True declares them."""
        return "dnnprov" in self.families

    @hyperparameters.setter
    def hyperparameters(self, value: bool) -> None:
        if value:
            self._declare("dnnprov")

    @property
    def predefined(self) -> bool:
        """Whether the transformations of DLProv are declared; setting True declares them."""
        return "dlprov" in self.families

    @predefined.setter
    def predefined(self, value: bool) -> None:
        if value:
            self._declare("dlprov")

    @property
    def transformations(self) -> list[dict[str, Any]]:
        """Transformations as plain data."""
        return specifications(self.steps)

    @transformations.setter
    def transformations(self, transformations: Sequence[Transformation]) -> None:
        self.families: list[str] = []
        self.steps = expect_all(self, "transformations", transformations, Transformation)

    def add_transformation(self, transformation: Transformation) -> None:
        """Add a transformation. The sets of transformations with the same tag are merged."""
        self.steps.append(expect(self, "transformations", transformation, Transformation))

    def save(self) -> None:
        """Write the dataflow to the home, for tasks in other processes."""
        self._register()
        fields = {"name": self.tag, "email": self.email, "undecided": self.undecided, "families": self.families}
        steps = [{**step.get_specification(), "tag": step.tag} for step in self.merged()]
        _dataflow_files.save_dataflow(self._tag, {"tag": self._tag, "transformations": steps, **fields})

    def has(self, tag: str) -> bool:
        """Return whether a transformation is declared, or will be declared on first use."""
        is_earlier = self.predefined and tag.lower() in predefined.EARLIER_TAGS
        return self._find(tag) is not None or is_earlier or (self.undecided and family_of(tag) != "")

    def transformation(self, tag: str) -> Transformation:
        """Return a transformation by its tag."""
        if self.undecided and self._find(tag) is None and (family := family_of(tag)):
            self._declare(family)
        if self.predefined and self._find(tag) is None and (step := predefined.dlprov_earlier(tag)):
            self.steps.append(step)
        transformation = self._find(tag)
        if transformation is None:
            if self.undecided:
                self._declare("dnnprov")
            declared = tuple(step.tag for step in self.merged())
            advice = f"Correct the tag, or declare it with add_transformation(Transformation({tag!r}, …))."
            raise TagNotFound("transformation", tag, f"The dataflow {self.tag!r}", declared, advice)
        return transformation

    def _find(self, tag: str) -> Transformation | None:
        return next((step for step in self.merged() if step._tag == tag.lower()), None)

    def merged(self) -> list[Transformation]:
        """Return the transformations, merged by tag, with the programs and extractors that are tagged with them."""
        merged: dict[str, Transformation] = {}
        for step in self.steps:
            target = merged.setdefault(step._tag, Transformation(step.tag))
            target.set_sets(step.set_objects)
            add_missing(target.programs, step.programs)
        for step in merged.values():
            add_missing(step.programs, find_tagged(Program, self._tag, step._tag))
            for data_set in step.set_objects:
                extractors = find_tagged(Extractor, self._tag, step._tag, data_set._tag)
                add_missing(data_set.extractor_objects, extractors)
        return list(merged.values())

    def _fields(self) -> dict[str, Any]:
        return {"tag": self._tag, "transformations": self.transformations}


def find_dataflow(dataflow: Any, *transformations: str) -> Dataflow:
    """Return a dataflow, or find the one with a tag: declared in this process, or in the home by another process.

    The predefined transformations of DNNProv and DLProv need no declaration.
    """
    if isinstance(dataflow, Dataflow):
        return dataflow
    if not isinstance(dataflow, str):
        advice = "Pass its tag, or the Dataflow itself."
        raise WrongType("Task", "dataflow_tag", dataflow, "the tag of a dataflow", advice)
    declared = _declared.get(dataflow.lower())
    if declared is not None:
        return declared
    fields = _dataflow_files.load_dataflow(dataflow.lower())
    if fields is not None:
        return _restore(fields)
    if any(map(family_of, transformations)):
        return Dataflow(dataflow, True)
    advice = f"Declare it before its tasks, with Dataflow({dataflow!r}, …).save()."
    raise TagNotFound("dataflow", dataflow, "This process", tuple(item.tag for item in _declared.values()), advice)


def family_of(tag: str) -> str:
    """Return the family of a predefined transformation: "dnnprov", "dlprov", or an empty text."""
    for family, tags in (
        ("dnnprov", predefined.DNNPROV),
        ("dlprov", predefined.DLPROV),
        ("dlprov", predefined.DLPROV_EARLIER),
    ):
        if tag.lower() in (name.lower() for name in tags):
            return family
    return ""


def _restore(fields: dict[str, Any]) -> Dataflow:
    """Return a dataflow from its plain data."""
    dataflow = Dataflow(fields["name"], fields["undecided"], email=fields["email"])
    dataflow.steps = [_dataflow_files.restore_transformation(item) for item in fields["transformations"]]
    dataflow.families = fields.get("families", [])
    return dataflow
