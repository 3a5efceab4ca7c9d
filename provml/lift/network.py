"""The layers of a network as things: a schema's value with its layers and blocks, and their parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from provml import event, vocab
from provml.lift import name
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


def things(lifter: Lifter, what: event.Layers) -> Iterator[Thing]:
    """The network that a stage trains; a layer names the block that it belongs to."""
    stage_iri = IRI(f"{lifter.run}/{what.at}")
    network = IRI(f"{stage_iri}/network")
    stage = lifter.place(what.at)
    step = lifter.plan.step(stage.kind, stage.name)
    nodes = [IRI(f"{network}/layer/{number}") for number in range(1, len(what.layers) + 1)]
    names = {str(layer.get("name", "")): node for layer, node in zip(what.layers, nodes, strict=True)}
    inside: dict[str, list[IRI]] = {}
    for layer, node in zip(what.layers, nodes, strict=True):
        inside.setdefault(str(layer.get("block", "")), []).append(node)
    total = 0
    for number, (layer, node) in enumerate(zip(what.layers, nodes, strict=True), 1):
        values = {**{k: v for k, v in layer.items() if k not in KNOWN}, **layer.get("parameters", {})}
        made = []
        for title, value in values.items():
            iri = IRI(f"{node}/{name.slug(title)}")
            made.append(iri)
            attribute = lifter.plan.parameter(stage.kind, step, title)
            yield vocab.LearningHyperparameterValue(
                iri, was_derived_from_attribute=attribute, value=decode_value(value)
            )
        said: dict[str, Any] = {
            "label": str(layer.get("name", number)),
            "layer_index": int(layer.get("index", number)),
            "layer_type": str(layer["type"]) if "type" in layer else None,
            "input_shape": str(layer["input_shape"]) if "input_shape" in layer else None,
            "output_shape": str(layer["output_shape"]) if "output_shape" in layer else None,
            "parameter_count": layer.get("parameter_count"),
            "has_parameter": made,
        }
        total += int(layer.get("parameter_count") or 0)
        children = inside.get(str(layer.get("name", "")), []) if layer.get("name") else []
        is_block = children or layer.get("is_block")
        cls: type[vocab.Layer] = BLOCKS.get(str(layer.get("type", "")), vocab.Block) if is_block else vocab.Layer
        if issubclass(cls, vocab.Block):
            said["has_layer"] = children
        yield cls(node, **said)
        if made:
            yield lifter.execution(what.at, used=made)
    top = [node for block, held in inside.items() if block not in names for node in held]
    yield vocab.ModelSchemaValue(
        network,
        was_derived_from_attribute=lifter.plan.schema(),
        layer_count=len(nodes),
        parameter_count=total or None,
        has_layer=top,
    )


def layers(lifter: Lifter, what: event.Layers) -> None:
    """Take in the layers of the network that a stage trains."""
    lifter.place(what.at).has_network = True
    lifter.things.extend(things(lifter, what))
