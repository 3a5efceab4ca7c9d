"""An index over values that were extracted from raw data."""

from __future__ import annotations

from provml.compat.dfa_lib_python.attribute import Attribute
from provml.compat.dfa_lib_python.extractor_cartridge import ExtractorCartridge
from provml.compat.dfa_lib_python.raw_data import RawData


class RawDataIndexer(RawData):
    """An index over the values that an extractor wrote to a file."""

    method = "INDEX"

    def __init__(
        self,
        cartridge: ExtractorCartridge,
        extractor_tag: str,
        path: str,
        file_name_with_extracted_data: str,
        attributes: list[Attribute],
        extra_arguments: str = "",
    ) -> None:
        super().__init__(cartridge, extractor_tag, path, file_name_with_extracted_data, attributes, extra_arguments)
