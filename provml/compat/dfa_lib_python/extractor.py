"""An extractor: how values are extracted from raw data. It is a step of the plan and is not executed."""

from __future__ import annotations

from typing import Any

from provml.compat.dfa_lib_python._registry import Tag, Tagged
from provml.compat.dfa_lib_python.extractor_cartridge import ExtractorCartridge
from provml.compat.dfa_lib_python.extractor_extension import ExtractorExtension
from provml.compat.dfa_lib_python.ProvenanceObject import expect


class Extractor(Tagged):
    """Extraction of the values of a set, to which the extractor is added or tagged, from raw data."""

    setTag = Tag()

    def __init__(self, tag: str, cartridge: ExtractorCartridge, extension: ExtractorExtension) -> None:
        super().__init__(tag)
        self.add_cartridge(cartridge)
        self.add_extension(extension)

    @property
    def cartridge(self) -> str:
        """Name of the cartridge."""
        return str(self.cartridge_type.value)

    @cartridge.setter
    def cartridge(self, cartridge: ExtractorCartridge) -> None:
        self.add_cartridge(cartridge)

    @property
    def extension(self) -> str:
        """Name of the extension."""
        return str(self.extension_type.value)

    @extension.setter
    def extension(self, extension: ExtractorExtension) -> None:
        self.add_extension(extension)

    def add_cartridge(self, cartridge: ExtractorCartridge) -> None:
        """Set the cartridge."""
        self.cartridge_type: ExtractorCartridge = expect(self, "cartridge", cartridge, ExtractorCartridge)

    def add_extension(self, extension: ExtractorExtension) -> None:
        """Set the extension."""
        self.extension_type: ExtractorExtension = expect(self, "extension", extension, ExtractorExtension)

    def _fields(self) -> dict[str, Any]:
        return {"tag": self._tag, "cartridge": self.cartridge, "extension": self.extension, **super()._fields()}
