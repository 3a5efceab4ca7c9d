"""An extractor: how values are got out of raw data. It is kept with its set, and not run."""

from __future__ import annotations

from typing import Any

from provml.compat.dfa_lib_python.extractor_cartridge import ExtractorCartridge
from provml.compat.dfa_lib_python.extractor_extension import ExtractorExtension
from provml.compat.dfa_lib_python.provenance_object import ProvenanceObject, expect


class Extractor(ProvenanceObject):
    """How values are got out of raw data."""

    def __init__(self, tag: str, cartridge: ExtractorCartridge, extension: ExtractorExtension) -> None:
        super().__init__(tag)
        self.add_cartridge(cartridge)
        self.add_extension(extension)

    def add_cartridge(self, cartridge: ExtractorCartridge) -> None:
        """Say what it does."""
        self.cartridge: ExtractorCartridge = expect(self, "cartridge", cartridge, ExtractorCartridge)

    def add_extension(self, extension: ExtractorExtension) -> None:
        """Say of which format."""
        self.extension: ExtractorExtension = expect(self, "extension", extension, ExtractorExtension)

    def _said(self) -> dict[str, Any]:
        return {"tag": self._tag, "cartridge": self.cartridge.value, "extension": self.extension.value}
