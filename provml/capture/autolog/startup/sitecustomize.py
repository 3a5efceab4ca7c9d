"""Start-up hook of `provml run`: switches autolog on when the process imports a framework.

It runs in every Python process that the script starts, so it is small, imports nothing, and never raises. The folder of
this file is removed from `sys.path`, and a `sitecustomize` of the user is imported as without it.
"""

import os
import sys

TRIGGERS = {
    "argparse", "keras", "lightgbm", "lightning", "optuna", "pytorch_lightning", "sklearn", "torch", "transformers",
    "xgboost",
}  # fmt: skip
"""Modules whose import switches autolog on."""


class Trigger:
    """A finder of `sys.meta_path` that finds nothing; at the first framework it hands over to autolog."""

    is_armed = True

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]  # no import of `typing`
        """Switch autolog on at the first module that may train something."""
        if not self.is_armed or name not in TRIGGERS:
            return None
        self.is_armed = False
        try:
            from provml.capture.autolog import start_from_environment

            autolog = start_from_environment()
            return autolog.find_spec(name, path, target) if autolog is not None else None
        except Exception:  # provml is not there, or not this version: the script runs as it is
            return None


def import_next() -> None:
    """Import the `sitecustomize` that Python would have imported without this one, if there is one."""
    folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  # no import of `pathlib`
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != folder]  # noqa: PTH100
    this = sys.modules.pop("sitecustomize", None)
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        if this is not None:
            sys.modules["sitecustomize"] = this


if __name__ == "sitecustomize":
    if os.environ.get("PROVML_AUTOLOG") and not os.environ.get("PROVML_AUTOLOG_SILENT"):
        sys.meta_path.insert(0, Trigger())
    import_next()
