"""Workflow files: the plan of an experiment as YAML, read and checked.

Every scalar is read as the text in the file, so version 1.10 stays 1.10 and an attribute can be called `no`. An error
names its line; nothing of a file with an error is used.
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

from provml.errors import FileFormatError, InvalidIRI
from provml.journal.events import LEARNING_KINDS, STEP_KINDS
from provml.model.values import IRI

if TYPE_CHECKING:
    from yaml import Node

ATTRIBUTE_KINDS = ("hyperparameter", "parameter", "measure", "dataset", "features", "model")
PARAMETER_KINDS = ("hyperparameter", "parameter")
DATATYPES = ("string", "integer", "decimal", "double", "boolean", "dateTime", "anyURI", "list", "dict")
STORE_TYPES = ("FileSystem", "Volume", "ObjectStore", "RDBMS", "DocumentDBMS", "Triplestore", "GraphDBMS")
DIRECTIONS = ("maximize", "minimize")
YAML_TAG = "tag:yaml.org,2002:"
NULL_TAG = f"{YAML_TAG}null"
NODE_TYPES = {
    "scalar": ("a single value", ("str", "int", "float", "bool", "timestamp", "value", "merge", "null")),
    "sequence": ("a list", ("seq",)),
    "mapping": ("a mapping", ("map",)),
}
"""Description of each type of YAML node, and the tags that it may have."""
UNITS = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
UNITS |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}

FieldReader = Callable[["Node", str], Any]
"""Reads a value from its node; the text describes the value in error messages."""


class Transformation(msgspec.Struct, omit_defaults=True):
    """A planned step. `inputs` and `outputs` are keys of attributes."""

    kind: str
    description: str = ""
    about: list[str] = []
    inputs: list[str] = []
    outputs: list[str] = []


class Attribute(msgspec.Struct, omit_defaults=True):
    """An input or output of planned steps. Its name is its key, unless `name` is set."""

    kind: str
    name: str = ""
    description: str = ""
    type: str | None = None
    unit: str | None = None
    direction: Literal["maximize", "minimize"] | None = None
    about: list[str] = []
    stored: list[str] = []


class DataStore(msgspec.Struct, omit_defaults=True):
    """A planned place for data."""

    type: str | None = None
    address: str | None = None
    description: str = ""


class Machine(msgspec.Struct, omit_defaults=True):
    """A planned environment; `memory` is in bytes."""

    hostname: str | None = None
    processor: str | None = None
    cores: int | None = None
    memory: int | None = None
    accelerators: list[str] = []
    description: str = ""


class Workflow(msgspec.Struct, omit_defaults=True):
    """The content of a workflow file."""

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
    """Read and check a workflow file; return it as plain data. Raise `FileFormatError` for an error in the file."""
    data: dict[str, Any] = msgspec.to_builtins(_WorkflowReader(str(path)).workflow(_compose(path)))
    return data


def restore(data: dict[str, Any]) -> Workflow:
    """Return the workflow of plain data that `load` returned, after it was stored in a journal."""
    return msgspec.convert(data, Workflow)


def content_version(flow: Workflow) -> str:
    """Return the version of a workflow without one: a hash of its content, independent of the layout of the file."""
    text = json.dumps(msgspec.to_builtins(flow), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _compose(path: Path) -> Node:
    """Return the root node of a YAML file. Nodes know their line."""
    import yaml

    file = str(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise FileFormatError(str(error.strerror or error).lower(), "Check the path.", file=file) from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise FileFormatError("it is not UTF-8 text", "Save it as UTF-8.", file=file, line=line) from error
    try:
        node: Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = " ".join(filter(None, (error.context, error.problem)))
        raise FileFormatError(reason, "Fix the YAML.", file=file, line=mark.line + 1 if mark else None) from error
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise FileFormatError("it has a character that YAML forbids", "Remove it.", file=file, line=line) from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise FileFormatError(f"it cannot be read as YAML ({error})", "Fix the YAML.", file=file) from error
    except RecursionError as error:
        raise FileFormatError("it is nested too deeply", "A workflow has three levels.", file=file) from error
    if node is None:
        raise FileFormatError("it is empty", "Add at least `name: …`.", file=file, line=1)
    return node


class _NodeReader:
    """Reads values from YAML nodes. `label` describes a value in error messages: "type of store 'a'"."""

    def __init__(self, file: str) -> None:
        self.file = file

    def fail(self, node: Node, reason: str, advice: str) -> NoReturn:
        raise FileFormatError(reason, advice, file=self.file, line=node.start_mark.line + 1)

    def text(self, node: Node, label: str) -> str:
        """Return a scalar as it is written in the file."""
        node_type = _node_type(node)
        if node_type != "a single value":
            self.fail(node, f"{label} is {node_type}", "Use a single text or number.")
        text: str = node.value.strip()
        if node.tag == NULL_TAG or not text:
            self.fail(node, f"{label} is empty", "Add a value, or remove the key.")
        if any(category(c) in ("Cc", "Cs") and c not in "\n\t" for c in text):
            self.fail(node, f"{label} has a control character or half a character", "Remove it.")
        return text

    def texts(self, node: Node, label: str) -> list[str]:
        return self.items(node, label, self.text)

    def items(self, node: Node, label: str, read: Callable[[Node, str], str]) -> list[str]:
        """Return the values of a list, or of a single value, sorted: the order in the file does not matter."""
        nodes = node.value if _node_type(node) == "a list" else [node]
        return sorted({read(item, label) for item in nodes})

    def choice(self, node: Node, label: str, choices: Iterable[str]) -> str:
        text = self.text(node, label)
        if text not in choices:
            self.fail(node, f"{label} is {text!r}", f"Use {_join_or(choices)}.{_suggestion(text, choices)}")
        return text

    def iri(self, node: Node, label: str) -> str:
        text = self.text(node, label)
        try:
            return str(IRI(text))
        except InvalidIRI:
            self.fail(
                node, f"{label} is {text!r}, which is not an absolute IRI", "Use one such as http://example.org/kg/X."
            )

    def iris(self, node: Node, label: str) -> list[str]:
        return self.items(node, label, self.iri)

    def reference(self, node: Node, label: str, names: Iterable[str], section: str) -> str:
        """Return a name that another section of the file declares."""
        text = self.text(node, label)
        if text not in names:
            advice = f"Add it there, or fix the name.{_suggestion(text, names)}"
            self.fail(node, f"{label} names {text!r}, which is not among the {section}", advice)
        return text

    def count(self, node: Node, label: str) -> int:
        text = self.text(node, label)
        if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
            self.fail(node, f"{label} is {text!r}", "Use a whole number of at least 1.")
        return int(text)

    def size(self, node: Node, label: str) -> int:
        """Return a size in bytes."""
        text = self.text(node, label)
        match = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,9})?) ?(\w*)", text, re.ASCII)
        if match is None or match[2] not in UNITS:
            self.fail(node, f"{label} is {text!r}", "Use bytes, or a number with a unit such as 256 GiB.")
        whole, _, fraction = match[1].partition(".")
        return int(whole + fraction) * UNITS[match[2]] // int("1" + "0" * len(fraction))

    def mapping(self, node: Node, label: str, keys: Iterable[str] = ()) -> dict[str, tuple[Node, Node]]:
        """Return the nodes of key and value by key. No key may occur twice; `keys` are those that are allowed."""
        if node.tag == NULL_TAG:
            return {}
        if _node_type(node) != "a mapping":
            self.fail(node, f"{label} has no keys", "Write `key: value` lines, one for each name.")
        entries: dict[str, tuple[Node, Node]] = {}
        for key, value in node.value:
            text = self.text(key, f"a key of {label}")
            if text in entries:
                line = entries[text][0].start_mark.line + 1
                self.fail(key, f"{label} has {text!r} twice, first in line {line}", "Remove one of them.")
            if keys and text not in keys:
                advice = f"Use {_join_or(keys)}.{_suggestion(text, keys)}"
                self.fail(key, f"{label} has an unknown key {text!r}", advice)
            entries[text] = (key, value)
        return entries

    def fields(self, node: Node, label: str, readers: dict[str, FieldReader]) -> dict[str, Any]:
        """Return the values of a mapping, read by their readers and in the order of these."""
        entries = self.mapping(node, label, readers)
        return {key: read(entries[key][1], f"{key} of {label}") for key, read in readers.items() if key in entries}

    def kind(self, key: Node, label: str, fields: dict[str, Any]) -> str:
        """Return the required field `kind`."""
        if "kind" not in fields:
            self.fail(key, f"{label} has no kind", "Add `kind: …`.")
        kind: str = fields["kind"]
        return kind


class _WorkflowReader(_NodeReader):
    """Reads the sections of a workflow file. Stores come before attributes, and attributes before transformations."""

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self.stores: dict[str, DataStore] = {}
        self.attributes: dict[str, Attribute] = {}

    def workflow(self, root: Node) -> Workflow:
        readers: dict[str, FieldReader] = {
            "name": self.text,
            "version": self.text,
            "revises": self.text,
            "description": self.text,
            "study": self.text,
            "stores": lambda node, _: self.section(node, "stores", self.store),
            "environments": lambda node, _: self.section(node, "environments", self.environment),
            "software": lambda node, _: self.section(node, "software", lambda _, value, label: self.text(value, label)),
            "attributes": lambda node, _: self.section(node, "attributes", self.attribute),
            "transformations": lambda node, _: self.section(node, "transformations", self.transformation),
        }
        fields = self.fields(root, "the workflow", readers)
        if "name" not in fields:
            self.fail(root, "the workflow has no name", "Add `name: …`, the name that you pass to provml.record.")
        flow = Workflow(**fields)
        self.check_unused(root, flow)
        if not flow.version:
            flow.version = content_version(flow)
        if flow.revises == flow.version:
            key, _ = self.mapping(root, "the workflow")["revises"]
            self.fail(key, f"version {flow.version!r} revises itself", "Name the version before it.")
        return flow

    def section(self, node: Node, name: str, read: Callable[[Node, Node, str], Any]) -> dict[str, Any]:
        """Read each entry of a section by its key and value nodes."""
        entries = self.mapping(node, name)
        return {key: read(*nodes, f"{name.removesuffix('s')} {key!r}") for key, nodes in entries.items()}

    def store(self, key: Node, node: Node, label: str) -> DataStore:
        readers: dict[str, FieldReader] = {
            "type": lambda value, field: self.choice(value, field, STORE_TYPES),
            "address": self.text,
            "description": self.text,
        }
        store = self.stores[key.value.strip()] = DataStore(**self.fields(node, label, readers))
        return store

    def environment(self, key: Node, node: Node, label: str) -> Machine:
        readers: dict[str, FieldReader] = {
            "hostname": self.text,
            "processor": self.text,
            "cores": self.count,
            "memory": self.size,
            "accelerators": self.texts,
            "description": self.text,
        }
        return Machine(**self.fields(node, label, readers))

    def attribute(self, key: Node, node: Node, label: str) -> Attribute:
        def store_name(item: Node, field: str) -> str:
            return self.reference(item, field, self.stores, "stores")

        readers: dict[str, FieldReader] = {
            "kind": lambda value, field: self.choice(value, field, ATTRIBUTE_KINDS),
            "name": self.text,
            "description": self.text,
            "type": lambda value, field: self.choice(value, field, DATATYPES),
            "unit": self.text,
            "direction": lambda value, field: self.choice(value, field, DIRECTIONS),
            "about": self.iris,
            "stored in": lambda value, field: self.items(value, field, store_name),
        }
        fields = self.fields(node, label, readers)
        kind = self.kind(key, label, fields)
        if "direction" in fields and kind != "measure":
            direction = self.mapping(node, label)["direction"][0]
            self.fail(direction, f"{label} is a {kind} with a direction", "Only a measure has a direction.")
        name = fields.get("name") or key.value.strip()
        for other, attribute in self.attributes.items():
            if name == (attribute.name or other) and _kind_family(kind) == _kind_family(attribute.kind):
                self.fail(key, f"{label} has the name and kind of {other!r}", "Merge them, or rename one of them.")
        attribute = self.attributes[key.value.strip()] = Attribute(stored=fields.pop("stored in", []), **fields)
        return attribute

    def transformation(self, key: Node, node: Node, label: str) -> Transformation:
        def attribute_name(item: Node, field: str) -> str:
            return self.reference(item, field, self.attributes, "attributes")

        readers: dict[str, FieldReader] = {
            "kind": lambda value, field: self.choice(value, field, STEP_KINDS),
            "description": self.text,
            "about": self.iris,
            "inputs": lambda value, field: self.items(value, field, attribute_name),
            "outputs": lambda value, field: self.items(value, field, attribute_name),
        }
        fields = self.fields(node, label, readers)
        kind = self.kind(key, label, fields)
        if kind not in LEARNING_KINDS:
            self.check_parameters(node, label, kind, fields)
        return Transformation(**fields)

    def check_parameters(self, node: Node, label: str, kind: str, fields: dict[str, Any]) -> None:
        """Refuse hyperparameters, and outputs that are parameters, in a step that does not learn."""
        entries = self.mapping(node, label)
        for side, refused in (("inputs", ("hyperparameter",)), ("outputs", PARAMETER_KINDS)):
            for name in fields.get(side, ()):
                attribute = self.attributes[name]
                if attribute.kind in refused:
                    reason = f"{label} is a {kind} with the {attribute.kind} {name!r} among its {side}"
                    self.fail(entries[side][0], reason, f"Only {_join_or(LEARNING_KINDS)} can have it.")

    def check_unused(self, root: Node, flow: Workflow) -> None:
        """Refuse a parameter that no step has."""
        used = {name for step in flow.transformations.values() for name in (*step.inputs, *step.outputs)}
        for name, attribute in flow.attributes.items():
            if attribute.kind in PARAMETER_KINDS and name not in used:
                key, _ = self.mapping(self.mapping(root, "the workflow")["attributes"][1], "attributes")[name]
                reason = f"no transformation has the {attribute.kind} {name!r}"
                self.fail(key, reason, "List it among the inputs of a transformation.")


def _node_type(node: Node) -> str:
    """Describe the type of a node, with its tag if the tag would make something else of it."""
    description, tags = NODE_TYPES[str(getattr(node, "id", ""))]
    return description if node.tag.removeprefix(YAML_TAG) in tags else f"{description} tagged {node.tag}"


def _kind_family(kind: str) -> str:
    return "parameter" if kind in PARAMETER_KINDS else kind


def _join_or(choices: Iterable[str]) -> str:
    *rest, last = choices
    return f"{', '.join(rest)} or {last}"


def _suggestion(text: str, choices: Iterable[str]) -> str:
    matches = get_close_matches(text, list(choices), 1)
    return f" Did you mean {matches[0]!r}?" if matches else ""
