"""Captures: record trainings of common frameworks through their public callbacks, one module per framework.

Only its own module imports a framework, and no framework is patched, except by `autolog`. A capture records into a new
run or the run that is passed to it, and does not change what is trained.
"""

FRAMEWORKS = ("keras", "lightgbm", "lightning", "sklearn", "torch", "transformers", "xgboost")


def __getattr__(name: str) -> object:
    """Import the module of a framework at its first use: `provml.capture.torch`."""
    if name in FRAMEWORKS:
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(FRAMEWORKS)
