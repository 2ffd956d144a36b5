"""The FLOPs of a torch program, counted at the dispatcher as it runs: on the CPU, on a GPU, or on the meta device.

    with count_flops() as counted:
        loss = model(x).pow(2).mean()
        loss.backward()
    counted.forward.matrix, counted.backward.matrix, counted.by_module["Decoder.blocks.0"].matrix

What each operator costs, and by which conventions, is said in ``flop_rules``. An operator without a rule that is not
known to be free raises ``UncountedOperation``; nothing is silently lost.

Not seen: other threads than the one that opened the counter and those that autograd runs for it, kernels called past
the dispatcher (Triton, ctypes), and what ``torch.compile`` has fused: count the model that was compiled. What a tensor
subclass does inside is counted as the operator that was called on it.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from threading import get_ident
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils import checkpoint as checkpointing

from properties.instruments.flop_rules import (
    FREE,
    NOTHING,
    RULES,
    Recomputing,
    Rule,
    UncountedOperation,
    Work,
    over_each,
)
from properties.instruments.modes import Mode

__all__ = ["Counted", "Phase", "Rule", "UncountedOperation", "Work", "count_flops"]


class Phase(Enum):
    """Which part of a training step an operator belongs to."""

    FORWARD = "forward"
    BACKWARD = "backward"
    RECOMPUTED = "recomputed"
    """Done again during the backward pass: a checkpointed region, or the scores inside fused attention."""
    OPTIMIZER = "optimizer"

    def __hash__(self) -> int:
        return id(self)


@dataclass
class Counted:
    """What was counted, while it is counted and afterwards."""

    calls: dict[str, int] = field(default_factory=dict)
    """How often each operator was called, those that cost nothing included, in the order of their first calls."""
    _work: dict[tuple[Phase, str, str], list[int]] = field(default_factory=dict)

    @property
    def forward(self) -> Work:
        """Outside the backward pass and the optimiser."""
        return self._of(Phase.FORWARD)

    @property
    def backward(self) -> Work:
        """In the backward pass, without what it did again."""
        return self._of(Phase.BACKWARD)

    @property
    def recomputed(self) -> Work:
        """In the backward pass, but work of the forward pass done again."""
        return self._of(Phase.RECOMPUTED)

    @property
    def optimizer(self) -> Work:
        """In ``step()`` of an optimiser, without the loss that a closure evaluates."""
        return self._of(Phase.OPTIMIZER)

    @property
    def model(self) -> Work:
        """What the model itself asks for: forward and backward, each done once. The numerator of MFU."""
        return _sum((self.forward, self.backward))

    @property
    def hardware(self) -> Work:
        """Everything that was computed. The numerator of HFU."""
        return _sum(Work(*work) for work in self._work.values())

    @property
    def matrix(self) -> int:
        """Matrix FLOPs of everything that was computed."""
        return self.hardware.matrix

    @property
    def elementwise(self) -> int:
        """Elementwise FLOPs of everything that was computed."""
        return self.hardware.elementwise

    @property
    def comparisons(self) -> int:
        """Comparisons in everything that was computed."""
        return self.hardware.comparisons

    @property
    def by_operator(self) -> Mapping[str, Work]:
        """The work of each operator that did any, such as ``aten.mm``."""
        return self._grouped(lambda phase, module, operator: (operator,))

    @property
    def by_module(self) -> Mapping[str, Work]:
        """The work of each module, in every phase, that of the modules in it included.

        A name begins at the class of the outermost module that was called: ``Decoder.blocks.0.attention``. Work done
        outside any module has the name "". A shared module goes by the first of its names. A backward operator belongs
        to the module in which its forward operator ran.
        """
        return self._grouped(lambda phase, module, operator: _lineage(module))

    def within(self, phase: Phase) -> Mapping[str, Work]:
        """The work of each operator in one phase."""
        return self._grouped(lambda own, module, operator: (operator,) if own is phase else ())

    def in_module(self, name: str, phase: Phase) -> Work:
        """The work of a module and those in it in one phase; zero for a name that did none."""
        found = self._grouped(lambda own, module, operator: _lineage(module) if own is phase else ())
        return found.get(name, NOTHING)

    def _of(self, phase: Phase) -> Work:
        return _sum(Work(*work) for (own, _, _), work in self._work.items() if own is phase)

    def _grouped(self, keys: Callable[[Phase, str, str], Iterable[str]]) -> dict[str, Work]:
        grouped: dict[str, Work] = {}
        for place, work in self._work.items():
            for key in keys(*place):
                grouped[key] = _sum((grouped.get(key, NOTHING), Work(*work)))
        return grouped

    def _add(self, phase: Phase, module: str, operator: str, work: Work) -> None:
        total = self._work.get((phase, module, operator))
        if total is None:
            self._work[phase, module, operator] = list(work)
            return
        total[0] += work[0]
        total[1] += work[1]
        total[2] += work[2]


def _sum(parts: Iterable[Work]) -> Work:
    return Work(*map(sum, zip(NOTHING, *parts, strict=True)))


def _lineage(module: str) -> list[str]:
    """A module's name and those of the modules it stands in."""
    parts = module.split(".")
    return [".".join(parts[: length + 1]) for length in range(len(parts))]


