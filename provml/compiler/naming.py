"""Python names of classes, fields and individuals."""

from __future__ import annotations

import keyword
import re
from collections.abc import Container
from unicodedata import normalize

from provml.model.thing import Thing

# Names that a generated module uses itself, and Python's builtins. The builtins are listed because `dir(builtins)`
# differs between versions and in notebooks.
_IN_MODULES = """
    Any BoolLike ClassVar Decimal Field FloatLike IRI IntLike Iterable Literal Mapping OneOf PurePath Scalar
    ScalarLike TYPE_CHECKING Text Thing _Value _Vocabulary _VOCABULARY _required annotations
    _RENAMED date datetime time timedelta resolve_renamed prov mls provlake provml dl
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
"""Names that no class, field or individual can have."""
TAKEN_BY_THING = frozenset({"self", "extra", "values", *Thing.FIELDS, *dir(Thing)})

_WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def identifier(text: str) -> str:
    """Return a text as a Python identifier, normalised as Python normalises names.

    A character that is not allowed becomes `_`, a leading digit gets a `_` before it, and several leading `_` become
    one (two would make the name private).
    """
    name = "".join(c if f"_{c}".isidentifier() else "_" for c in normalize("NFKC", text))
    name = re.sub(r"^_+", "_", name)
    return name if name.isidentifier() else f"_{name}"


def class_name(local: str, *taken: Container[str]) -> str:
    """Return the local name; a name that Python, the module or another class uses gets a trailing `_`."""
    return _untaken(identifier(local), RESERVED, *taken)


def field_name(local: str, *taken: Container[str]) -> str:
    """Return the local name of a property in snake case: wasGeneratedBy as was_generated_by, class as class_."""
    return _untaken(identifier(_WORD_STARTS.sub("_", identifier(local)).lower()), RESERVED, TAKEN_BY_THING, *taken)


def constant_name(local: str, *taken: Container[str]) -> str:
    """Return the local name of an individual in capitals: RawRole as RAW_ROLE."""
    return _untaken(identifier(_WORD_STARTS.sub("_", identifier(local)).upper()), RESERVED, *taken)


def _untaken(name: str, *taken: Container[str]) -> str:
    """Return the name with trailing `_` until it is not taken."""
    while any(name in names for names in taken):
        name = f"{name}_"
    return name
