"""Who shares memory with whom, where elements lie, and what an operation allocates."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64, Shaped, UInt8
from torch import Tensor
from torch.utils._pytree import tree_leaves

from properties.instruments.modes import Mode
from reference.strided import Strided


def _identity(x: Shaped[Tensor, "..."]) -> int:
    # The address of the storage object: that of its data is 0 for every storage without bytes.
    return int(x.untyped_storage()._cdata)


def same_storage(x: Shaped[Tensor, "..."], y: Shaped[Tensor, "..."]) -> bool:
    """Whether two tensors are windows on one storage, bytes in it or not.

    Storages are compared, not addresses: two storages over the same memory (of one NumPy array, of one file)
    differ.
    """
    return _identity(x) == _identity(y)


def metadata(x: Shaped[Tensor, "..."]) -> Strided:
    """What torch says of a tensor, and how many of its elements would fill its storage."""
    elements = x.untyped_storage().nbytes() // x.itemsize
    return Strided(tuple(x.shape), tuple(x.stride()), int(x.storage_offset()), elements)


def address(x: Shaped[Tensor, "..."], index: tuple[int, ...]) -> int:
    """Bytes from the start of the storage to the element at ``index``, by the pointer of a view of that
    element alone.

    Not by the strides that the tensor reports.
    """
    return x[index].data_ptr() - x.untyped_storage().data_ptr()


def addresses(x: Shaped[Tensor, "..."]) -> Int64[np.ndarray, "..."]:
    """``address`` of every element, in the shape of the tensor; 1 us each."""
    places = np.empty(tuple(x.shape), dtype=np.int64)
    start = x.untyped_storage().data_ptr()
    for index in np.ndindex(places.shape):
        places[index] = x[index].data_ptr() - start
    return places


def bare(x: Shaped[Tensor, "..."]) -> Shaped[Tensor, "elements"]:
    """The whole storage behind a tensor, as one dimension of its dtype, without bits."""
    return torch.empty(0, dtype=x.dtype, device=x.device).set_(x.untyped_storage())


def fresh(numel: int, dtype: torch.dtype) -> Shaped[Tensor, "numel"]:
    """A new tensor of so many elements of a dtype."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch calls some dtypes experimental, and some outdated
        return torch.empty(numel, dtype=dtype)


def fresh_bytes(numel: int, dtype: torch.dtype) -> int:
    """Bytes of the storage that torch makes for so many elements of a dtype."""
    return fresh(numel, dtype).untyped_storage().nbytes()


def saved(value: Any) -> bytes:
    """What torch.save writes."""
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def loaded(content: bytes) -> Any:
    """What torch.load makes of what torch.save has written; tensors and tuples of them only."""
    return torch.load(io.BytesIO(content), weights_only=True)


def elements_reached(x: Shaped[Tensor, "..."]) -> int:
    """How many elements of its storage a tensor reaches, by filling it and looking; its values are lost.

    For integers on the CPU.
    """
    elements(x)[:] = 0
    x.fill_(1)
    return int(elements(x).sum())


def memory(x: Shaped[Tensor, "..."]) -> UInt8[np.ndarray, "bytes"]:
    """Every byte of the storage behind a tensor on the CPU, live: a write there is a write to the tensor."""
    whole = torch.empty(0, dtype=torch.uint8).set_(x.untyped_storage())
    seen: np.ndarray[Any, Any] = whole.numpy()
    return seen


def elements(x: Shaped[Tensor, "..."]) -> Shaped[np.ndarray, "elements"]:
    """The storage behind a tensor on the CPU as elements of its dtype, in their order in memory, live.

    For dtypes that NumPy has; it does not know conjugate and negative bits, and shows what the bytes say.
    """
    kind = torch.empty(0, dtype=x.dtype).numpy().dtype
    raw = memory(x)
    return raw[: raw.size // kind.itemsize * kind.itemsize].view(kind)


@dataclass(frozen=True)
class Allocation:
    """A storage that was not there before: the operator that returned it, and its bytes."""

    operator: str
    nbytes: int


@dataclass
class Trace:
    """What operators did, in their order."""

    operators: list[str] = field(default_factory=list)
    allocations: list[Allocation] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        """Bytes of new storage, all operators together."""
        return sum(allocation.nbytes for allocation in self.allocations)


class _Watch(Mode):  # type: ignore[no-untyped-call]
    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self.trace = trace

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        before = {_identity(x): x.untyped_storage().nbytes() for x in _strided_tensors((args, kwargs))}
        result = func(*args, **kwargs)
        self.trace.operators.append(str(func))
        for x in _strided_tensors(result):
            known = before.get(_identity(x), 0)
            nbytes = x.untyped_storage().nbytes()
            if _identity(x) not in before or nbytes > known:
                self.trace.allocations.append(Allocation(str(func), nbytes - known))
                before[_identity(x)] = nbytes
        return result


def _strided_tensors(values: Any) -> list[Tensor]:
    return [x for x in tree_leaves(values) if isinstance(x, Tensor) and x.layout is torch.strided]


@contextmanager
def trace_allocations() -> Iterator[Trace]:
    """Note every operator that reaches the dispatcher, and each storage in its outputs that is in none of its
    inputs.

    An output in an input's storage counts by what that storage has grown. Works on every device, meta
    included, where bytes are counted and not taken. Not seen: memory that a kernel takes and gives back while
    it runs, what Python and NumPy allocate, the tensor object itself (its metadata: a constant a view),
    storages of sparse tensors, and operators that run inside another dispatch mode's own rules.
    """
    trace = Trace()
    with _Watch(trace):
        yield trace


def allocated(operation: Callable[[], object]) -> int:
    """Bytes of new storage that ``operation`` makes, by ``trace_allocations``."""
    with trace_allocations() as trace:
        operation()
    return trace.nbytes