@contextmanager
def count_flops(rules: Mapping[Any, Rule] | None = None) -> Iterator[Counted]:
    """Count what torch computes inside.

    ``rules`` adds or replaces rules, by operator (``torch.ops.aten.mm`` or one of its overloads). Raises
    UncountedOperation out of the operator that no rule covers.
    """
    counted = Counted()
    whereabouts = _Whereabouts()
    with ExitStack() as undo:
        for hook in whereabouts.hooks():
            undo.callback(hook.remove)
        undo.enter_context(_Counter(counted, whereabouts, dict(rules or {})))
        yield counted


# ── the rule of an operator ──


class _Treatment(Enum):
    """What an operator without a rule of its own gets."""

    FREE = "it costs nothing"
    DECOMPOSE = "it consists of other operators, which are counted"
    HAND_ON = "a question about the layout of a tensor, which its own class answers"


_LAYOUT_QUESTIONS = frozenset(
    (
        *(
            "sym_is_contiguous",
            "is_contiguous",
            "is_strides_like_format",
            "is_non_overlapping_and_dense",
            "layout",
            "dim",
        ),
        *("size", "sym_size", "stride", "sym_stride", "storage_offset", "sym_storage_offset", "numel", "sym_numel"),
    )
)


def _find(operator: Any, own: Mapping[Any, Rule]) -> Rule | Recomputing | _Treatment:
    """The rule of an operator: the caller's, ours, or what to do without one. Raises UncountedOperation."""
    packet = getattr(operator, "overloadpacket", None)
    for key in (operator, packet):
        if key is not None and key in own:
            return own[key]
    if isinstance(operator, torch._ops.OpOverload):
        name = operator._schema.name.partition("::")[2]
        if operator.namespace == "profiler" or name == "device":
            return _Treatment.FREE
        if operator.namespace in ("aten", "prim"):
            if name in _LAYOUT_QUESTIONS:
                return _Treatment.HAND_ON
            found = _by_name(name)
            if found is not None:
                return found
        if _is_composite(operator):
            return _Treatment.DECOMPOSE
    raise UncountedOperation(
        f"{operator} has no rule, and its FLOPs would be lost. Give it one: count_flops(rules={{{_spelled(operator)}: "
        "lambda args, kwargs, out: Work(matrix=...)}), where Work() is nothing. If it is one of torch's own, add it to"
        " RULES or FREE in properties/instruments/flop_rules.py"
    )


def _by_name(name: str) -> Rule | Recomputing | _Treatment | None:
    for known in (name, name.removesuffix("_")):
        if known in RULES:
            return RULES[known]
        if known in FREE:
            return _Treatment.FREE
    if name.startswith("_foreach_"):
        single = _by_name(name.removeprefix("_foreach_"))
        return over_each(single) if callable(single) else single
    return None


def _is_composite(operator: Any) -> bool:
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return bool(operator.has_kernel_for_dispatch_key(key))


def _spelled(operator: Any) -> str:
    return f"torch.ops.{operator}" if isinstance(operator, torch._ops.OpOverload) else repr(operator)


# ── where work is done ──

_ROOT = ""
_NO_FORWARD = 1 << 62
"""Nodes from this sequence number on accumulate gradients, and belong to no forward operator."""


