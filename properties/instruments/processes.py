"""Two processes that train one model together over gloo, and what each of them holds.

They are started for one question and ended with it, whatever happens: both have a time limit, talk to each other over
the loopback device alone, and meet through a file.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import socket
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

RANKS = 2
ROWS = 8
SECONDS = 45
"""After which both are ended."""

Wrap = Callable[[nn.Module], nn.Module]


@dataclass(frozen=True)
class Held:
    """What one process holds after some steps, in bytes of storages, each counted once within a kind.

    ``together`` counts each once over all kinds: gradients may lie in buckets. ``losses`` are the means over both
    processes, one a step.
    """

    parameters: int
    gradients: int
    moments: int
    buckets: int
    together: int
    losses: tuple[float, ...]


class RankFailed(Exception):
    """A process ended with an error, or not in time; the message has what it said."""


@dataclass(frozen=True)
class Training:
    """The same network on the same eight rows, trained in each way of sharing: linear layers of these widths, and tanh.

    ``alone`` is the way in which every process has all rows; in the others each has half of them.
    """

    widths: tuple[int, ...]
    steps: int
    ways: Mapping[str, Wrap]
    meeting: str
    alone: str = "alone"

    def on(self, rank: int) -> tuple[int, Mapping[str, Held]]:
        """A rank, and what it held in each way. To be called on all ranks at a time, in processes of their own."""
        _apart()
        limit = timedelta(seconds=SECONDS / 2)
        dist.init_process_group(
            "gloo", init_method=f"file://{self.meeting}", rank=rank, world_size=RANKS, timeout=limit
        )
        held = {way: self._held(rank, way) for way in self.ways}
        dist.barrier()
        dist.destroy_process_group()
        return rank, held

    def _held(self, rank: int, way: str) -> Held:
        torch.manual_seed(0)
        layers = [each for i, o in itertools.pairwise(self.widths) for each in (nn.Linear(i, o), nn.Tanh())]
        network = self.ways[way](nn.Sequential(*layers))
        buckets = _buckets(network)
        optimizer = torch.optim.AdamW(network.parameters(), lr=0.01)
        generator = torch.Generator().manual_seed(1)
        half = ROWS // RANKS
        mine = slice(None) if way == self.alone else slice(half * rank, half * (rank + 1))
        inputs, targets = (torch.randn(ROWS, self.widths[end], generator=generator)[mine] for end in (0, -1))
        losses = []
        for _ in range(self.steps):
            optimizer.zero_grad()
            buckets.clear()
            loss = (network(inputs) - targets).square().mean()
            loss.backward()
            optimizer.step()
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            losses.append(mean.item() / RANKS)
        parameters = list(network.parameters())
        kinds = {
            "parameters": _storages(parameters),
            "gradients": _storages(each.grad for each in parameters),
            "moments": _storages(
                state[name] for state in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")
            ),
            "buckets": _storages(buckets),
        }
        kinds["together"] = {place: nbytes for kind in kinds.values() for place, nbytes in kind.items()}
        return Held(**{name: sum(kind.values()) for name, kind in kinds.items()}, losses=tuple(losses))


def train_on_two_ranks(widths: tuple[int, ...], steps: int) -> list[Mapping[str, Held]]:
    """For each rank and each way of sharing, what it held. The network has linear layers of these widths, and tanh.

    Raises RankFailed where a process fails or takes too long.
    """
    with tempfile.TemporaryDirectory(prefix="assay-ranks-") as folder, warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)  # Python warns where there are threads
        training = Training(widths, steps, _ways(), str(Path(folder) / "meeting"))
        with _context().Pool(RANKS) as pool:  # which ends them
            answers = pool.imap_unordered(training.on, range(RANKS))
            try:
                found = dict(answers.next(SECONDS) for _ in range(RANKS))
            except multiprocessing.TimeoutError:
                raise RankFailed(f"two ranks took more than {SECONDS} s, and were ended") from None
            except Exception as failure:
                raise RankFailed(f"a rank failed: {type(failure).__name__}: {failure}") from failure
    return [found[rank] for rank in range(RANKS)]


def _ways() -> dict[str, Wrap]:
    """Whole in each process, and three ways shared. Imported here: it takes half a second."""
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    return {
        "alone": nn.Sequential,
        "replicated": DistributedDataParallel,
        "replicated, gradients in buckets": partial(DistributedDataParallel, gradient_as_bucket_view=True),
        "fully sharded": partial(_on_processors, fully_shard),
    }


def _on_processors(shard: Any, network: nn.Module) -> nn.Module:
    """A network sharded among the processes, where it is: by itself torch would move it to an accelerator."""
    from torch.distributed.device_mesh import init_device_mesh

    sharded: nn.Module = shard(network, mesh=init_device_mesh("cpu", (RANKS,)))
    return sharded


def _context() -> BaseContext:
    """Forked, since torch need not be imported then, where a fork can train: not once autograd has other devices."""
    forks = sys.platform == "linux" and not torch.accelerator.is_available()
    return multiprocessing.get_context("fork" if forks else "spawn")


def _apart() -> None:
    """One thread, no chatter, and gloo held to the loopback device."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    if sys.platform != "win32":  # gloo has names of its own for the devices there
        names = [name for _, name in socket.if_nameindex() if name.startswith("lo")]
        os.environ["GLOO_SOCKET_IFNAME"] = next(iter(names), "lo")


def _buckets(network: nn.Module) -> list[Tensor]:
    """A list that the buckets of replicas are put on in each backward pass."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
    from torch.nn.parallel import DistributedDataParallel

    buckets: list[Tensor] = []

    def noted(state: Any, bucket: Any) -> Any:
        buckets.append(bucket.buffer())
        return allreduce_hook(state, bucket)

    if isinstance(network, DistributedDataParallel):
        network.register_comm_hook(None, lambda state, bucket: noted(state, bucket))  # annotations would be checked
    return buckets


def _storages(tensors: Iterable[Tensor | None]) -> dict[int, int]:
    """The bytes of each storage, of a sharded tensor those that are here."""
    local: list[Tensor] = [getattr(each, "_local_tensor", each) for each in tensors if each is not None]
    return {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in local if each.numel()}
