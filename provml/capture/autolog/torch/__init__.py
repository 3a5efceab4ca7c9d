"""PyTorch without a framework around it: hooks and wrappers that reveal a training loop.

Public hooks of PyTorch are used for steps. Everything else is wrapped: see `WRAPPED`. The wrapper of
`Module.__call__` is only there until the networks of all optimizers are known.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from threading import get_ident
from time import perf_counter
from typing import Any

from provml.capture.autolog._patches import Patches
from provml.capture.autolog._session import Session
from provml.capture.autolog.torch._compiler import has_graphs, hide, hide_methods
from provml.capture.autolog.torch._losses import Mirror
from provml.capture.autolog.torch._observer import ONLY_OPTIMIZER, Observer
from provml.capture.autolog.torch._steady import SteadyLoop

LOSSES = (
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cross_entropy", "ctc_loss",
    "gaussian_nll_loss", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "margin_ranking_loss", "mse_loss",
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss", "poisson_nll_loss",
    "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss",
)  # fmt: skip
"""Loss functions of `torch.nn.functional`, which the classes of `torch.nn` call."""

SCHEDULERS = ("LRScheduler", "ReduceLROnPlateau", "SequentialLR", "ChainedScheduler")
"""Schedulers with a constructor that calls no other one."""


def activate(session: Session, patches: Patches) -> None:
    """Register the hooks and wrap the functions."""
    torch = sys.modules["torch"]
    observer = session.torch_observer = Observer(session)
    hooks = _hook_steps(torch, observer, patches)
    _wrap_construction(torch, observer, patches)
    _wrap_loaders(torch, observer, patches)
    _wrap_gradients(torch, observer, patches)
    _wrap_zero_grad(torch, observer, patches)
    _wrap_losses(torch, observer, patches)
    _wrap_modes_and_files(torch, observer, patches)
    hide_methods(Observer, SteadyLoop, Mirror, Session)
    others = [patch.replacement for patch in patches if patch.owner is not torch.nn.functional]
    hide([*hooks, *others], with_callees=False)  # a script may compile a loss function itself


def _hook_steps(torch: Any, observer: Observer, patches: Patches) -> list[Callable[..., None]]:
    """Register PyTorch's global hooks before and after the steps of all optimizers, and return them."""
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    steady, is_traced = observer.steady, torch.compiler.is_dynamo_compiling

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        if is_traced():
            return
        if steady.thread == get_ident() and steady.optimizer() is optimizer:
            steady.is_stepping = True
            return
        try:
            if observer.is_observing():
                observer.before_hooked_step(optimizer)
        except Exception as error:
            observer.session.report(error)

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if is_traced():
            return
        try:
            if steady.thread == get_ident() and steady.optimizer() is optimizer:
                steady.is_stepping = False
                if steady.add_step(optimizer):
                    return
                observer.before_step(optimizer)
            if observer.is_observing():
                observer.after_step(optimizer)
        except Exception as error:
            observer.session.report(error)

    patches.on_undo(register_optimizer_step_pre_hook(before).remove)
    patches.on_undo(register_optimizer_step_post_hook(after).remove)
    return [before, after]


