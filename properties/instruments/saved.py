"""What autograd keeps for the backward pass, and how many bytes a set of tensors really holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from jaxtyping import Shaped
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from properties.instruments.sharing import same_storage


@contextmanager
def saved_for_backward() -> Iterator[list[Shaped[Tensor, "..."]]]:
    """Gather the tensors that operations inside keep for their backward pass, in order, repeats included.

    Parameters that a layer keeps are among them, as are views of one storage: count storages, not tensors. What a
    custom ``autograd.Function`` puts on its context without ``save_for_backward`` is not seen.
    """
    kept: list[Shaped[Tensor, "..."]] = []

    def pack(tensor: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        apart = tensor.detach()  # of one's own graph, a tensor would keep that graph for ever
        kept.append(apart)
        return apart

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        yield kept


def apart_from(
    own: Iterable[Shaped[Tensor, "..."]], tensors: Iterable[Shaped[Tensor, "..."]]
) -> list[Shaped[Tensor, "..."]]:
    """The tensors that share no storage with any of ``own``, such as a network's parameters."""
    own = list(own)
    return [each for each in tensors if not any(same_storage(each, other) for other in own)]


def unique_bytes(tensors: Iterable[Shaped[Tensor, "..."]]) -> int:
    """Bytes of the storages behind the tensors, each counted once."""
    storages = {storage._cdata: storage.nbytes() for storage in (each.untyped_storage() for each in tensors)}
    return sum(storages.values())
