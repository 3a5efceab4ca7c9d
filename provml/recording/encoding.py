"""Encode measures and parameters as values of a journal."""

from __future__ import annotations

import contextlib
import json
import math
import re
import reprlib
from collections.abc import Mapping
from types import BuiltinFunctionType
from typing import Any

from provml.journal import events
from provml.journal.redaction import mask, redact_text
from provml.journal.values import COUNTERS, jsonable, plain_number
from provml.model.values import PLAIN, plain

MAX_LENGTH = 1000
"""Of a longer array only the shape is recorded; the text of an object is cut at this length."""

HEAD_CHARS = 10_000
"""Characters of a long text that an event has; the whole is an artifact."""


def encode_measures(values: Mapping[str, Any]) -> tuple[events.Values, list[Exception]]:
    """Encode measures, leaving out None; return them and the errors of those that are none or have no encoding."""
    encoded: events.Values = {}
    errors: list[Exception] = []
    for name, value in values.items():
        if name in COUNTERS:
            advice = "Use `for epoch in training.epochs(10): epoch.measured(loss=…)`, and for a single step of an epoch"
            example = "`epoch.batch(3).measured(loss=…)`."
            errors.append(TypeError(f"{name!r} is not a measure: epochs and batches are numbered. {advice} {example}"))
        elif value is not None:
            try:
                encoded[str(name)] = encode_measure(str(name), value)
            except Exception as error:
                errors.append(error)
    return encoded, errors


def encode_parameters(values: Mapping[str, Any]) -> tuple[events.Values, list[Exception]]:
    """Encode parameters with secrets redacted, leaving out None; return them and the errors as for measures."""
    encoded: events.Values = {}
    errors: list[Exception] = []
    for name, value in values.items():
        if value is not None:
            try:
                encoded[str(name)] = encode_parameter(mask(str(name), value))
            except Exception as error:
                errors.append(error)
    return encoded, errors


def encode_measure(name: str, value: Any) -> events.Value:
    """Encode a measure: a scalar, or an array of one item. Text is refused, because measures are compared.

    Real numbers of other libraries become the nearest double.
    """
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape and math.prod(shape) == 1 and hasattr(value, "reshape"):
        value = value.reshape(())
    try:
        encoded = jsonable(value)
    except TypeError:
        kind = type(value).__name__
        raise TypeError(f"The measure {name!r} must be a number, not a value of type {kind}.") from None
    except OverflowError:
        problem = f"The measure {name!r} ({type(value).__name__}) is larger than any float."
        raise TypeError(f"{problem} Record its logarithm, or its text as a parameter.") from None
    except Exception as error:  # a tensor without a value, such as one on the device "meta"
        problem = f"The value of the measure {name!r} cannot be read ({type(value).__name__}: {error})."
        raise TypeError(f"{problem} Pass a number, or a tensor that has a value.") from None
    datatype = encoded[0] if isinstance(encoded, list) else ""
    if isinstance(encoded, str) or datatype == "string" or datatype.startswith("@"):  # @ marks a language
        problem = f"The measure {name!r} must be a number, not the text {reprlib.repr(str(mask(name, str(value))))}."
        raise TypeError(f"{problem} {_advice_for_text(name, str(value))}")
    return encoded


def _advice_for_text(name: str, text: str) -> str:
    """Return what to do with a text in place of a measure: convert it if it is a number."""
    try:
        number = float(text)
    except ValueError:
        return "Record text as a parameter."
    return f"Convert it: measured({name}=float(…)), here {number!r}."


def encode_parameter(value: Any) -> events.Value:
    """Encode a parameter: a scalar as it is, anything else as text (a list of an optimizer's betas as JSON)."""
    if not isinstance(value, (list, tuple, dict)):
        try:
            return jsonable(value)
        except Exception:  # not a scalar
            value = _encode_nested(value)
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, default=_encode_nested)
    except TypeError:  # keys that JSON does not allow
        return _text_of(value)


def _encode_nested(value: Any) -> Any:
    """Return what JSON can hold of a value: its plain form, its items, or its name or text."""
    scalar = plain(value)
    if scalar.__class__ not in PLAIN:
        with contextlib.suppress(OverflowError):  # recorded as text
            scalar = plain_number(scalar)
    if scalar.__class__ in PLAIN:
        return scalar if scalar.__class__ in (bool, int, float, str) else str(scalar)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)  # the order of a set differs between processes
    if not isinstance(value, type) and getattr(value, "shape", None):
        array = value if hasattr(value, "tolist") or not hasattr(value, "numpy") else value.numpy()
        is_short = hasattr(array, "tolist") and math.prod(value.shape) <= MAX_LENGTH
        return array.tolist() if is_short else f"{type(value).__name__} of shape {tuple(value.shape)}"
    return _text_of(value)


def _text_of(value: Any) -> str:
    """Return the qualified name of a class or function, or the text of an object without its memory address."""
    attribute = "__name__" if isinstance(value, BuiltinFunctionType) else "__qualname__"
    name = getattr(value, attribute, None) or getattr(value, "__name__", None)
    if isinstance(name, str):
        module = getattr(value, "__module__", None) or "builtins"
        return name if module == "builtins" else f"{module}.{name}"
    text = redact_text(re.sub(r" at 0x[0-9A-Fa-f]+", "", str(value)))
    return text if len(text) <= MAX_LENGTH else f"{text[:MAX_LENGTH]}…"


def cut_text(text: str, artifact: str = "") -> str:
    """Return the head of a long text, and where the whole is."""
    where = f"all {len(text):,} characters are the artifact {artifact}" if artifact else f"of {len(text):,} characters"
    return f"{text[:HEAD_CHARS]}… [cut: {where}]"


def to_text(value: Any) -> str:
    """Return a value as text; None as an empty string."""
    return "" if value is None else str(value)
