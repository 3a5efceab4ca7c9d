"""Calls of DfAnalyzer's program that extracts values from raw data, recorded as a part of the running task."""

from __future__ import annotations

import os
import shlex
import subprocess
import time

from provml.compat.dfa_lib_python._execution import running_task
from provml.compat.dfa_lib_python.attribute import Attribute
from provml.compat.dfa_lib_python.extractor_cartridge import ExtractorCartridge
from provml.compat.dfa_lib_python.ProvenanceObject import expect, expect_all


class RawData:
    """A call of the program with cartridge, tag of the extractor, path, source and attributes."""

    method = ""

    def __init__(
        self, cartridge: ExtractorCartridge, tag: str, path: str, source: str, attributes: list[Attribute], extra: str
    ) -> None:
        self.cartridge: ExtractorCartridge = expect(self, "cartridge", cartridge, ExtractorCartridge)
        self.attributes: list[Attribute] = expect_all(self, "attributes", attributes, Attribute)
        self.tag, self.path, self.source, self.extra = tag, path, source, extra

    def get_attributes(self) -> str:
        """Return the attributes in the syntax of the program."""
        return f"[{','.join(map(str, self.attributes))}]"

    def arguments(self) -> list[str]:
        """Return the program in DFANALYZER_DIR and its arguments."""
        program, action = f"{os.environ.get('DFANALYZER_DIR')}/bin/RDE", f"{self.cartridge.value}:{self.method}"
        return [program, action, self.tag, self.path, self.source, self.get_attributes(), *shlex.split(self.extra)]

    def get_command_line(self) -> str:
        """Return the command as text for a shell."""
        return shlex.join(self.arguments())

    def run(self) -> None:
        """Run the command. A failure is recorded and does not end the script."""
        started, arguments = time.time(), self.arguments()
        error: Exception | None = None
        try:
            status = subprocess.call(arguments)
            error = subprocess.CalledProcessError(status, arguments) if status else None
        except OSError as os_error:
            error = os_error
            raise
        finally:
            task = running_task()
            if task is not None:
                task.record_part(self.cartridge.value.lower(), self.tag, started, time.time(), error=error)
