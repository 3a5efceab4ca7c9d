"""Functions as steps: `@run.step` records each call with its inputs, parameters and outputs.

Arguments that are data of the run are inputs: a `Data` object, the path of a registered file (a `Path`, or a string
that looks like a path), or the very object that was registered or that another step returned; alone, or inside a list,
tuple or dictionary. Other plain arguments are parameters. `Data`, paths and arrays that the function returns are
outputs, and so is any other returned object once another step takes it. Options name the rest by parameter:
`using="source"` for a path or array that is an input, `producing="target"` for the path that the function writes. The
function returns, raises and yields the same as without the decorator.
"""

from __future__ import annotations

import functools
import os
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator
from decimal import Decimal
from numbers import Real
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from provml.journal.events import LEARNING_KINDS, STEP_KINDS, Produced
from provml.journal.location import Location
from provml.journal.redaction import is_marked, is_secret, redact
from provml.model.values import PLAIN, plain
from provml.recording.core import RunCore
from provml.recording.data import Data
from provml.recording.encoding import to_text
from provml.recording.hashing import digest
from provml.recording.safety import EndsOnExit, report_errors
from provml.recording.settings import DataKind
from provml.recording.stages import Stage, Step

if TYPE_CHECKING:
    import inspect

F = TypeVar("F", bound=Callable[..., Any])
MAX_PARAMETER_SIZE = 1000
"""A string with more characters, or a list with more items, is not recorded as a parameter."""


def step_or_decorator(run: RunCore, name: Any = None, **options: Any) -> Any:
    """Begin a step with a name; decorate a function; or return a decorator if there is neither."""
    if isinstance(name, str):
        using, by = options.pop("using", ()), options.pop("by", "")
        return Step(run, "step", name, using, options, by=by)
    step_options = StepOptions(run, **options)
    if name is None:
        return step_options.decorate
    if not callable(name) and not isinstance(name, classmethod):
        raise TypeError(f"run.step takes the name of a step or a function, not {name!r}.")
    return step_options.decorate(name)


class StepOptions:
    """Options of the decorator: how the calls of a function are recorded."""

    def __init__(
        self,
        run: RunCore,
        *,
        named: str = "",
        kind: str = "step",
        using: str | Data | Iterable[str | Data] = (),
        producing: str | Iterable[str] = (),
        role: str = "",
        by: str = "",
        **values: Any,
    ) -> None:
        if kind not in STEP_KINDS:
            raise ValueError(f"kind must be one of {', '.join(STEP_KINDS)}, not {kind!r}.")
        self.run = run
        self.named = named
        self.kind = kind
        self.using = _as_list(using)
        self.producing = [str(name) for name in _as_list(producing)]
        self.role = role
        self.by = by
        self.values = values

    def decorate(self, function: F) -> F:
        """Return the function with its calls recorded."""
        import inspect  # slow to import: only decorators need it

        if isinstance(function, (staticmethod, classmethod)):
            return type(function)(self.decorate(function.__func__))
        if not callable(function):
            raise TypeError(f"run.step records a function, not {function!r}.")
        call = functools.partial(RecordedCall, self, function, self._signature(function))
        if inspect.isasyncgenfunction(function):
            wrapper = _async_generator(function, call)
        elif inspect.iscoroutinefunction(function):
            wrapper = _coroutine(function, call)
        elif inspect.isgeneratorfunction(function):
            wrapper = _generator(function, call)
        else:
            wrapper = _function(function, call)
        return functools.wraps(function)(wrapper)  # type: ignore[return-value]

    def _signature(self, function: Callable[..., Any]) -> inspect.Signature | None:
        """Return the signature, if there is one. Raise if `using` or `producing` name parameters it does not have."""
        import inspect

        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):  # some functions written in C
            signature = None
        parameters = signature.parameters if signature is not None else {}
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        for name in (*(name for name in self.using if isinstance(name, str)), *self.producing):
            if name not in parameters and not takes_any:
                names = ", ".join(parameters) or "none"
                raise ValueError(f"{_function_name(function)} has no parameter {name!r}. Parameters: {names}.")
        return signature


