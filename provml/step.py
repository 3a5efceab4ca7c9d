"""A function as a step: each call is recorded with what it used, its parameters and what it produced.

`@run.step` takes what it can tell by itself. An argument that the run was told as data is used: the data itself, its
file (a path, or a text that looks like one, to the same real path), or the very object that was told or that a step
gave; alone, or in a list, a tuple or a dictionary. Other plain arguments are parameters. Data, paths and arrays that
come back are produced, and so is any other object once another step takes it. The rest is said by the name of a
parameter: `using="source"` for a path or an array that is used, `producing="target"` for the path that the function
writes to. What the function gives, raises or yields is what it would give, raise or yield without it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from provml.content import Data, of, text
from provml.event import LEARNING, STEPS, Produced
from provml.secret import is_secret, without_secrets
from provml.sections import Stage, Step
from provml.values import PLAIN, plain

if TYPE_CHECKING:
    import inspect

    from provml.recorder import Recorder

F = TypeVar("F", bound=Callable[..., Any])
LONGEST = 1000
"""A text with more characters, or a list with more items, is a document or data rather than a parameter."""


def make(run: Recorder, what: Any = None, **said: Any) -> Any:
    """A step that has a name; of a function, the same function with its calls recorded; of nothing, what does that."""
    if isinstance(what, str):
        return Step(run, "step", what, said.pop("using", ()), said, said.pop("by", ""))
    way = Way(run, **said)
    if what is None:
        return way.recorded
    if not callable(what) and not isinstance(what, classmethod):
        raise TypeError(f"run.step takes a name or a function, not {what!r}")
    return way.recorded(what)


class Way:
    """How the calls of a function are recorded."""

    def __init__(
        self,
        run: Recorder,
        *,
        named: str = "",
        kind: str = "step",
        using: str | Data | Iterable[str | Data] = (),
        producing: str | Iterable[str] = (),
        role: str = "",
        by: str = "",
        **values: Any,
    ) -> None:
        if kind not in STEPS:
            raise ValueError(f"kind is one of {', '.join(STEPS)}, not {kind!r}")
        self.run = run
        self.named = named
        self.kind = kind
        self.using = _several(using)
        self.producing = [str(name) for name in _several(producing)]
        self.role = role
        self.by = by
        self.values = values

    def recorded(self, function: F) -> F:
        """The same function, each call of which is a step."""
        import inspect  # which takes its time: only who decorates needs it

        if isinstance(function, (staticmethod, classmethod)):
            return type(function)(self.recorded(function.__func__))
        if not callable(function):
            raise TypeError(f"run.step records a function, not {function!r}")
        signature = self._signature(function)
        around: Callable[..., Any]
        if inspect.isasyncgenfunction(function):

            async def around(*given: Any, **named: Any) -> AsyncGenerator[Any, Any]:
                source = function(*given, **named)
                sent = thrown = None
                with Call(self, function, signature, given, named) as call:
                    while True:
                        try:
                            item = await (source.asend(sent) if thrown is None else source.athrow(thrown))
                        except StopAsyncIteration:
                            break
                        call.gave(item, whole=False)
                        sent = thrown = None
                        try:
                            sent = yield item
                        except GeneratorExit:
                            await source.aclose()
                            raise
                        except BaseException as error:
                            thrown = error

        elif inspect.iscoroutinefunction(function):

            async def around(*given: Any, **named: Any) -> Any:
                with Call(self, function, signature, given, named) as call:
                    result = await function(*given, **named)
                    call.gave(result)
                return result

        elif inspect.isgeneratorfunction(function):

            def around(*given: Any, **named: Any) -> Generator[Any, Any, Any]:
                with Call(self, function, signature, given, named) as call:
                    result = yield from _seen(function(*given, **named), call)
                    call.gave(result)
                return result

        else:

            def around(*given: Any, **named: Any) -> Any:
                with Call(self, function, signature, given, named) as call:
                    result = function(*given, **named)
                    call.gave(result)
                return result

        return functools.wraps(function)(around)  # type: ignore[return-value]

    def _signature(self, function: Callable[..., Any]) -> inspect.Signature | None:
        """The function's signature, if it has one; the names that were said must be those of its parameters."""
        import inspect

        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):  # some that are written in C
            signature = None
        known = signature.parameters if signature is not None else {}
        free = any(one.kind is one.VAR_KEYWORD for one in known.values())
        for name in (*(one for one in self.using if isinstance(one, str)), *self.producing):
            if name not in known and not free:
                raise ValueError(f"{_name(function)} has no parameter {name!r}; it has {', '.join(known) or 'none'}")
        return signature