def _observed(observer: Observer, original: Callable[..., Any], notice: Callable[..., None]) -> Callable[..., Any]:
    """Return a function that calls `notice(result, *args, **kwargs)` after the original."""
    is_traced = observer.torch.compiler.is_dynamo_compiling
    hide([notice], with_callees=True)

    def function(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if is_traced():
            return result
        try:
            if observer.is_observing():
                notice(result, *args, **kwargs)
        except Exception as error:
            observer.session.report(error)
        return result

    return wraps(original)(function)


def _wrap_construction(torch: Any, observer: Observer, patches: Patches) -> None:
    """Wrap the constructors of optimizers and schedulers, and the call of modules until the networks are known."""
    call = CallWrapper(torch, observer)
    patches.on_undo(call.remove)
    call.install()

    def on_optimizer(result: Any, optimizer: Any, *args: Any, **kwargs: Any) -> None:
        observer.on_optimizer(optimizer)
        call.install()

    def on_scheduler(result: Any, scheduler: Any, *args: Any, **kwargs: Any) -> None:
        observer.on_scheduler(scheduler)

    patches.wrap(torch.optim.Optimizer, "__init__", lambda original: _observed(observer, original, on_optimizer))
    scheduler_module = torch.optim.lr_scheduler
    for name in SCHEDULERS:
        cls = getattr(scheduler_module, name, None)
        if cls is not None and "__init__" in vars(cls):
            patches.wrap(cls, "__init__", lambda original: _observed(observer, original, on_scheduler))


class CallWrapper:
    """The wrapper of `torch.nn.Module.__call__`, which removes itself when it is not needed.

    It stays if something is compiled: the compiler would make the graphs of all modules again.
    """

    def __init__(self, torch: Any, observer: Observer) -> None:
        self._module_type = torch.nn.Module
        self._original = original = torch.nn.Module.__call__
        is_compiling, is_grad_enabled = torch.compiler.is_compiling, torch.is_grad_enabled
        is_inside = False

        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal is_inside
            if is_compiling():
                return original(module, *args, **kwargs)
            if is_inside or not is_grad_enabled() or not observer.is_observing():
                return original(module, *args, **kwargs)
            is_inside = True
            try:
                observer.on_call(module)
                return original(module, *args, **kwargs)
            finally:
                is_inside = False
                if not observer.needs_calls and not has_graphs():
                    self.remove()

        self._wrapper = wraps(original)(call)

    def install(self) -> None:
        """Wrap the call of modules."""
        if self._module_type.__call__ is self._original:
            self._module_type.__call__ = self._wrapper

    def remove(self) -> None:
        """Restore the call of modules, unless another package wrapped it since."""
        if self._module_type.__call__ is self._wrapper:
            self._module_type.__call__ = self._original


def _wrap_loaders(torch: Any, observer: Observer, patches: Patches) -> None:
    """Wrap the beginning of a loop over a loader, and its next batch."""

    def on_pass(iterator: Any, loader: Any) -> None:
        if hasattr(type(iterator), "__weakref__") or hasattr(iterator, "__dict__"):
            observer.on_pass(loader, iterator)

    steady, is_grad_enabled, is_traced = observer.steady, torch.is_grad_enabled, torch.compiler.is_dynamo_compiling

    def make_next(original: Callable[..., Any]) -> Callable[..., Any]:
        def __next__(iterator: Any) -> Any:  # noqa: N807  # the name of Python
            if is_traced():
                return original(iterator)
            if steady.thread == get_ident() and steady.iterator() is iterator and is_grad_enabled():
                try:
                    data = original(iterator)
                except StopIteration:
                    observer.session.guard(observer.on_last_batch, iterator)
                    raise
                steady.batches += 1
                return data
            asked = perf_counter()
            try:
                data = original(iterator)
            except StopIteration:
                observer.session.guard(observer.on_last_batch, iterator)
                raise
            try:
                if observer.is_observing():
                    observer.on_batch(iterator, asked)
            except Exception as error:
                observer.session.report(error)
            return data

        return __next__

    patches.wrap(torch.utils.data.DataLoader, "__iter__", lambda original: _observed(observer, original, on_pass))
    patches.wrap(torch.utils.data.dataloader._BaseDataLoaderIter, "__next__", make_next)


def _compiler_check(torch: Any) -> Callable[[], object]:
    """Return a function whose result is not None while code is compiled or runs between compiled graphs.

    Only then does a wrapper have to be hidden from the compiler, which takes as long as the wrapper itself.
    """
    callback = getattr(getattr(torch._C._dynamo, "eval_frame", None), "get_eval_frame_callback", None)
    return callback if callback is not None else lambda: True


def _wrap_gradients(torch: Any, observer: Observer, patches: Patches) -> None:
    """Wrap the backward pass and the scaling of losses."""

    def on_scale(result: Any, scaler: Any, outputs: Any) -> None:
        observer.on_scale(scaler, outputs, result)

    patches.wrap(torch.autograd, "backward", lambda original: _choose_backward(torch, observer, original))
    patches.wrap(torch.amp.GradScaler, "scale", lambda original: _observed(observer, original, on_scale))


def _choose_backward(torch: Any, observer: Observer, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the backward pass that is observed: in a steady loop, otherwise, and inside of compiled code."""
    compiler, steady, tensor_type = _compiler_check(torch), observer.steady, torch.Tensor
    observed = _observed_backward(observer, original)
    disabled: list[Callable[..., Any]] = []

    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if compiler() is not None:
            if not disabled:
                disabled.append(torch.compiler.disable(observed))
            return disabled[0](tensors, *args, **kwargs)
        if steady.thread != get_ident():
            return observed(tensors, *args, **kwargs)
        if steady.pending is not None:  # inside of another one
            return original(tensors, *args, **kwargs)
        loss = None
        try:
            if type(tensors) is tensor_type:
                is_number = tensors.is_cpu and observer.functional is None
                loss = tensors.item() if is_number else observer.copy_scalar(tensors)
        except Exception:  # it has several elements, or no value
            pass
        if loss is None:
            return observed(tensors, *args, **kwargs)
        steady.pending, steady.used_batch = loss, steady.batches
        try:
            result = original(tensors, *args, **kwargs)
        except BaseException:
            steady.pending = None
            raise
        if steady.pending is not None:
            steady.pending = None
            steady.mirror.losses.append(loss)
        else:  # something else happened during the backward pass
            observer.session.guard(observer.after_backward, ONLY_OPTIMIZER)
        return result

    backward._torchdynamo_disable = True  # type: ignore[attr-defined]  # the compiler calls it and does not look inside
    return wraps(original)(backward)


def _observed_backward(observer: Observer, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a backward pass whose loss goes to the optimizers that it reached.

    One inside of another, by which checkpoints compute activations again, has no loss of its own.
    """
    thread = 0  # that makes a backward pass

    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal thread
        if thread == get_ident():
            return original(tensors, *args, **kwargs)
        states = None
        try:
            if observer.is_observing():
                states = observer.before_backward(tensors)
        except Exception as error:
            observer.session.report(error)
        thread = get_ident() if states is not None else thread
        try:
            result = original(tensors, *args, **kwargs)
        finally:
            thread = 0 if states is not None else thread
        if states is not None:
            try:
                observer.after_backward(states)
            except Exception as error:
                observer.session.report(error)
        return result

    return wraps(original)(backward)


def _wrap_zero_grad(torch: Any, observer: Observer, patches: Patches) -> None:
    """Wrap `zero_grad`, which forgets the losses in the gradients."""
    mirrors, is_traced = observer.mirrors, torch.compiler.is_dynamo_compiling

    def make_zero_grad(original: Callable[..., Any]) -> Callable[..., Any]:
        def zero_grad(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if is_traced():
                return original(optimizer, *args, **kwargs)
            mirror = mirrors.get(id(optimizer))
            if mirror is not None and mirror.losses and observer.is_observing():
                observer.session.guard(observer.on_zero_grad, mirror)
            return original(optimizer, *args, **kwargs)

        return wraps(original)(zero_grad)

    def on_module_zero_grad(result: Any, module: Any, *args: Any, **kwargs: Any) -> None:
        observer.on_module_zero_grad(module)

    patches.wrap(torch.optim.Optimizer, "zero_grad", make_zero_grad)
    patches.wrap(torch.nn.Module, "zero_grad", lambda original: _observed(observer, original, on_module_zero_grad))


def _wrap_losses(torch: Any, observer: Observer, patches: Patches) -> None:
    """Wrap the loss functions: the loss of a validation is seen nowhere else."""
    functional, is_traced, is_compiling = (
        torch.nn.functional,
        torch.compiler.is_dynamo_compiling,
        torch.compiler.is_compiling,
    )

    def make_loss(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def loss(*args: Any, **kwargs: Any) -> Any:
            value = original(*args, **kwargs)
            if is_traced():
                return value
            try:
                if value.requires_grad:
                    if name not in observer.whole_losses and observer.is_observing():
                        observer.on_training_loss(name, value)
                elif observer.is_observing() and type(value) is torch.Tensor and not value.ndim and not is_compiling():
                    first: Any = args[0] if args else kwargs.get("input")
                    rows = first.shape[0] if getattr(first, "ndim", 0) else 1
                    observer.on_functional(name, value, rows, _is_sum(args, kwargs))
            except Exception as error:
                observer.session.report(error)
            return value

        wrapper = wraps(original)(loss)
        # the marks of `torch.jit.script_if_tracing`: a scripted function uses the original
        setattr(wrapper, "__script_if_tracing_wrapper", True)  # the name would be mangled
        setattr(wrapper, "__original_fn", original)
        return wrapper

    for name in LOSSES:
        if hasattr(functional, name):
            patches.replace(functional, name, make_loss(name, getattr(functional, name)))


def _is_sum(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a loss function was asked for the sum over the rows."""
    return kwargs.get("reduction") == "sum" or any(type(item) is str and item == "sum" for item in args)


def _wrap_modes_and_files(torch: Any, observer: Observer, patches: Patches) -> None:
    """Wrap the switch between training and evaluation, and the functions that save and load."""
    depth, is_traced = 0, torch.compiler.is_dynamo_compiling

    def make_train(original: Callable[..., Any]) -> Callable[..., Any]:
        def train(module: Any, mode: bool = True) -> Any:
            nonlocal depth
            if is_traced():
                return original(module, mode)
            depth += 1
            try:
                result = original(module, mode)
            finally:
                depth -= 1
            try:
                if not depth and observer.is_observing():
                    observer.on_mode(module, mode)
            except Exception as error:
                observer.session.report(error)
            return result

        return train

    def on_save(result: Any, obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        observer.on_save(obj, f)

    def on_load(result: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        observer.on_load(result, f)

    def on_load_state_dict(result: Any, module: Any, state_dict: Any, *args: Any, **kwargs: Any) -> None:
        observer.on_load_state_dict(module, state_dict)

    patches.wrap(torch.nn.Module, "train", make_train)
    patches.wrap(torch.nn.Module, "load_state_dict", lambda original: _observed(observer, original, on_load_state_dict))
    for name, notice in (("save", on_save), ("load", on_load)):
        wrapped = _observed(observer, getattr(torch, name), notice)
        patches.replace(torch.serialization, name, wrapped)
        patches.replace(torch, name, wrapped)