Caller = Callable[[tuple[Any, ...], dict[str, Any]], "RecordedCall"]


def _function(function: Callable[..., Any], call: Caller) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with call(args, kwargs) as recorded:
            result = function(*args, **kwargs)
            recorded.record_result(result)
        return result

    return wrapper


def _coroutine(function: Callable[..., Any], call: Caller) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        with call(args, kwargs) as recorded:
            result = await function(*args, **kwargs)
            recorded.record_result(result)
        return result

    return wrapper


def _generator(function: Callable[..., Any], call: Caller) -> Callable[..., Any]:
    """Record what a generator yields and returns; what is sent or thrown into it reaches it."""

    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        with call(args, kwargs) as recorded:
            result = yield from _observed(function(*args, **kwargs), recorded)
            recorded.record_result(result)
        return result

    return wrapper


def _observed(source: Generator[Any, Any, Any], call: RecordedCall) -> Generator[Any, Any, Any]:
    sent = thrown = None
    while True:
        try:
            item = source.throw(thrown) if thrown is not None else source.send(sent)
        except StopIteration as stop:
            return stop.value
        call.record_result(item, complete=False)
        sent = thrown = None
        try:
            sent = yield item
        except GeneratorExit:
            source.close()
            raise
        except BaseException as error:
            thrown = error


def _async_generator(function: Callable[..., Any], call: Caller) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        source = function(*args, **kwargs)
        sent = thrown = None
        with call(args, kwargs) as recorded:
            while True:
                try:
                    item = await (source.asend(sent) if thrown is None else source.athrow(thrown))
                except StopAsyncIteration:
                    break
                recorded.record_result(item, complete=False)
                sent = thrown = None
                try:
                    sent = yield item
                except GeneratorExit:
                    await source.aclose()
                    raise
                except BaseException as error:
                    thrown = error

    return wrapper


