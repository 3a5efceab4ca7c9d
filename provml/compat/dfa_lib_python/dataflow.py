"""A dataflow: the workflow that tasks execute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from provml.compat.dfa_lib_python import kept, predefined
from provml.compat.dfa_lib_python.extractor import Extractor
from provml.compat.dfa_lib_python.program import Program
from provml.compat.dfa_lib_python.ProvenanceObject import ProvenanceObject, expect, expect_all, specifications
from provml.compat.dfa_lib_python.tagged import add, tagged
from provml.compat.dfa_lib_python.transformation import Transformation
from provml.errors import NoSuchTag, WrongType

_declared: dict[str, Dataflow] = {}


class Dataflow(ProvenanceObject):
    """A workflow of transformations. `hyperparameters=True` declares those of DNNProv, `predefined=True` DLProv's.

    A bare `True` after the tag, which stands for either in their scripts, declares those that the first task is of.
    `steps` are the transformations; by the name of the originals they are plain data.
    """

    def __init__(
        self,
        tag: str,
        *given: bool | str | Sequence[Transformation],
        predefined: bool = False,
        hyperparameters: bool = False,
        email: str = "",
        transformations: Sequence[Transformation] = (),
    ) -> None:
        super().__init__(tag)
        self.steps: list[Transformation] = []
        self.email = expect(self, "email", email, str)
        self.undecided = False
        for one in given:
            if isinstance(one, bool):
                self.undecided = one
            elif isinstance(one, str):
                self.email = one
            else:
                transformations = one
        self.transformations = transformations
        self.hyperparameters = hyperparameters
        self.predefined = predefined
        _declared[self._tag] = self

    def _declare(self, whose: str) -> None:
        self.undecided = False
        self.families.append(whose)
        self.steps += predefined.dnnprov() if whose == "dnnprov" else predefined.dlprov()

    @property
    def hyperparameters(self) -> bool:
        """Whether it declares the transformations of DNNProv; to say so declares them."""
        return "dnnprov" in self.families

    @hyperparameters.setter
    def hyperparameters(self, wanted: bool) -> None:
        if wanted:
            self._declare("dnnprov")

    @property
    def predefined(self) -> bool:
        """Whether it declares the transformations of DLProv; to say so declares them."""
        return "dlprov" in self.families

    @predefined.setter
    def predefined(self, wanted: bool) -> None:
        if wanted:
            self._declare("dlprov")

    @property
    def transformations(self) -> list[dict[str, Any]]:
        """The transformations as plain data."""
        return specifications(self.steps)

    @transformations.setter
    def transformations(self, transformations: Sequence[Transformation]) -> None:
        self.families: list[str] = []
        self.steps = expect_all(self, "transformations", transformations, Transformation)

    def add_transformation(self, transformation: Transformation) -> None:
        """Add a step; one with the tag of another adds its sets to that."""
        self.steps.append(expect(self, "transformations", transformation, Transformation))

    def save(self) -> None:
        """Keep it in the home, for tasks of other processes; the runs of this one have it by themselves."""
        _declared[self._tag] = self
        said = {"name": self.tag, "email": self.email, "undecided": self.undecided}
        steps = [{**one.get_specification(), "tag": one.tag} for one in self.merged()]
        kept.keep(self._tag, {"tag": self._tag, "transformations": steps, **said})

    def has(self, tag: str) -> bool:
        """Whether it declares a transformation, or does so as soon as that is met."""
        return self._find(tag) is not None or (self.undecided and _family(tag) != "")

    def transformation(self, tag: str) -> Transformation:
        """A transformation by its tag."""
        if self.undecided and self._find(tag) is None and (whose := _family(tag)):
            self._declare(whose)
        found = self._find(tag)
        if found is None:
            if self.undecided:
                self._declare("dnnprov")
            declared = tuple(one.tag for one in self.merged())
            advice = f"Mend the tag, or declare it with add_transformation(Transformation({tag!r}, …))."
            raise NoSuchTag("transformation", tag, f"The dataflow {self.tag!r}", declared, advice)
        return found

    def _find(self, tag: str) -> Transformation | None:
        return next((one for one in self.merged() if one._tag == tag.lower()), None)

    def merged(self) -> list[Transformation]:
        """The transformations, each once: with the sets of all that have its tag, and what is tagged with it."""
        found: dict[str, Transformation] = {}
        for one in self.steps:
            known = found.setdefault(one._tag, Transformation(one.tag))
            known.set_sets(one.held)
            add(known.programs, one.programs)
        for one in found.values():
            add(one.programs, tagged(Program, self._tag, one._tag))
            for held in one.held:
                add(held.readers, tagged(Extractor, self._tag, one._tag, held._tag))
        return list(found.values())

    def _said(self) -> dict[str, Any]:
        return {"tag": self._tag, "transformations": self.transformations}


def declared(what: Any, *transformations: str) -> Dataflow:
    """A dataflow itself, or the one that was declared by a tag: in this process, or in the home by another.

    Transformations that DNNProv or DLProv declare by themselves need no declaration.
    """
    if isinstance(what, Dataflow):
        return what
    if not isinstance(what, str):
        raise WrongType("Task", "dataflow_tag", what, "the tag of a dataflow", "Give its tag, or the Dataflow itself.")
    known = _declared.get(what.lower())
    if known is None:
        said = kept.kept(what.lower())
        if said is not None:
            known = _restore(said)
        elif any(map(_family, transformations)):
            known = Dataflow(what, True)
        else:
            advice = f"Declare it before its tasks, with Dataflow({what!r}, …).save()."
            raise NoSuchTag("dataflow", what, "This process", tuple(one.tag for one in _declared.values()), advice)
    return known


def _family(tag: str) -> str:
    """Whose a predefined transformation is."""
    for whose, said in (("dnnprov", predefined.DNNPROV), ("dlprov", predefined.DLPROV)):
        if tag.lower() in (one.lower() for one in said):
            return whose
    return ""


def _restore(said: dict[str, Any]) -> Dataflow:
    """A dataflow as it was kept."""
    made = Dataflow(said["name"], said["undecided"], email=said["email"])
    made.steps = [kept.transformation(one) for one in said["transformations"]]
    return made
