"""The networks that a PyTorch loop trains: one, or several by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from provml.capture import _layers
from provml.capture.torch._optimizers import unwrap_network
from provml.errors import WrongType, WrongValue

PLACEHOLDER = "{network}"
"""Stands for the name of a network in the setting `save_model`."""


class Networks:
    """The trained networks by name; a single one has the name ""."""

    def __init__(self, networks: Any) -> None:
        self.by_name: dict[str, Any] = {}
        if isinstance(networks, Mapping):
            self.by_name = {str(name): network for name, network in networks.items() if network is not None}
        elif networks is not None:
            self.by_name = {"": networks}
        for network in self.by_name.values():
            if not hasattr(network, "named_modules"):
                advice = "The network comes before the optimizer; several by name: {'generator': …, 'critic': …}."
                raise WrongType("Capture", "network", network, "a torch.nn.Module", advice)

    def __bool__(self) -> bool:
        return bool(self.by_name)

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yield the name and the original of each network."""
        for name, network in self.by_name.items():
            yield name, unwrap_network(network)

    def name_of(self, model: Any) -> str | None:
        """Return the name of a network that is trained; None for any other model."""
        original = unwrap_network(model) if hasattr(model, "named_modules") else model
        return next((name for name, network in self.items() if network is original), None)

    def layers(self) -> list[dict[str, Any]]:
        """Return the layers of all networks; each of several networks is a block of its name around its layers."""
        if "" in self.by_name:
            return _layers.torch_layers(unwrap_network(self.by_name[""]))
        layers: list[dict[str, Any]] = []
        for name, network in self.items():
            layers.append({"name": name, "type": type(network).__name__, "is_network": True})
            for layer in _layers.torch_layers(network):
                block = f"{name}.{layer['block']}" if layer.get("block") else name
                layers.append({**layer, "name": f"{name}.{layer['name']}", "block": block})
        return layers

    def weights(self) -> list[Any]:
        """Return all parameters and buffers."""
        networks = self.by_name.values()
        return [weight for item in networks for weights in (item.parameters(), item.buffers()) for weight in weights]

    def are_lazy(self) -> bool:
        """Return whether some layers do not know their sizes yet."""
        uninitialized = torch.nn.parameter.UninitializedTensorMixin
        return any(isinstance(item, uninitialized) for net in self.by_name.values() for item in net.parameters())

    def check_save_path(self, path: Path | None) -> None:
        """Reject one file for several networks."""
        if path is not None and len(self.by_name) > 1 and PLACEHOLDER not in str(path):
            advice = f"Use save_model='weights-{PLACEHOLDER}.pt'."
            raise WrongValue("Capture", "save_model", str(path), f"a path with {PLACEHOLDER}", advice)

    def save(self, path: Path) -> None:
        """Save the weights of each network in its file."""
        for name, network in self.items():
            file = self.file_of(path, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            torch.save(network.state_dict(), file)

    @staticmethod
    def file_of(path: Path, name: str) -> Path:
        """Return the file of a network."""
        return Path(str(path).replace(PLACEHOLDER, name))