class RecordedCall(EndsOnExit):
    """One call of a decorated function. An error in here is a capture error and never reaches the caller."""

    def __init__(
        self,
        options: StepOptions,
        function: Callable[..., Any],
        signature: inspect.Signature | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self.options = options
        self.step: Step | None = None
        self.inputs: list[Data] = []
        self.data_by_id: dict[int, Data] = {}
        """Data of the run among the arguments, by the identity of the argument, which lives as long as the call."""
        self.targets: list[Any] = []
        """Values of the parameters that `producing` names."""
        self.initial_dicts: dict[int, dict[Any, Any]] = {}
        """Copies of the dictionaries among the arguments, by the identity of the argument."""
        if options.run.disabled:
            return
        with report_errors(options.run):
            arguments = _bind(signature, args, kwargs)
            self.targets = [arguments[name] for name in options.producing if arguments.get(name) is not None]
            self.inputs = list(self._find_inputs(arguments))
            if options.kind in LEARNING_KINDS:
                dicts = (value for value in arguments.values() if isinstance(value, dict))
                self.initial_dicts = {id(value): dict(value) for value in dicts if len(value) <= MAX_PARAMETER_SIZE}
            self._begin(options.named or _function_name(function), self._parameters(arguments))

    def _begin(self, name: str, values: dict[str, Any]) -> None:
        """Begin the step. A test is recorded with the model that it tests; a training has the model as an input."""
        options, models = self.options, [data for data in self.inputs if data.kind == "model"]
        if options.kind not in LEARNING_KINDS:
            self.step = Step(options.run, options.kind, name, self.inputs, values, by=options.by)
        elif options.kind == "training" or len(models) != 1:
            self.step = Stage(options.run, options.kind, name, self.inputs, values, by=options.by)
        else:
            rest = [data for data in self.inputs if data is not models[0]]
            self.step = Stage(options.run, options.kind, name, rest, values, by=options.by, of=models[0])

    # ---- arguments

    def _find_inputs(self, arguments: dict[str, Any]) -> Iterator[Data]:
        """Yield the data among the arguments: what `using` names, and what the run has registered."""
        named = [item for item in self.options.using if isinstance(item, str)]
        yield from (item for item in self.options.using if isinstance(item, Data))
        for name, value in arguments.items():
            if name in named:
                for item in _flatten(value, is_data=True):
                    yield item if isinstance(item, Data) else self._register_input(item, name)
            elif name not in self.options.producing:
                for item in _flatten(value):
                    if (data := item if isinstance(item, Data) else self._registered(item)) is not None:
                        self.data_by_id[id(item)] = data
                        yield data

    def _register_input(self, source: Any, name: str) -> Data:
        return self.options.run.dataset(source, name=_data_name(source, name))

    def _registered(self, argument: Any) -> Data | None:
        """Return the data that an argument was registered as.

        A file that changed since is registered again; one that was deleted is not used.
        """
        run = self.options.run
        data = run._data_registry.find(argument)
        if data is None or not isinstance(argument, (str, os.PathLike)):
            return data
        if not Path(argument).exists() or (current := digest(argument)) is None:
            return None
        if current.sha256 == data.sha256:
            return data
        return run.dataset(argument, role=data.role, name="" if data.kind == "model" else data.name)

    def _parameters(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments that are parameters, without data and secrets, and the values of the decorator."""
        data_names = {*self.options.producing, *map(str, self.options.using)}
        values = {name: self._without_data(value) for name, value in arguments.items() if name not in data_names}
        values = {name: redact(value) for name, value in values.items() if _is_parameter(name, value)}
        return {**{name: value for name, value in values.items() if value != {}}, **self.options.values}

    def _without_data(self, value: Any) -> Any:
        """Return an argument without the data in it; None if it is data itself."""
        if id(value) in self.data_by_id:
            return None
        if not self.data_by_id or not isinstance(value, (list, tuple, dict)) or len(value) > MAX_PARAMETER_SIZE:
            return value
        if isinstance(value, dict):
            return {key: item for key, item in value.items() if id(item) not in self.data_by_id}
        return [item for item in value if id(item) not in self.data_by_id]

    # ---- results

    def record_result(self, result: Any, *, complete: bool = True) -> None:
        """Record the data that the function returned or, if not `complete`, yielded."""
        if self.step is None:
            return
        with report_errors(self.options.run):
            for item in _flatten(result):
                self._record_output(item, complete=complete)
            if complete and isinstance(self.step, Stage):
                self._record_measures(self.step, result)

    def _record_output(self, item: Any, *, complete: bool) -> None:
        if isinstance(item, Data):
            if item.ref and not any(item is data for data in self.inputs):
                assert self.step is not None
                self.options.run._emit(Produced(self.step._location, item.ref))
        elif isinstance(item, os.PathLike) or (complete and _is_array(item)):
            if not self._is_passthrough(item):
                self._produced(item, self._output_name(item))
        elif complete and plain(item).__class__ not in PLAIN and not isinstance(item, (type, ModuleType)):
            self.options.run._data_registry.add_later(item, self._produced_later)

    def _record_measures(self, stage: Stage, result: Any) -> None:
        """Record the numbers in a returned dictionary (alone or in a tuple) as measures of a training or test.

        Items that were in the dictionary when it was passed to the function are not measures.
        """
        for item in result if isinstance(result, tuple) else (result,):
            if isinstance(item, dict) and len(item) <= MAX_PARAMETER_SIZE:
                before = self.initial_dicts.get(id(item), {})
                pairs = [(name, value) for name, value in item.items() if isinstance(name, str)]
                new = [(name, value) for name, value in pairs if name not in before or before[name] is not value]
                stage.measured(**{name: value for name, value in new if _is_number(plain(value))})

    def _is_passthrough(self, item: Any) -> bool:
        """Return whether an output is an input with the same content."""
        data = self.options.run._data_registry.find(item)
        if data is None or not any(data.ref == argument.ref for argument in self.data_by_id.values()):
            return False
        current = digest(item)
        return current is not None and current.sha256 == data.sha256

    def _produced(self, source: Any, name: str) -> Data:
        assert self.step is not None
        kind: DataKind = "model" if self.options.kind == "training" else "dataset"
        return self.step.produced(source, name="" if kind == "model" else name, role=self.options.role, kind=kind)

    def _produced_later(self, source: Any) -> Data:
        """Record an output when another step takes it."""
        return self._produced(source, self._output_name(source))

    def _output_name(self, source: Any) -> str:
        assert self.step is not None
        return _data_name(source, self.options.named or Location.parse(self.step._location).stage)

    def _end(self, error: BaseException | None) -> None:
        """Record the files that the function wrote, unless it failed, and end the step."""
        if self.step is None:
            return
        with report_errors(self.options.run):
            if error is None:
                for target in self.targets:
                    for item in _flatten(target, is_data=True):
                        self._produced(item, _data_name(item, ""))
            self.step.done(error=error)


def _bind(signature: inspect.Signature | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by parameter name, with defaults and without `self` and `cls`."""
    if signature is None:
        return dict(kwargs)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:  # the call itself raises it
        return dict(kwargs)
    bound.apply_defaults()
    arguments: dict[str, Any] = {}
    for position, (name, value) in enumerate(bound.arguments.items()):
        parameter = signature.parameters[name]
        if parameter.kind is parameter.VAR_KEYWORD:
            arguments |= value
        elif parameter.kind is parameter.VAR_POSITIONAL:
            arguments |= {name: value} if value else {}
        elif position or name not in ("self", "cls"):
            arguments[name] = value
    return arguments


def _is_parameter(name: str, value: Any) -> bool:
    """Return whether an argument is a plain value, or a short collection of plain values, and not a secret."""
    if is_marked(value):
        return len(str(value)) <= MAX_PARAMETER_SIZE
    if is_secret(name) or (isinstance(value, str) and len(value) > MAX_PARAMETER_SIZE):
        return False
    if isinstance(value, (list, tuple, dict)):
        items = value.values() if isinstance(value, dict) else value
        return 0 < len(value) <= MAX_PARAMETER_SIZE and all(plain(item).__class__ in PLAIN for item in items)
    return plain(value).__class__ in PLAIN


def _flatten(value: Any, *, is_data: bool = False) -> Iterator[Any]:
    """Yield a value, or the values inside a list, tuple or mapping.

    A long collection may have millions of rows: it is skipped, unless `is_data` or its first item is data.
    """
    if not isinstance(value, (list, tuple, dict)):
        yield value
        return
    items = value.values() if isinstance(value, dict) else value
    if is_data or len(value) <= MAX_PARAMETER_SIZE or _is_data(next(iter(items))):
        for item in items:
            yield from _flatten(item, is_data=is_data)


def _is_number(value: object) -> bool:
    """Return whether a value is a number of any type; True and False are none."""
    return isinstance(value, (Real, Decimal)) and not isinstance(value, bool)


def _is_data(value: Any) -> bool:
    return isinstance(value, (Data, os.PathLike)) or _is_array(value)


def _is_array(value: Any) -> bool:
    """Return whether a value is an array with dimensions, which is identified by its content."""
    return hasattr(value, "tobytes") and bool(getattr(value, "shape", ()))


def _data_name(value: Any, name: str) -> str:
    """Return the name of data: empty for a file, which has a name, otherwise the name of the parameter or function."""
    return "" if isinstance(value, (str, os.PathLike)) else to_text(name)


def _as_list(value: Any) -> list[Any]:
    return [value] if isinstance(value, (str, Data)) else list(value)


def _function_name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", "") or type(function).__name__)