class _Whereabouts:
    """The module and the phase that torch is in.

    Autograd numbers its nodes in order, one count a thread. Each time a module is entered or left the next number is
    noted, so that the number of a backward node tells in which module its forward operator ran.
    """

    def __init__(self) -> None:
        self.stepping = 0
        self.modules: list[str] = [_ROOT]
        self.main = get_ident()
        self.marks: dict[int, tuple[list[int], list[str]]] = {self.main: ([0], [_ROOT])}
        self._names: dict[nn.Module, str] = {}

    def hooks(self) -> Iterator[Any]:
        """Handles of the hooks that keep this up to date, to be removed."""
        yield register_module_forward_pre_hook(self._enter)
        yield register_module_forward_hook(self._leave, always_call=True)
        yield register_optimizer_step_pre_hook(self._begin_step)
        yield register_optimizer_step_post_hook(self._end_step)

    def _begin_step(self, *unused: object) -> None:
        self.stepping += 1

    def _end_step(self, *unused: object) -> None:
        self.stepping -= 1

    def _enter(self, module: nn.Module, *unused: object) -> None:
        name = self._names.get(module)
        if name is None:
            self._name(module)
            name = self._names[module]
        self.modules.append(name)
        self._mark()

    def _leave(self, *unused: object) -> None:
        self.modules.pop()
        self._mark()

    def _name(self, root: nn.Module) -> None:
        kind = type(root).__name__
        for path, module in root.named_modules():
            self._names.setdefault(module, f"{kind}.{path}" if path else kind)

    def _mark(self) -> None:
        thread = get_ident()
        numbers, owners = self.marks.setdefault(thread, ([0], [_ROOT]))
        numbers.append(torch._C._autograd._get_sequence_nr())
        owners.append(self.modules[-1])

    def now(self) -> tuple[Phase, str]:
        """The phase and the module of the operator that is being called."""
        if torch._C._current_graph_task_id() == -1:
            if self.stepping and not torch.is_grad_enabled():
                return Phase.OPTIMIZER, self.modules[-1]
            return Phase.FORWARD, self.modules[-1]
        if _innermost() == "checkpoint":
            return Phase.RECOMPUTED, self.modules[-1]
        return Phase.BACKWARD, self._origin()

    def _origin(self) -> str:
        node: Any = torch._C._current_autograd_node()
        number = _NO_FORWARD if node is None else node._sequence_nr()
        if number >= _NO_FORWARD:
            return _ROOT
        thread = get_ident()
        # A device's thread runs nodes that the main thread made, or, inside a checkpointed region, nodes of its own.
        own = thread != self.main and thread in self.marks and _innermost() == "backward"
        numbers, owners = self.marks[thread if own else self.main]
        return owners[bisect_right(numbers, number) - 1]


def _innermost() -> str:
    """Which of the two runs closer to here: a checkpointed region that is done again, or a call of ``backward``."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename == _CHECKPOINT:
            return "checkpoint"
        if code is _BACKWARD:
            return "backward"
        frame = frame.f_back
    return "neither"


_CHECKPOINT = checkpointing.__file__
_BACKWARD = torch.autograd.graph._engine_run_backward.__code__


# ── the counter ──


_Known = tuple[Rule | Recomputing | _Treatment, str]
_FOUND: dict[Any, _Known] = {}
"""What was found out about operators, for all counters without rules of their own."""


def forget_rules() -> None:
    """Look up every operator's rule again; for those who change the table."""
    _FOUND.clear()


class _Counter(Mode):  # type: ignore[no-untyped-call]
    """Looks at each operator on its way to a kernel."""

    supports_higher_order_operators = True

    def __init__(self, counted: Counted, whereabouts: _Whereabouts, own: Mapping[Any, Rule]) -> None:
        super().__init__()
        self.counted = counted
        self.calls = counted.calls
        self.now = whereabouts.now
        self.own = own
        self.found: dict[Any, _Known] = {} if own else _FOUND

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        known = self.found.get(func)
        if known is None:
            known = self.found[func] = _find(func, self.own), str(getattr(func, "overloadpacket", func))
        rule, name = known
        kwargs = kwargs or {}
        if rule is _Treatment.HAND_ON:
            return NotImplemented
        if rule is _Treatment.DECOMPOSE:
            with self:
                return func.decompose(*args, **kwargs)
        out = func(*args, **kwargs)
        self.calls[name] = self.calls.get(name, 0) + 1
        if rule is _Treatment.FREE:
            return out
        phase, module = self.now()
        if isinstance(rule, Recomputing):
            self.counted._add(Phase.RECOMPUTED, module, name, rule.again(args, kwargs, out))
            rule = rule.rest
        assert callable(rule)
        self.counted._add(phase, module, name, rule(args, kwargs, out))
        return out
