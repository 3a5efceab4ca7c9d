"""Python names for terms: what a class, a field or an individual is called in the module made of it."""

from __future__ import annotations

import keyword
import re
from collections.abc import Container
from unicodedata import normalize

from provml.things import Thing

# Names that a generated module uses for itself, and Python's own, written down because `dir(builtins)` differs between
# versions and inside notebooks.
_IN_MODULES = """
    Any BoolLike ClassVar Decimal Field FloatLike IRI IntLike Iterable Kept Literal Mapping OneOf PurePath Scalar
    TYPE_CHECKING Text Thing annotations
    _RENAMED date datetime time timedelta renamed prov mls provlake provml dl
"""

_BUILTINS = """
    ArithmeticError AssertionError AttributeError BaseException BaseExceptionGroup BlockingIOError BrokenPipeError
    BufferError BytesWarning ChildProcessError ConnectionAbortedError ConnectionError ConnectionRefusedError
    ConnectionResetError DeprecationWarning EOFError Ellipsis EncodingWarning EnvironmentError Exception ExceptionGroup
    FileExistsError FileNotFoundError FloatingPointError FutureWarning GeneratorExit IOError ImportError ImportWarning
    IndentationError IndexError InterruptedError IsADirectoryError KeyError KeyboardInterrupt LookupError MemoryError
    ModuleNotFoundError NameError NotADirectoryError NotImplemented NotImplementedError OSError OverflowError
    PendingDeprecationWarning PermissionError ProcessLookupError RecursionError ReferenceError ResourceWarning
    RuntimeError RuntimeWarning StopAsyncIteration StopIteration SyntaxError SyntaxWarning SystemError SystemExit
    TabError TimeoutError TypeError UnboundLocalError UnicodeDecodeError UnicodeEncodeError UnicodeError
    UnicodeTranslateError UnicodeWarning UserWarning ValueError Warning ZeroDivisionError abs aiter all anext any ascii
    bin bool breakpoint bytearray bytes callable chr classmethod compile complex copyright credits delattr dict dir
    divmod enumerate eval exec exit filter float format frozenset getattr globals hasattr hash help hex id input int
    isinstance issubclass iter len license list locals map max memoryview min next object oct open ord pow print
    property quit range repr reversed round set setattr slice sorted staticmethod str sum super tuple type vars zip
"""

RESERVED = frozenset([*_IN_MODULES.split(), *_BUILTINS.split(), *keyword.kwlist, *keyword.softkwlist])
"""Names that a class, a field or an individual cannot have."""
TAKEN_BY_THING = frozenset({"self", "also", "values", *Thing.FIELDS, *dir(Thing)})

_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def identifier(text: str) -> str:
    """Text as a Python identifier, in the form to which Python itself brings names.

    What cannot stand in one becomes `_`, a leading digit gets one before it, and of several leading ones a single one
    stays (two would mean something to Python).
    """
    name = "".join(c if f"_{c}".isidentifier() else "_" for c in normalize("NFKC", text))
    name = re.sub(r"^_+", "_", name)
    return name if name.isidentifier() else f"_{name}"


def class_name(local: str, taken: Container[str] = ()) -> str:
    """A class keeps its local name; one that Python, the module or another class needs gets a trailing `_`."""
    return _free(identifier(local), RESERVED, taken)


def field_name(local: str, taken: Container[str] = ()) -> str:
    """A property's local name in snake case: wasGeneratedBy becomes was_generated_by, class becomes class_."""
    return _free(identifier(_HUMPS.sub("_", identifier(local)).lower()), RESERVED, TAKEN_BY_THING, taken)


def constant_name(local: str, taken: Container[str] = ()) -> str:
    """An individual's local name in capitals: RawRole becomes RAW_ROLE."""
    return _free(identifier(_HUMPS.sub("_", identifier(local)).upper()), RESERVED, taken)


def _free(name: str, *taken: Container[str]) -> str:
    """The name, with as many trailing `_` as it takes to be nobody else's."""
    while any(name in names for names in taken):
        name = f"{name}_"
    return name
