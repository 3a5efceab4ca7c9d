"""An extractor: how values are got out of raw data. It is a step of the plan, and not run."""

from __future__ import annotations

from typing import Any

from provml.compat.dfa_lib_python.extractor_cartridge import ExtractorCartridge
from provml.compat.dfa_lib_python.extractor_extension import ExtractorExtension
from provml.compat.dfa_lib_python.ProvenanceObject import expect
from provml.compat.dfa_lib_python.tagged import Tag, Tagged


class Extractor(Tagged):
    """How the values of the set that it is added to, or tagged with, are got out of raw data."""

    setTag = Tag()

    def __init__(self, tag: str, cartridge: ExtractorCartridge, extension: ExtractorExtension) -> None:
        super().__init__(tag)
        self.add_cartridge(cartridge)
        self.add_extension(extension)

    @property
    def cartridge(self) -> str:
        """The name of what it does."""
        return str(self.does.value)

    @cartridge.setter
    def cartridge(self, cartridge: ExtractorCartridge) -> None:
        self.add_cartridge(cartridge)

    @property
    def extension(self) -> str:
        """The name of the format that it reads."""
        return str(self.reads.value)

    @extension.setter
    def extension(self, extension: ExtractorExtension) -> None:
        self.add_extension(extension)

    def add_cartridge(self, cartridge: ExtractorCartridge) -> None:
        """Say what it does."""
        self.does: ExtractorCartridge = expect(self, "cartridge", cartridge, ExtractorCartridge)

    def add_extension(self, extension: ExtractorExtension) -> None:
        """Say of which format."""
        self.reads: ExtractorExtension = expect(self, "extension", extension, ExtractorExtension)

    def _said(self) -> dict[str, Any]:
        return {"tag": self._tag, "cartridge": self.cartridge, "extension": self.extension, **super()._said()}
