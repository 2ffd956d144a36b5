"""Two processes that train one model together over gloo, and what each of them holds.

They are started for one question and ended with it, whatever happens: each has a time limit of its own, talks to the
other over the loopback device alone, and meets it through a file.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

RANKS = 2
SECONDS = 45
"""After which both are ended."""

SCRIPT = """
import json
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

rank, meeting, widths, steps = int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4])
torch.set_num_threads(1)
dist.init_process_group(
    "gloo", init_method=f"file://{meeting}", rank=rank, world_size=2, timeout=timedelta(seconds=20)
)

def storages(tensors):
    local = [getattr(each, "_local_tensor", each) for each in tensors if each is not None]
    return {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in local if each.numel()}

def train(wrap, rows):
    torch.manual_seed(0)
    layers = [layer for sizes in zip(widths, widths[1:]) for layer in (nn.Linear(*sizes), nn.Tanh())]
    network = wrap(nn.Sequential(*layers))
    buckets = []
    if isinstance(network, DistributedDataParallel):
        def hook(state, bucket):
            buckets.append(bucket.buffer())
            return allreduce_hook(state, bucket)
        network.register_comm_hook(None, hook)
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(8, widths[0], generator=generator)[rows]
    targets = torch.randn(8, widths[-1], generator=generator)[rows]
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        buckets.clear()
        loss = (network(inputs) - targets).square().mean()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        if isinstance(rows, slice):
            dist.all_reduce(mean)
            mean /= 2
        losses.append(mean.item())
    parameters = list(network.parameters())
    states = list(optimizer.state.values())
    held = {
        "parameters": storages(parameters),
        "gradients": storages([each.grad for each in parameters]),
        "moments": storages([state[name] for state in states for name in ("exp_avg", "exp_avg_sq")]),
        "buckets": storages(buckets),
    }
    together = {}
    for each in held.values():
        together.update(each)
    answer = {name: sum(each.values()) for name, each in held.items()}
    return {**answer, "together": sum(together.values()), "losses": losses}

mine = slice(4 * rank, 4 * rank + 4)
answer = {
    "alone": train(lambda network: network, ...),
    "replicated": train(DistributedDataParallel, mine),
    "replicated, gradients in buckets": train(
        lambda network: DistributedDataParallel(network, gradient_as_bucket_view=True), mine
    ),
    "fully sharded": train(fully_shard, mine),
}
with open(f"{meeting}.{rank}", "w", encoding="utf-8") as file:
    json.dump(answer, file)
dist.barrier()
dist.destroy_process_group()
"""
"""Trains the same model on the same eight rows four ways: whole in each process, and three ways shared, a half each."""


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
    """A process ended with an error, or not in time; the message has what it wrote."""


def train_on_two_ranks(widths: tuple[int, ...], steps: int) -> list[Mapping[str, Held]]:
    """For each rank and each way of sharing, what it held. The network has linear layers of these widths, and tanh.

    Takes some seconds, most of them for importing torch. Raises RankFailed where a process fails or takes too long.
    """
    with tempfile.TemporaryDirectory(prefix="assay-ranks-") as folder:
        meeting = Path(folder) / "meeting"
        started: list[subprocess.Popen[bytes]] = []
        try:
            for rank in range(RANKS):
                command = [sys.executable, "-c", SCRIPT, str(rank), str(meeting), json.dumps(widths), str(steps)]
                with _said(meeting, rank).open("wb") as said:
                    started.append(
                        subprocess.Popen(
                            command,
                            cwd=folder,
                            env=_environment(),
                            stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL,
                            stderr=said,
                        )
                    )
            _wait(started, meeting)
        finally:
            for process in started:
                process.kill()
                process.wait()
        return [_read(meeting.with_suffix(f".{rank}")) for rank in range(RANKS)]


def _said(meeting: Path, rank: int) -> Path:
    return meeting.with_suffix(f".said-{rank}")


def _wait(started: list[subprocess.Popen[bytes]], meeting: Path) -> None:
    """Return once both have ended well; RankFailed for the first that has not."""
    until = time.monotonic() + SECONDS
    waiting = dict(enumerate(started))
    while waiting:
        for rank in [rank for rank, process in waiting.items() if process.poll() is not None]:
            status = waiting.pop(rank).returncode
            if status != 0:
                said = _said(meeting, rank).read_text(encoding="utf-8", errors="replace")[-2000:]
                raise RankFailed(f"rank {rank} ended with status {status}: {said}")
        if waiting and time.monotonic() > until:
            late = " and ".join(str(rank) for rank in waiting)
            raise RankFailed(f"rank {late} took more than {SECONDS} s, and was ended")
        time.sleep(0.02)


def _environment() -> dict[str, str]:
    """This process's, with gloo held to the loopback device, one thread each, and no compiler."""
    loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")
    return {**os.environ, "GLOO_SOCKET_IFNAME": loopback, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


def _read(answer: Path) -> Mapping[str, Held]:
    read = json.loads(answer.read_text(encoding="utf-8"))
    return {way: Held(**{**held, "losses": tuple(held["losses"])}) for way, held in read.items()}
