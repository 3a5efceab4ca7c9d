"""Workflow files: the prospective side of an experiment, as YAML, read and checked.

Every scalar is read as the text that the file has, so version 1.10 stays 1.10 and an attribute may be called `no`. What
is wrong is told with its line; nothing of a file with a fault is used.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn
from unicodedata import category

import msgspec

from provml.errors import BrokenFile, NotAnIRI
from provml.event import LEARNING, STEPS
from provml.values import IRI

if TYPE_CHECKING:
    from yaml import Node

ATTRIBUTES = ("hyperparameter", "parameter", "measure", "dataset", "features", "model")
OF_STEPS = ("hyperparameter", "parameter")
TYPES = ("string", "integer", "decimal", "double", "boolean", "dateTime", "anyURI", "list", "dict")
STORES = ("FileSystem", "Volume", "ObjectStore", "RDBMS", "DocumentDBMS", "Triplestore", "GraphDBMS")
DIRECTIONS = ("maximize", "minimize")
YAML = "tag:yaml.org,2002:"
NOTHING = f"{YAML}null"
SHAPES = {
    "scalar": ("one text", ("str", "int", "float", "bool", "timestamp", "value", "merge", "null")),
    "sequence": ("a list", ("seq",)),
    "mapping": ("keys with values", ("map",)),
}
SIZES = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
SIZES |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


class Transformation(msgspec.Struct, omit_defaults=True):
    """A step: what it takes in and gives out, by the keys of attributes."""

    kind: str
    description: str = ""
    about: list[str] = []
    inputs: list[str] = []
    outputs: list[str] = []


class Attribute(msgspec.Struct, omit_defaults=True):
    """Something that steps take in or give out; its name is its key, unless it has one of its own."""

    kind: str
    name: str = ""
    description: str = ""
    type: str | None = None
    unit: str | None = None
    direction: Literal["maximize", "minimize"] | None = None
    about: list[str] = []
    stored: list[str] = []


class DataStore(msgspec.Struct, omit_defaults=True):
    """Where data is to be kept."""

    type: str | None = None
    address: str | None = None
    description: str = ""


class Machine(msgspec.Struct, omit_defaults=True):
    """An environment that the workflow is to run in."""

    hostname: str | None = None
    processor: str | None = None
    cores: int | None = None
    memory: int | None = None
    accelerators: list[str] = []
    description: str = ""


class Workflow(msgspec.Struct, omit_defaults=True):
    """All that a workflow file says."""

    name: str
    version: str = ""
    revises: str = ""
    description: str = ""
    study: str = ""
    stores: dict[str, DataStore] = {}
    environments: dict[str, Machine] = {}
    software: dict[str, str] = {}
    attributes: dict[str, Attribute] = {}
    transformations: dict[str, Transformation] = {}


def load(path: Path) -> dict[str, Any]:
    """A workflow file as plain data, checked; `BrokenFile` says what is wrong and where."""
    said: dict[str, Any] = msgspec.to_builtins(_Reading(str(path)).workflow(_compose(path)))
    return said


def restore(said: dict[str, Any]) -> Workflow:
    """What `load` gave, as it comes back from a journal."""
    return msgspec.convert(said, Workflow)


def content_version(flow: Workflow) -> str:
    """A version for a workflow that says none: a hash of all that it says, the same however the file is laid out."""
    said = json.dumps(msgspec.to_builtins(flow), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(said.encode()).hexdigest()[:12]


def _compose(path: Path) -> Node:
    """The nodes of a YAML file, which know their lines."""
    import yaml

    file = str(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise BrokenFile(str(error.strerror or error).lower(), "Check the path.", file=file) from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise BrokenFile("it is not UTF-8 text", "Save it as UTF-8.", file=file, line=line) from error
    try:
        node: Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = " ".join(filter(None, (error.context, error.problem)))
        raise BrokenFile(reason, "Mend the YAML there.", file=file, line=mark.line + 1 if mark else None) from error
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise BrokenFile("it has a character that YAML forbids", "Remove it.", file=file, line=line) from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise BrokenFile(f"it cannot be read as YAML ({error})", "Mend the YAML.", file=file) from error
    except RecursionError as error:
        raise BrokenFile("it is nested too deeply", "A workflow has three levels.", file=file) from error
    if node is None:
        raise BrokenFile("it is empty", "Say at least `name: …`.", file=file, line=1)
    return node


class _Reading:
    """Reads the nodes of one file by what a workflow may say."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.stores: dict[str, DataStore] = {}
        self.attributes: dict[str, Attribute] = {}

    def fail(self, node: Node, reason: str, advice: str) -> NoReturn:
        raise BrokenFile(reason, advice, file=self.file, line=node.start_mark.line + 1)

    # ---- kinds of values

    def text(self, node: Node, what: str) -> str:
        """A scalar, as the file writes it."""
        shape = _shape(node)
        if shape != "one text":
            self.fail(node, f"{what} is {shape}", "Give one text or number.")
        said: str = node.value.strip()
        if node.tag == NOTHING or not said:
            self.fail(node, f"{what} is empty", "Say what it is, or leave it out.")
        if any(category(c) in ("Cc", "Cs") and c not in "\n\t" for c in said):
            self.fail(node, f"{what} holds a character that is no text", "Remove it.")
        return said

    def several(self, node: Node, what: str, check: Callable[[Node, str], str]) -> list[str]:
        """One value or a list of them, in an order that does not depend on the file's."""
        nodes = node.value if _shape(node) == "a list" else [node]
        return sorted({check(one, what) for one in nodes})

    def one_of(self, node: Node, what: str, choices: Iterable[str]) -> str:
        said = self.text(node, what)
        if said not in choices:
            self.fail(node, f"{what} is {said!r}", f"Use {_either(choices)}.{_near(said, choices)}")
        return said

    def iri(self, node: Node, what: str) -> str:
        said = self.text(node, what)
        try:
            return str(IRI(said))
        except NotAnIRI:
            self.fail(
                node, f"{what} is {said!r}, which is no absolute IRI", "Give one such as http://example.org/kg/X."
            )

    def known(self, node: Node, what: str, names: Iterable[str], section: str) -> str:
        """A name that another section of the file must have."""
        said = self.text(node, what)
        if said not in names:
            advice = f"Add it there, or mend the name.{_near(said, names)}"
            self.fail(node, f"{what} names {said!r}, which is not among the {section}", advice)
        return said

    def count(self, node: Node, what: str) -> int:
        said = self.text(node, what)
        if not re.fullmatch(r"[0-9]{1,9}", said) or int(said) < 1:
            self.fail(node, f"{what} is {said!r}", "Give a whole number of 1 or more.")
        return int(said)

    def size(self, node: Node, what: str) -> int:
        said = self.text(node, what)
        found = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,9})?) ?(\w*)", said, re.ASCII)
        if found is None or found[2] not in SIZES:
            self.fail(node, f"{what} is {said!r}", "Give bytes, or a number with a unit such as 256 GiB.")
        whole, _, part = found[1].partition(".")
        return int(whole + part) * SIZES[found[2]] // int("1" + "0" * len(part))

    def mapping(self, node: Node, what: str, keys: Iterable[str] = ()) -> dict[str, tuple[Node, Node]]:
        """Keys with the nodes of key and value; none twice, and only those of `keys` where they are given."""
        if node.tag == NOTHING:
            return {}
        if _shape(node) != "keys with values":
            self.fail(node, f"{what} has no keys", "Write `key: value` lines, one for each name.")
        found: dict[str, tuple[Node, Node]] = {}
        for key, value in node.value:
            said = self.text(key, f"a key of {what}")
            if said in found:
                line = found[said][0].start_mark.line + 1
                self.fail(key, f"{what} has {said!r} twice, first in line {line}", "Remove one of them.")
            if keys and said not in keys:
                self.fail(key, f"{what} has an unknown key {said!r}", f"It takes {_either(keys)}.{_near(said, keys)}")
            found[said] = (key, value)
        return found

    def fields(self, node: Node, what: str, readers: dict[str, Callable[[Node, str], Any]]) -> dict[str, Any]:
        """The values of a mapping, each read by its reader; in the order of the readers."""
        found = self.mapping(node, what, readers)
        return {key: read(found[key][1], f"{key} of {what}") for key, read in readers.items() if key in found}

    def kind(self, node: Node, what: str, found: dict[str, Any]) -> str:
        if "kind" not in found:
            self.fail(node, f"{what} has no kind", "Add `kind: …`.")
        kind: str = found["kind"]
        return kind

    # ---- what a workflow says

    def workflow(self, top: Node) -> Workflow:
        readers: dict[str, Callable[[Node, str], Any]] = {
            "name": self.text,
            "version": self.text,
            "revises": self.text,
            "description": self.text,
            "study": self.text,
            "stores": lambda node, _: self.each(node, "stores", self.store),
            "environments": lambda node, _: self.each(node, "environments", self.environment),
            "software": lambda node, _: self.each(node, "software", lambda _, value, what: self.text(value, what)),
            "attributes": lambda node, _: self.each(node, "attributes", self.attribute),
            "transformations": lambda node, _: self.each(node, "transformations", self.transformation),
        }
        found = self.fields(top, "the workflow", readers)
        if "name" not in found:
            self.fail(top, "the workflow has no name", "Add `name: …`, the name that provml.record is given.")
        flow = Workflow(**found)
        self.check_unused(top, flow)
        if not flow.version:
            flow.version = content_version(flow)
        if flow.revises == flow.version:
            key, _ = self.mapping(top, "the workflow")["revises"]
            self.fail(key, f"version {flow.version!r} revises itself", "Name the version before it.")
        return flow

    def each(self, node: Node, section: str, read: Callable[[Node, Node, str], Any]) -> dict[str, Any]:
        found = self.mapping(node, section)
        return {name: read(*nodes, f"{section.removesuffix('s')} {name!r}") for name, nodes in found.items()}

    def store(self, key: Node, node: Node, what: str) -> DataStore:
        readers: dict[str, Callable[[Node, str], Any]] = {
            "type": lambda one, where: self.one_of(one, where, STORES),
            "address": self.text,
            "description": self.text,
        }
        made = self.stores[key.value.strip()] = DataStore(**self.fields(node, what, readers))
        return made

    def environment(self, key: Node, node: Node, what: str) -> Machine:
        readers: dict[str, Callable[[Node, str], Any]] = {
            "hostname": self.text,
            "processor": self.text,
            "cores": self.count,
            "memory": self.size,
            "accelerators": lambda one, where: self.several(one, where, self.text),
            "description": self.text,
        }
        return Machine(**self.fields(node, what, readers))

    def attribute(self, key: Node, node: Node, what: str) -> Attribute:
        readers: dict[str, Callable[[Node, str], Any]] = {
            "kind": lambda one, where: self.one_of(one, where, ATTRIBUTES),
            "name": self.text,
            "description": self.text,
            "type": lambda one, where: self.one_of(one, where, TYPES),
            "unit": self.text,
            "direction": lambda one, where: self.one_of(one, where, DIRECTIONS),
            "about": lambda one, where: self.several(one, where, self.iri),
            "stored in": lambda one, where: self.several(
                one, where, lambda item, it: self.known(item, it, self.stores, "stores")
            ),
        }
        found = self.fields(node, what, readers)
        kind = self.kind(key, what, found)
        if "direction" in found and kind != "measure":
            place = self.mapping(node, what)["direction"][0]
            self.fail(place, f"{what} is a {kind} with a direction", "Only a measure is better high or low.")
        name = found.get("name") or key.value.strip()
        for other, known in self.attributes.items():
            if name == (known.name or other) and _family(kind) == _family(known.kind):
                self.fail(key, f"{what} has the name and kind of {other!r}", "Make them one, or name one otherwise.")
        made = self.attributes[key.value.strip()] = Attribute(stored=found.pop("stored in", []), **found)
        return made

    def transformation(self, key: Node, node: Node, what: str) -> Transformation:
        def attributes(side: Node, where: str) -> list[str]:
            return self.several(side, where, lambda one, it: self.known(one, it, self.attributes, "attributes"))

        readers: dict[str, Callable[[Node, str], Any]] = {
            "kind": lambda one, where: self.one_of(one, where, STEPS),
            "description": self.text,
            "about": lambda one, where: self.several(one, where, self.iri),
            "inputs": attributes,
            "outputs": attributes,
        }
        found = self.fields(node, what, readers)
        kind = self.kind(key, what, found)
        if kind not in LEARNING:
            sides = self.mapping(node, what)
            for side, refused in (("inputs", ("hyperparameter",)), ("outputs", OF_STEPS)):
                for name in found.get(side, ()):
                    if self.attributes[name].kind in refused:
                        reason = f"{what} is a {kind} with the {self.attributes[name].kind} {name!r} among its {side}"
                        self.fail(sides[side][0], reason, f"Only {_either(LEARNING)} can have that.")
        return Transformation(**found)

    def check_unused(self, top: Node, flow: Workflow) -> None:
        """A parameter is one of a step: it cannot stand alone."""
        used = {name for step in flow.transformations.values() for name in (*step.inputs, *step.outputs)}
        for name, attribute in flow.attributes.items():
            if attribute.kind in OF_STEPS and name not in used:
                key, _ = self.mapping(self.mapping(top, "the workflow")["attributes"][1], "attributes")[name]
                reason = f"no transformation has the {attribute.kind} {name!r}"
                self.fail(key, reason, "List it among the inputs of one.")


def _shape(node: Node) -> str:
    """What a node is, in words; a tag that would make something else of it is named."""
    words, tags = SHAPES[str(getattr(node, "id", ""))]
    return words if node.tag.removeprefix(YAML) in tags else f"{words} tagged {node.tag}"


def _family(kind: str) -> str:
    return "parameter" if kind in OF_STEPS else kind


def _either(choices: Iterable[str]) -> str:
    *most, last = choices
    return f"{', '.join(most)} or {last}"


def _near(said: str, choices: Iterable[str]) -> str:
    found = get_close_matches(said, list(choices), 1)
    return f" Did you mean {found[0]!r}?" if found else ""
