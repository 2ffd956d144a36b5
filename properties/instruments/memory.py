"""Who owns each byte of a training step, and when: parameters, gradients, what autograd keeps, and the rest.

Two witnesses. The dispatcher sees every storage that an operator returns, on every device, meta included, and tells
whose it is. The allocator sees every byte, what a kernel takes and gives back while it runs included, and does not
know whose it is. ``account`` asks the first, ``compare_with_allocator`` and ``compare_with_cuda_allocator`` both.
"""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from enum import Enum
from functools import cache
from itertools import accumulate, pairwise
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch._C._profiler import ProfilerConfig, ProfilerState, _ExperimentalConfig, _RecordFunctionFast
from torch.autograd.graph import saved_tensors_hooks

from properties.instruments import devices
from properties.instruments.modes import Mode
from reference.memory import block_bytes

# ── the words ──


class Kind(Enum):
    """Whose storage it is. One that is two of these is the first of them."""

    PARAMETER = "a parameter"
    BUFFER = "a buffer"
    INPUT = "an input"
    OPTIMIZER_STATE = "optimizer state"
    GRADIENT = "a gradient"
    SAVED = "saved for the backward pass"
    RECOMPUTED = "of the forward pass, and made again in the backward pass where it was not kept"
    OUTPUT = "what the forward pass returned"
    TRANSIENT = "a transient: born and dead in one phase"


class Phase(Enum):
    """The four parts of a training step, in their order."""

    FORWARD = "forward"
    BACKWARD = "backward"
    STEP = "optimizer step"
    CLEAR = "clearing of the gradients"


class UnattributedBytes(AssertionError):
    """Storage that outlives the phase it was born in, and that is none of the kinds; the message names its operator.

    An assertion, since it contradicts whoever says what training memory consists of.
    """


Bytes = Mapping[Kind, int]


@dataclass(frozen=True)
class Moment:
    """What was alive at one moment, by kind; the transients among it by the operator that made them."""

    bytes: Bytes
    transients: Mapping[str, int]

    @property
    def total(self) -> int:
        """All of it."""
        return sum(self.bytes.values())


@dataclass(frozen=True)
class Account:
    """What was alive before the step, at the end of each phase, and at each phase's highest moment.

    Highest means as seen at the ends of operators. What a kernel takes for itself while it runs is not in it.
    ``largest`` is the largest storage of all.
    """

    before: Bytes
    after: Mapping[Phase, Bytes]
    peaks: Mapping[Phase, Moment]
    largest: int

    @property
    def peak(self) -> Moment:
        """The highest moment of all, the first where there are several."""
        return max(self.peaks.values(), key=lambda moment: moment.total)


@dataclass(frozen=True)
class Step:
    """A training step to be accounted for: ``loss`` runs the forward pass on ``inputs``, which it closes over."""

    network: nn.Module
    optimizer: torch.optim.Optimizer
    inputs: tuple[Shaped[Tensor, "..."], ...]
    loss: Callable[[], Float[Tensor, ""]]


# ── storages ──


@dataclass
class _Record:
    """One storage: where it was born, how large it is and was at most, and what it turned out to be."""

    operator: str
    born: Phase | None
    device: str
    nbytes: int = 0
    most: int = 0
    died: Phase | None = None
    alive: bool = True
    kind: Kind | None = None
    reference: Any = None

    def is_now(self, kind: Kind) -> None:
        """Note a kind; the first in the order of ``Kind`` stays."""
        if self.kind is None or _ORDER[kind] < _ORDER[self.kind]:
            self.kind = kind


_ORDER = {kind: place for place, kind in enumerate(Kind)}


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _tensors(value)
        elif isinstance(value, dict):
            yield from _tensors(value.values())


def _storages(tensors: Iterable[Any]) -> Iterator[torch.UntypedStorage]:
    for x in _tensors(tensors):
        if x.layout is torch.strided:
            yield x.untyped_storage()
        elif x.layout is torch.sparse_coo:
            yield x._indices().untyped_storage()
            yield x._values().untyped_storage()
        else:
            raise UnattributedBytes(f"a tensor of layout {x.layout} lies in storages that are not known here")


