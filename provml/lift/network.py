"""The layers of a network as things: a schema's value with its layers and blocks, and their parameters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from provml import event, vocab
from provml.lift import name
from provml.rdf import KINDS, XSD
from provml.rdf.exact import decode_value
from provml.things import Thing
from provml.values import IRI

if TYPE_CHECKING:
    from provml.lift.lifter import Lifter

BLOCKS: dict[str, type[vocab.Block]] = {
    "DenseBlock": vocab.DenseBlock,
    "EncodingBlock": vocab.EncodingBlock,
    "Encoder": vocab.EncodingBlock,
    "DecodingBlock": vocab.DecodingBlock,
    "Decoder": vocab.DecodingBlock,
}
KNOWN = {"name", "type", "index", "block", "is_block", "input_shape", "output_shape", "parameter_count", "parameters"}


def layers(lifter: Lifter, what: event.Layers) -> None:
    """Take in the layers of the network that a stage trains; told again, they are those of another network."""
    network = lifter.part(lifter.place(what.at), "network")
    for thing in things(lifter, what, network):
        lifter.tell(thing)


def things(lifter: Lifter, what: event.Layers, network: IRI) -> Iterator[Thing]:
    """The network that a stage trains; a layer names the block that it belongs to."""
    stage = lifter.place(what.at)
    step = lifter.plan.step(stage.kind, stage.name)
    nodes = [IRI(f"{network}/layer/{number}") for number in range(1, len(what.layers) + 1)]
    names = {str(layer["name"]): node for layer, node in zip(what.layers, nodes, strict=True) if layer.get("name")}
    inside: dict[str, list[IRI]] = {}
    for layer, node in zip(what.layers, nodes, strict=True):
        block = str(layer.get("block") or "")
        inside.setdefault("" if names.get(block) == node else block, []).append(node)
    total = 0
    for number, (layer, node) in enumerate(zip(what.layers, nodes, strict=True), 1):
        own = layer.get("parameters")
        values = {**{k: v for k, v in layer.items() if k not in KNOWN}, **(own if isinstance(own, dict) else {})}
        made = []
        for title, value in values.items():
            if value is None:
                continue
            made.append(IRI(f"{node}/parameter/{name.slug(title)}"))
            attribute = lifter.plan.parameter(stage.kind, step, title)
            yield vocab.LearningHyperparameterValue(made[-1], was_derived_from_attribute=attribute, value=_exact(value))
        count = layer.get("parameter_count")
        said: dict[str, Any] = {
            "label": str(layer.get("name") or number),
            "layer_index": int(layer.get("index", number)),
            "layer_type": _text(layer.get("type")),
            "input_shape": _text(layer.get("input_shape")),
            "output_shape": _text(layer.get("output_shape")),
            "parameter_count": int(count) if count is not None else None,
            "has_parameter": made,
        }
        total += int(count or 0)
        children = inside.get(str(layer["name"]), []) if names.get(str(layer.get("name"))) == node else []
        is_block = children or layer.get("is_block")
        cls: type[vocab.Layer] = BLOCKS.get(str(layer.get("type", "")), vocab.Block) if is_block else vocab.Layer
        if issubclass(cls, vocab.Block):
            said["has_layer"] = children
        yield cls(node, **said)
        if made:
            yield lifter.execution(what.at, used=made)
    yield lifter.execution(what.at, used=network)
    yield vocab.ModelSchemaValue(
        network,
        was_derived_from_attribute=lifter.plan.schema(),
        layer_count=len(nodes),
        parameter_count=total or None,
        has_layer=[node for block, held in inside.items() if block not in names for node in held],
    )


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _exact(value: Any) -> Any:
    """A value of a layer: a scalar, or the text of what is none (a kernel's size)."""
    if isinstance(value, list) and len(value) == 2 and all(isinstance(one, str) for one in value):
        datatype = value[0]
        if datatype.startswith("@") or (datatype if ":" in datatype else XSD + datatype) in KINDS:
            return decode_value(value)
    return _text(value) if isinstance(value, (list, dict)) else value
