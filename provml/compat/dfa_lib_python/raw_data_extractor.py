"""An extraction of values from raw data by a command."""

from __future__ import annotations

from provml.compat.dfa_lib_python.attribute import Attribute
from provml.compat.dfa_lib_python.extractor_cartridge import ExtractorCartridge
from provml.compat.dfa_lib_python.raw_data import RawData


class RawDataExtractor(RawData):
    """Extraction of values from raw data by the script's own command line."""

    method = "EXTRACT"

    def __init__(self, cartridge: ExtractorCartridge, command_line: str, attributes: list[Attribute]) -> None:
        super().__init__(cartridge, "extractor", ".", command_line, attributes, "")