class Call:
    """One call, from its beginning to its end. What goes wrong in here is a fault of capture, never the call's."""

    def __init__(
        self,
        way: Way,
        function: Callable[..., Any],
        signature: inspect.Signature | None,
        given: tuple[Any, ...],
        named: dict[str, Any],
    ) -> None:
        self.way = way
        self.step: Step | None = None
        self.used: list[Data] = []
        self.told: dict[int, Data] = {}
        """The arguments, or what is inside them, that the run knew as data, by their identity while the call lasts."""
        self.targets: list[Any] = []
        self.given: dict[int, dict[Any, Any]] = {}
        """What was in the dictionaries among the arguments, by their identity while the call lasts."""
        run = way.run
        if run.off:
            return
        try:
            bound = _bound(signature, given, named)
            self.targets = [bound[name] for name in way.producing if bound.get(name) is not None]
            self.used = list(self._inputs(bound))
            held = (one for one in bound.values() if isinstance(one, dict) and len(one) <= LONGEST)
            self.given = {id(one): dict(one) for one in held} if way.kind in LEARNING else {}
            data = {*way.producing, *map(str, way.using)}
            values = {name: self._without_data(value) for name, value in bound.items() if name not in data}
            values = {name: value for name, value in values.items() if _is_parameter(name, value)}
            values = {name: told for name, value in values.items() if (told := without_secrets(value)) != {}}
            self._begin(way.named or _name(function), {**values, **way.values})
        except Exception as error:
            run.fault(error)

    def _begin(self, title: str, values: dict[str, Any]) -> None:
        """The step begins. What tests a model is told which; a training goes on from it, and uses it."""
        way, models = self.way, [one for one in self.used if one.kind == "model"]
        if way.kind not in LEARNING:
            self.step = Step(way.run, way.kind, title, self.used, values, way.by)
        elif way.kind == "training" or len(models) != 1:
            self.step = Stage(way.run, way.kind, title, self.used, values, way.by)
        else:
            rest = [one for one in self.used if one is not models[0]]
            self.step = Stage(way.run, way.kind, title, rest, values, way.by, of=models[0])

    def _inputs(self, bound: dict[str, Any]) -> Iterator[Data]:
        """The data among the arguments: what was said to be data, and what the run knows."""
        said = [one for one in self.way.using if isinstance(one, str)]
        yield from (one for one in self.way.using if isinstance(one, Data))
        for name, value in bound.items():
            if name in said:
                for one in _parts(value, said=True):
                    yield one if isinstance(one, Data) else self.way.run.dataset(one, name=_title(one, name))
            elif name not in self.way.producing:
                for one in _parts(value):
                    if (known := one if isinstance(one, Data) else self._known(one)) is not None:
                        self.told[id(one)] = known
                        yield known

    def _known(self, one: Any) -> Data | None:
        """What the run was told an argument as. A file that was changed since is told as it is now; one that is gone
        is not used."""
        run = self.way.run
        told = run.known.find(one)
        if told is None or not isinstance(one, (str, os.PathLike)):
            return told
        if not Path(one).exists() or (now := of(one)) is None:
            return None
        if now.sha256 == told.sha256:
            return told
        return run.dataset(one, role=told.role, name="" if told.kind == "model" else told.name)

    def _without_data(self, value: Any) -> Any:
        """An argument without what is data in it; None where it is data itself."""
        if id(value) in self.told:
            return None
        if not self.told or not isinstance(value, (list, tuple, dict)) or len(value) > LONGEST:
            return value
        if isinstance(value, dict):
            return {key: one for key, one in value.items() if id(one) not in self.told}
        return [one for one in value if id(one) not in self.told]

    def gave(self, result: Any, *, whole: bool = True) -> None:
        """It returned or, if not `whole`, yielded something: what is data of it was produced."""
        if self.step is None:
            return
        try:
            for one in _parts(result):
                if isinstance(one, Data):
                    if one.ref and not any(one is known for known in self.used):
                        self._tell_produced(one)
                elif isinstance(one, os.PathLike) or (whole and _is_array(one)):
                    if not self._handed_on(one):
                        self._produced(one, self._title(one))
                elif whole and plain(one).__class__ not in PLAIN and not isinstance(one, (type, ModuleType)):
                    self.way.run.known.add_later(one, self._produced_later)
            if whole and isinstance(self.step, Stage):
                self._measured(self.step, result)
        except Exception as error:
            self.way.run.fault(error)

    def _measured(self, stage: Stage, result: Any) -> None:
        """Numbers by name, alone or beside what was made, are the measures of a training or of a test.

        What was in a dictionary that it was given, and is so still, was not measured.
        """
        for one in result if isinstance(result, tuple) else (result,):
            if isinstance(one, dict) and len(one) <= LONGEST:
                was = self.given.get(id(one), {})
                pairs = [(name, value) for name, value in one.items() if isinstance(name, str)]
                new = [(name, value) for name, value in pairs if name not in was or was[name] is not value]
                stage.measured(**{name: value for name, value in new if plain(value).__class__ in (int, float)})

    def _tell_produced(self, data: Data) -> None:
        assert self.step is not None
        self.way.run.tell(Produced(self.step.at, data.ref))

    def _handed_on(self, one: Any) -> bool:
        """Whether it gives back what it was given, as it was: the same file or array, with the same content."""
        told = self.way.run.known.find(one)
        if told is None or not any(told.ref == known.ref for known in self.told.values()):
            return False
        now = of(one)
        return now is not None and now.sha256 == told.sha256

    def _produced(self, source: Any, title: str) -> Data:
        assert self.step is not None
        kind = "model" if self.way.kind == "training" else "dataset"
        return self.step.produced(source, name="" if kind == "model" else title, role=self.way.role, kind=kind)

    def _produced_later(self, source: Any) -> Data:
        """Another step takes what this one gave: it is data."""
        return self._produced(source, self._title(source))

    def _title(self, source: Any) -> str:
        assert self.step is not None
        return _title(source, self.way.named or self.step.at.partition("@")[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """It ended, by an error or by none; what it was to write is there now."""
        if self.step is None:
            return
        try:
            if error is None:
                for target in self.targets:
                    for one in _parts(target, said=True):
                        self._produced(one, _title(one, ""))
            self.step.done(error=error)
        except Exception as fault:
            self.way.run.fault(fault)


def _seen(source: Generator[Any, Any, Any], call: Call) -> Generator[Any, Any, Any]:
    """A generator, with what it yields seen; what is sent and thrown in reaches it."""
    sent = thrown = None
    while True:
        try:
            item = source.throw(thrown) if thrown is not None else source.send(sent)
        except StopIteration as stop:
            return stop.value
        call.gave(item, whole=False)
        sent = thrown = None
        try:
            sent = yield item
        except GeneratorExit:
            source.close()
            raise
        except BaseException as error:
            thrown = error


def _bound(signature: inspect.Signature | None, given: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by the names of the parameters, defaults among them; `self` and `cls` are left out."""
    if signature is None:
        return dict(named)
    try:
        bound = signature.bind(*given, **named)
    except TypeError:  # the call itself will say so
        return dict(named)
    bound.apply_defaults()
    found: dict[str, Any] = {}
    for place, (name, value) in enumerate(bound.arguments.items()):
        one = signature.parameters[name]
        if one.kind is one.VAR_KEYWORD:
            found |= value
        elif one.kind is one.VAR_POSITIONAL:
            found |= {name: value} if value else {}
        elif place or name not in ("self", "cls"):
            found[name] = value
    return found


def _is_parameter(name: str, value: Any) -> bool:
    """Whether an argument is plain enough to be a parameter, and no secret."""
    if is_secret(name) or (isinstance(value, str) and len(value) > LONGEST):
        return False
    if isinstance(value, (list, tuple, dict)):
        inside = value.values() if isinstance(value, dict) else value
        return 0 < len(value) <= LONGEST and all(plain(one).__class__ in PLAIN for one in inside)
    return plain(value).__class__ in PLAIN


def _parts(value: Any, *, said: bool = False) -> Iterator[Any]:
    """A value, or those inside a list, a tuple or a mapping.

    A long one is not looked through unless it was `said` to be data, or begins with some: it may have millions of rows.
    """
    if not isinstance(value, (list, tuple, dict)):
        yield value
        return
    inside = value.values() if isinstance(value, dict) else value
    if said or len(value) <= LONGEST or _is_data(next(iter(inside))):
        for one in inside:
            yield from _parts(one, said=said)


def _is_data(value: Any) -> bool:
    return isinstance(value, (Data, os.PathLike)) or _is_array(value)


def _is_array(value: Any) -> bool:
    """Whether it is an array of some dimensions, which is known by its content."""
    return hasattr(value, "tobytes") and bool(getattr(value, "shape", ()))


def _title(value: Any, name: str) -> str:
    """A file has its own name; what has none, that of the parameter or the function."""
    return "" if isinstance(value, (str, os.PathLike)) else text(name)


def _several(given: Any) -> list[Any]:
    return [given] if isinstance(given, (str, Data)) else list(given)


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", "") or type(function).__name__)
