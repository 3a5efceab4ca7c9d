"""The program of DfAnalyzer that gets values out of raw data, called by a script: a part of the task that runs."""

from __future__ import annotations

import os
import shlex
import subprocess
import time

from provml.compat.dfa_lib_python.attribute import Attribute
from provml.compat.dfa_lib_python.execution import running
from provml.compat.dfa_lib_python.extractor_cartridge import ExtractorCartridge
from provml.compat.dfa_lib_python.ProvenanceObject import expect, expect_all


class RawData:
    """A call of the program: what it is to do, the tag of an extractor, where and of what, and the attributes."""

    method = ""

    def __init__(
        self, cartridge: ExtractorCartridge, tag: str, path: str, source: str, attributes: list[Attribute], more: str
    ) -> None:
        self.cartridge: ExtractorCartridge = expect(self, "cartridge", cartridge, ExtractorCartridge)
        self.attributes: list[Attribute] = expect_all(self, "attributes", attributes, Attribute)
        self.tag, self.path, self.source, self.more = tag, path, source, more

    def get_attributes(self) -> str:
        """The attributes, as the program takes them."""
        return f"[{','.join(map(str, self.attributes))}]"

    def arguments(self) -> list[str]:
        """The program, which DFANALYZER_DIR has, and its arguments."""
        program, does = f"{os.environ.get('DFANALYZER_DIR')}/bin/RDE", f"{self.cartridge.value}:{self.method}"
        return [program, does, self.tag, self.path, self.source, self.get_attributes(), *shlex.split(self.more)]

    def get_command_line(self) -> str:
        """The command as one would type it."""
        return shlex.join(self.arguments())

    def run(self) -> None:
        """Run it. A status that tells of a failure is recorded, and does not end the script."""
        began, given = time.time(), self.arguments()
        error: Exception | None = None
        try:
            status = subprocess.call(given)
            error = subprocess.CalledProcessError(status, given) if status else None
        except OSError as failed:
            error = failed
            raise
        finally:
            task = running()
            if task is not None:
                task.part(self.cartridge.value.lower(), self.tag, began, time.time(), error)
