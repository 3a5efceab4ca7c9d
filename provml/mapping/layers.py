"""Layers of a network as things: the value of a model schema, its layers and blocks, and their parameters."""

from __future__ import annotations

import json
from typing import Any

from provml import vocab
from provml.journal import events
from provml.mapping import iris
from provml.mapping.context import MappingContext
from provml.mapping.state import SectionState
from provml.model.values import IRI
from provml.rdf import KIND_OF_DATATYPE
from provml.rdf.json_values import decode_value
from provml.rdf.namespaces import XSD

BLOCKS: dict[str, type[vocab.Block]] = {
    "DenseBlock": vocab.DenseBlock,
    "EncodingBlock": vocab.EncodingBlock,
    "Encoder": vocab.EncodingBlock,
    "DecodingBlock": vocab.DecodingBlock,
    "Decoder": vocab.DecodingBlock,
}
LAYER_KEYS = frozenset(
    {"name", "type", "index", "block", "is_block", "is_network"}
    | {"input_shape", "output_shape", "parameter_count", "parameters"}
)
"""Keys of a layer that have a meaning of their own; all others are parameters of the layer."""

NETWORK = "network"

Layer = dict[str, Any]


class Network:
    """The layers of one event: their IRIs, and which layer is in which block.

    A layer names the block that it belongs to. If two layers have the same name, the name means the later one.
    """

    def __init__(self, iri: IRI, layers: list[Layer]) -> None:
        self.iri = iri
        self.layers = layers
        self.nodes = [IRI(f"{iri}/layer/{number}") for number in range(1, len(layers) + 1)]
        self._by_name = {
            str(layer["name"]): node for layer, node in zip(layers, self.nodes, strict=True) if layer.get("name")
        }
        self._members: dict[str, list[IRI]] = {}
        for layer, node in zip(layers, self.nodes, strict=True):
            block = str(layer.get("block") or "")
            is_own_block = self._by_name.get(block) == node
            self._members.setdefault("" if is_own_block else block, []).append(node)

    def members_of(self, layer: Layer, node: IRI) -> list[IRI]:
        """Return the layers inside a layer; empty unless it is a block."""
        name = str(layer.get("name"))
        return self._members.get(name, []) if self._by_name.get(name) == node else []

    def layers_inside(self, block: str) -> list[Layer]:
        """Return all layers inside a block, also those of blocks in it. A block precedes its layers."""
        blocks, inside = {block}, []
        for layer in self.layers:
            if layer.get("block") in blocks:
                blocks.add(str(layer.get("name")))
                inside.append(layer)
        return inside

    def top_level(self) -> list[IRI]:
        """Return the layers that are in no block."""
        return [node for block, nodes in self._members.items() if block not in self._by_name for node in nodes]


def map_layers(context: MappingContext, event: events.Layers) -> None:
    """Map the layers of the network that a stage trains; a second such event describes another network."""
    stage = context.section_state(event.location)
    network = Network(context.part_iri(stage, NETWORK), event.layers)
    total = 0
    for number, (layer, node) in enumerate(zip(network.layers, network.nodes, strict=True), 1):
        parameters = _emit_parameters(context, event.location, layer, node)
        total += int(layer.get("parameter_count") or 0)
        context.emit(_layer_node(network, number, layer, node, parameters))
        if parameters:
            context.emit_execution(event.location, used=parameters)
    context.emit_execution(event.location, used=network.iri)
    count = sum(not layer.get("is_network") for layer in network.layers)
    _emit_schema(context, network.iri, count, total, network.top_level())
    for layer, node in zip(network.layers, network.nodes, strict=True):
        if layer.get("is_network"):
            inside = network.layers_inside(str(layer.get("name")))
            total = sum(int(item.get("parameter_count") or 0) for item in inside)
            iri = context.part_iri(stage, NETWORK, str(layer.get("name")))
            _emit_schema(context, iri, len(inside), total, network.members_of(layer, node))


def _emit_schema(context: MappingContext, iri: IRI, count: int, parameters: int, layers: list[IRI]) -> None:
    context.emit(
        vocab.ModelSchemaValue(
            iri,
            was_derived_from_attribute=context.plan.model_schema(),
            layer_count=count,
            parameter_count=parameters or None,
            has_layer=layers,
        )
    )


def schema_of_model(context: MappingContext, stage: SectionState, name: str) -> IRI | None:
    """Return the network of a model that a stage produced: the one of its name, if the stage trains several."""
    own = context.last_part_iri(stage, NETWORK, name)
    if own is not None or not stage.counts.get(NETWORK):
        return own
    return IRI(f"{context.section_iri(stage)}/{NETWORK}")


def _emit_parameters(context: MappingContext, location: str, layer: Layer, node: IRI) -> list[IRI]:
    stage = context.section_state(location)
    step = context.plan.step(stage.kind, stage.name)
    values = {key: value for key, value in layer.items() if key not in LAYER_KEYS}
    nested = layer.get("parameters")
    if isinstance(nested, dict):
        values |= nested
    parameters = []
    for name, value in values.items():
        if value is None:
            continue
        iri = IRI(f"{node}/parameter/{iris.quote_segment(name)}")
        parameters.append(iri)
        attribute = context.plan.parameter(stage.kind, step, name)
        context.emit(
            vocab.LearningHyperparameterValue(iri, was_derived_from_attribute=attribute, value=_to_scalar(value))
        )
    return parameters


def _layer_node(network: Network, number: int, layer: Layer, node: IRI, parameters: list[IRI]) -> vocab.Layer:
    count = layer.get("parameter_count")
    values: dict[str, Any] = {
        "label": str(layer.get("name") or number),
        "layer_index": int(layer.get("index", number)),
        "layer_type": _to_text(layer.get("type")),
        "input_shape": _to_text(layer.get("input_shape")),
        "output_shape": _to_text(layer.get("output_shape")),
        "parameter_count": int(count) if count is not None else None,
        "has_parameter": parameters,
    }
    members = network.members_of(layer, node)
    if members or layer.get("is_block") or layer.get("is_network"):
        block = BLOCKS.get(str(layer.get("type", "")), vocab.Block)
        return block(node, has_layer=members, **values)
    return vocab.Layer(node, **values)


def _to_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _to_scalar(value: Any) -> Any:
    """Return a value of a layer: a scalar, or JSON text if it is none (such as the size of a kernel)."""
    if isinstance(value, list) and len(value) == 2 and all(isinstance(item, str) for item in value):
        datatype = value[0]
        if datatype.startswith("@") or (datatype if ":" in datatype else XSD + datatype) in KIND_OF_DATATYPE:
            return decode_value(value)
    return _to_text(value) if isinstance(value, (list, dict)) else value