@dataclass(frozen=True)
class _Operator:
    """An operator by name, and which of its arguments are tensors."""

    name: str
    before: str
    places: tuple[int, ...]
    keywords: tuple[str, ...]

    def bytes_of_numbers(self, args: Any, kwargs: Mapping[str, Any]) -> int:
        """Bytes of the numbers that stand for tensors: while the operator runs each is a tensor, in main memory."""
        values = [args[place] for place in self.places if place < len(args)]
        values += [kwargs[name] for name in self.keywords if name in kwargs]
        return sum(_NUMBERS[type(value)] for value in values if type(value) in _NUMBERS)


@cache
def _operator(func: Any) -> _Operator:
    takes = [(place, each.name) for place, each in enumerate(func._schema.arguments) if str(each.type) == "Tensor"]
    name = str(func)
    return _Operator(
        name, f"no operator, before {name}", tuple(at for at, _ in takes), tuple(each for _, each in takes)
    )


_NUMBERS: Mapping[type, int] = {bool: 1, int: 8, float: 8, complex: 16}
"""Bytes of the tensor that torch makes of a number of Python."""


_NOTHING: AbstractContextManager[None] = nullcontext()


class _Ledger(Mode):  # type: ignore[no-untyped-call]
    """Every storage, from the operator that returned it to its end."""

    def __init__(
        self,
        around: Callable[[str], AbstractContextManager[Any]] = lambda name: _NOTHING,
        at_end: Callable[[Phase | None], object] = lambda phase: None,
    ) -> None:
        super().__init__()
        self.around = around
        self.at_end = at_end
        self.phase: Phase | None = None
        self.known: dict[int, _Record] = {}
        self.records: list[_Record] = []
        self.changes: list[tuple[_Record, int]] = []
        """A storage and the bytes that it has more or less, in their order."""
        self.ends: dict[Phase | None, int] = {}
        """How many changes there were when a phase ended."""
        self.operators: list[tuple[str, int, int, int]] = []
        """An operator, how many changes there were when it began and when it was over, and bytes of numbers it had."""
        self.numbers: dict[int, tuple[_Record, int]] = {}
        """Numbers given as tensors, by the autograd node that was made last, and the change by which they ended."""
        self.kept: set[int] = set()
        """Autograd nodes that keep one."""

    def note(self, storage: torch.UntypedStorage, operator: str) -> _Record:
        """The record of a storage, made now if it is a new one; what it has grown is noted too."""
        record = self.known.get(storage._cdata)
        nbytes = storage.nbytes()
        if record is None:
            record = _Record(operator, self.phase, storage.device.type)
            if self.phase is Phase.BACKWARD and torch.is_grad_enabled():
                record.kind = Kind.RECOMPUTED  # the backward pass itself needs no gradients of its own
            self._watch(storage, record)
        if nbytes != record.nbytes:
            self.changes.append((record, nbytes - record.nbytes))
            record.nbytes = nbytes
            record.most = max(record.most, nbytes)
        return record

    def _watch(self, storage: torch.UntypedStorage, record: _Record) -> None:
        record.reference = weakref.ref(storage, self._end_of(storage._cdata))
        self.known[storage._cdata] = record
        self.records.append(record)

    def _end_of(self, identity: int) -> Callable[[object], None]:
        def end(reference: object) -> None:
            record = self.known.pop(identity)
            self.changes.append((record, -record.nbytes))
            record.alive, record.died, record.nbytes = False, self.phase, 0

        return end

    def mark(self, tensors: Iterable[Any], kind: Kind) -> None:
        """Note what some tensors are."""
        for storage in _storages(tensors):
            self.note(storage, "no operator").is_now(kind)

    def keep(self, tensor: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        """Note that autograd keeps a tensor."""
        self.mark((tensor,), Kind.SAVED)
        return tensor

    def enter(self, phase: Phase | None) -> None:
        """End one phase and begin the next."""
        self.at_end(self.phase)
        self.ends[self.phase] = len(self.changes)
        self.phase = phase

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "profiler":  # torch 2.6 dispatches a profile's own marks
            return func(*args, **kwargs)
        operator = _operator(func)
        given = list(_storages((args, kwargs)))
        for storage in given:
            self.note(storage, operator.before)
        numbers = operator.bytes_of_numbers(args, kwargs)
        record = None
        if numbers and not self._is_kept():
            record = _Record(operator.name, self.phase, "cpu", numbers, kind=Kind.TRANSIENT)
            self.changes.append((record, numbers))
        began = len(self.changes)
        with self.around(operator.name):
            out = func(*args, **kwargs)
        for storage in [*given, *_storages((out,))]:
            self.note(storage, operator.name)
        self.operators.append((operator.name, began, len(self.changes), numbers))
        if record is not None:
            self.numbers[torch._C._autograd._get_sequence_nr() - 1] = record, len(self.changes)
            self.changes.append((record, -numbers))
        return out

    def _is_kept(self) -> bool:
        """Whether a number comes out of the graph, where it is a tensor already."""
        node: Any = torch._C._current_autograd_node() if self.kept else None
        return node is not None and node._sequence_nr() in self.kept

    def keep_numbers(self, loss: Float[Tensor, ""]) -> None:
        """Find the numbers that autograd keeps as tensors, which it shows to no hook: they end with the graph.

        The node of an operator is the last one that autograd has numbered when the operator is called.
        """
        waiting, met = [loss.grad_fn], set[Any]()
        while waiting and self.numbers:
            node: Any = waiting.pop()
            if node is None or node in met:
                continue
            met.add(node)
            waiting += [each for each, _ in node.next_functions]
            if node._sequence_nr() in self.numbers:
                self._keep_number(node)

    def _keep_number(self, node: Any) -> None:
        """Where a node keeps a tensor that no operator has had, it is the number its own operator was given."""
        record, end = self.numbers.pop(node._sequence_nr())
        saved = [getattr(node, name, None) for name in ("_saved_self", "_saved_other")]
        for storage in _storages(saved):
            if storage._cdata not in self.known:
                self.changes[end] = record, 0
                self.kept.add(node._sequence_nr())
                record.kind = Kind.SAVED
                self._watch(storage, record)


# ── the account ──


def _state(optimizer: torch.optim.Optimizer) -> list[Any]:
    told = [value for group in optimizer.param_groups for name, value in group.items() if name != "params"]
    return [list(optimizer.state.values()), told]


def _run(step: Step, ledger: _Ledger) -> Float[Tensor, ""]:
    """The training step under a ledger, phase by phase; the loss, which the caller of a step still holds."""
    optimizer = step.optimizer
    parameters = [*step.network.parameters(), *(each for group in optimizer.param_groups for each in group["params"])]
    ledger.mark(parameters, Kind.PARAMETER)
    ledger.mark(step.network.buffers(), Kind.BUFFER)
    ledger.mark(step.inputs, Kind.INPUT)
    ledger.mark([each.grad for each in parameters], Kind.GRADIENT)
    ledger.mark(_state(optimizer), Kind.OPTIMIZER_STATE)
    with ledger, saved_tensors_hooks(ledger.keep, lambda tensor: tensor):
        ledger.enter(Phase.FORWARD)
        loss = step.loss()
        ledger.mark((loss,), Kind.OUTPUT)
        ledger.keep_numbers(loss)
        ledger.enter(Phase.BACKWARD)
        loss.backward()  # type: ignore[no-untyped-call]
        ledger.mark([each.grad for each in parameters], Kind.GRADIENT)
        ledger.enter(Phase.STEP)
        optimizer.step()
        ledger.mark(_state(optimizer), Kind.OPTIMIZER_STATE)
        ledger.enter(Phase.CLEAR)
        optimizer.zero_grad()
        ledger.enter(None)
    return loss


@contextmanager
def _no_collector() -> Iterator[None]:
    """Without Python's collector of cycles, which ends older storages at any moment."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _attribute(records: Iterable[_Record]) -> None:
    """Take what died in the phase it was born in for a transient, and refuse what is none of the kinds."""
    for record in records:
        if record.kind is None and not record.alive and record.born is record.died:
            record.kind = Kind.TRANSIENT
        if record.kind is None and record.most:
            ended = f"died in the {record.died.value}" if record.died else "is still there"
            raise UnattributedBytes(
                f"{record.most} bytes by {record.operator}, born in the {record.born.value if record.born else 'past'},"
                f" {ended}: no parameter, buffer, input, gradient, optimizer state or output, and autograd was not seen"
                " to keep it; let the step close over it and name it among its inputs, or let it go"
            )


class _Alive:
    """What is alive, by kind and operator, after so many of the changes."""

    def __init__(self, changes: list[tuple[_Record, int]]) -> None:
        self.changes = changes
        self.bytes: Counter[tuple[Kind, str]] = Counter()

    def change(self, place: int) -> None:
        """Go past one change."""
        record, nbytes = self.changes[place]
        kind = record.kind or Kind.TRANSIENT
        self.bytes[kind, record.operator if kind is Kind.TRANSIENT else ""] += nbytes

    def now(self) -> Moment:
        """What is alive now."""
        kinds: Counter[Kind] = Counter()
        for (kind, _), nbytes in self.bytes.items():
            kinds[kind] += nbytes
        transients = {name: nbytes for (kind, name), nbytes in self.bytes.items() if kind is Kind.TRANSIENT and nbytes}
        return Moment({kind: kinds[kind] for kind in Kind}, transients)


def _tell(ledger: _Ledger) -> Account:
    """The account, from what was noted."""
    _attribute(ledger.records)
    alive = _Alive(ledger.changes)
    totals = _totals(ledger.changes)
    after: dict[Phase | None, Moment] = {}
    peaks: dict[Phase | None, Moment] = {}
    begin = 0
    for phase, end in ledger.ends.items():
        highest = max(range(begin, end + 1), key=totals.__getitem__)
        for place in range(begin, end + 1):
            if place == highest:
                peaks[phase] = alive.now()
            if place < end:
                alive.change(place)
        after[phase] = alive.now()
        begin = end
    return Account(
        after[None].bytes,
        {phase: after[phase].bytes for phase in Phase},
        {phase: peaks[phase] for phase in Phase},
        max(record.most for record in ledger.records),
    )


def _totals(changes: Iterable[tuple[_Record, int]]) -> list[int]:
    """Bytes alive after so many changes."""
    return [0, *accumulate(nbytes for _, nbytes in changes)]


def account(step: Step) -> Account:
    """Make one training step, gradients cleared at its end, and tell whose every byte is.

    Works on every device; on the meta device bytes are counted and not taken. What was not named beforehand (the
    parameters, buffers, inputs, gradients and state of the step) and is no operator's is noted when an operator first
    takes it. Not seen: what a kernel takes and gives back while it runs, storages that no operator ever touches (the
    state of a random generator that checkpointing keeps), memory of Python and of libraries.

    Raises UnattributedBytes where something outlives its phase and is of no kind.
    """
    with _no_collector():
        ledger = _Ledger()
        loss = _run(step, ledger)
        del loss
    return _tell(ledger)


# ── the allocator ──


@dataclass(frozen=True)
class Comparison:
    """An account beside what the allocator says of the same step.

    ``peak`` is the account's highest moment with what the kernel that ran then took for itself, and ``scratch`` the
    latter by its operator. ``allocator_peak`` is what torch's memory profiler says of a step that nothing else watches.
    ``differences`` are the bytes that only the allocator knows of, by the place where they came; they come and go.
    """

    account: Account
    peak: int
    scratch: Mapping[str, int]
    allocator_peak: int
    differences: Mapping[str, int]


_MARK = "storages of "


def compare_with_allocator(build: Callable[[], Step]) -> Comparison:
    """Make one training step on the CPU and tell whose every byte is, and what torch's memory profiler says.

    ``build`` gives the same step each time: one is made under the profiler alone, for its peak, another under both, so
    that their totals can be compared before and after every operator. Raises UnattributedBytes as ``account`` does.
    """
    with _no_collector():
        alone = build()
        events = _profiled(lambda: _make(alone))
        ledger = _Ledger(around=lambda name: _RecordFunctionFast(_MARK + name))
        watched = build()
        marked = _profiled(lambda: _run(watched, ledger))
    peak = max(accumulate(event.cpu_memory_usage() for event in events if event.kind() == "memory_alloc"))
    return _compare(ledger, _segments(marked), peak)


def _make(step: Step) -> Float[Tensor, ""]:
    """The training step, watched by nothing here; its loss."""
    loss = step.loss()
    loss.backward()  # type: ignore[no-untyped-call]
    step.optimizer.step()
    step.optimizer.zero_grad()
    return loss


def _profiled(run: Callable[[], object]) -> list[Any]:
    """What torch's memory profiler noted in this thread, in order; what ``run`` returns lives until then."""
    config = ProfilerConfig(ProfilerState.CPU, False, True, False, False, False, _ExperimentalConfig())
    torch._C._autograd._enable_profiler_legacy(config)
    try:
        kept = run()
    finally:
        threads: list[list[Any]] = torch._C._autograd._disable_profiler_legacy()
    del kept
    return max(threads, key=len)


@dataclass(frozen=True)
class _Segment:
    """A stretch between two looks of the dispatcher: the allocator's bytes at its ends, and the most within."""

    begin: int
    most: int
    end: int


def _segments(events: Iterable[Any]) -> list[_Segment]:
    """The allocator's story, cut where operators begin and end: outside, inside, outside, and so on."""
    total = most = begin = 0
    segments = []
    depth, marked_at = 0, -1
    for event in events:
        kind = event.kind()
        if kind == "memory_alloc":
            total += event.cpu_memory_usage()
            most = max(most, total)
            continue
        depth += (kind == "push") - (kind == "pop")
        begins = kind == "push" and event.name().startswith(_MARK)
        ends = kind == "pop" and depth == marked_at - 1
        if begins or ends:
            segments.append(_Segment(begin, most, total))
            begin = most = total
            marked_at = depth if begins else -1
    return [*segments, _Segment(begin, most, total)]


def _compare(ledger: _Ledger, segments: list[_Segment], allocator_peak: int) -> Comparison:
    totals = _totals(ledger.changes)
    start = ledger.ends[None]
    base = totals[start]
    cuts = [(start, "nothing", 0)]
    for name, began, over, numbers in ledger.operators:
        cuts += [(began, f"before {name}", 0), (over, name, numbers)]
    cuts.append((ledger.ends[Phase.CLEAR], "the end", 0))
    peak, scratch = base, ("nothing", 0)
    differences: Counter[str] = Counter()
    known = 0
    for ((begin, _, _), (end, name, numbers)), segment in zip(pairwise(cuts), segments, strict=True):
        # On its way through the dispatcher a number is made into a tensor once more, for the kernel.
        extra = max(segment.most - numbers - max(segment.begin, segment.end), 0)
        within = max(totals[begin : end + 1])
        if within + extra > peak:
            peak, scratch = within + extra, (name, extra)
        difference = base + segment.end - totals[end]
        if difference != known:
            differences[name] += difference - known
            known = difference
    return Comparison(
        _tell(ledger),
        peak,
        {scratch[0]: scratch[1]} if scratch[1] else {},
        base + allocator_peak,
        {name: nbytes for name, nbytes in differences.items() if nbytes},
    )


@dataclass(frozen=True)
class CudaComparison:
    """For each phase the bytes on the device at its end: the account's, and those that the allocator was asked for.

    ``blocks`` are the same in blocks: each storage of the account in one of its own, as predicted, and what the
    allocator has given. ``peak`` and ``allocator_peak`` are the highest of the whole step that were asked for. What
    kernels and libraries take for themselves is in the latter only.
    """

    after: Mapping[Phase, tuple[int, int]]
    blocks: Mapping[Phase, tuple[int, int]]
    peak: int
    allocator_peak: int


def compare_with_cuda_allocator(step: Step) -> CudaComparison:
    """Make one training step on a CUDA device, beside the bytes that its allocator was asked for, and gave.

    No storage is to be larger than 1 MiB, up to where blocks are predicted. Make a step beforehand, so that workspaces
    of libraries are there already. Raises UnattributedBytes as ``account`` does.
    """
    devices.require_blocks()
    requested: dict[Phase | None, int] = {}
    given: dict[Phase | None, int] = {}
    blocks: dict[Phase | None, int] = {}

    def look(phase: Phase | None) -> None:
        stats = torch.cuda.memory_stats()
        requested[phase] = stats["requested_bytes.all.current"]
        given[phase] = stats["allocated_bytes.all.current"]
        blocks[phase] = sum(block_bytes(each.nbytes) for each in ledger.known.values() if each.device == "cuda")

    with _no_collector():
        ledger = _Ledger(at_end=look)
        torch.cuda.reset_peak_memory_stats()
        loss = _run(step, ledger)
        peak = torch.cuda.memory_stats()["requested_bytes.all.peak"]
        del loss
    _attribute(ledger.records)
    totals = _totals((record, nbytes if record.device == "cuda" else 0) for record, nbytes in ledger.changes)
    start = totals[ledger.ends[None]]
    after = {phase: (totals[ledger.ends[phase]], start + requested[phase] - requested[None]) for phase in Phase}
    in_blocks = {phase: (blocks[phase], blocks[None] + given[phase] - given[None]) for phase in Phase}
    highest = max(totals[ledger.ends[None] : ledger.ends[Phase.CLEAR] + 1])
    return CudaComparison(after, in_blocks, highest, start + peak - requested[None])
