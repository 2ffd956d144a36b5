"""What is put beside a CUDA allocator's own figures, with an allocator that is made up and tensors of the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from properties.instruments import memory
from properties.instruments.memory import Phase
from properties.strategies.networks import Mlp
from properties.strategies.training import Optimizer, TrainingStep
from reference.memory import block_bytes

STEP = TrainingStep(Mlp((8, 16, 4)), 5, Optimizer("AdamW"))
WORKSPACE = 1000
"""Bytes that a library has taken before."""


@pytest.fixture(autouse=True)
def storages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every storage counts as one of the card's."""
    record = memory._Record

    def on_the_card(operator: str, born: Phase | None, device: str, *rest: Any, **more: Any) -> memory._Record:
        return record(operator, born, "cuda", *rest, **more)

    monkeypatch.setattr(memory, "_Record", on_the_card)
    monkeypatch.setattr(torch.cuda, "get_allocator_backend", lambda: "native")


def allocator(monkeypatch: pytest.MonkeyPatch, more: dict[Phase, int]) -> None:
    """One that has what the account of such a step has at the end of each phase, and so much more in some."""
    account = memory.account(STEP.build())
    ends = [(0, account.before), *((more.get(phase, 0), account.after[phase]) for phase in Phase)]
    asked = [WORKSPACE + extra + sum(kinds.values()) for extra, kinds in ends]
    figures = iter([*asked, WORKSPACE + account.peak.total + 64])

    def stats() -> dict[str, int]:
        figure = next(figures)
        names = ("requested_bytes.all.current", "requested_bytes.all.peak", "allocated_bytes.all.current")
        return dict.fromkeys(names, figure)

    monkeypatch.setattr(torch.cuda, "memory_stats", stats)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)


def test_an_allocator_that_is_asked_for_what_is_accounted_agrees_in_every_phase(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    allocator(monkeypatch, {})
    compared = memory.compare_with_cuda_allocator(STEP.build())
    assert all(accounted == asked for accounted, asked in compared.after.values())
    assert compared.after[Phase.BACKWARD] != compared.after[Phase.FORWARD]
    assert compared.allocator_peak == compared.peak + 64


def test_bytes_that_only_the_allocator_knows_of_are_told_by_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    allocator(monkeypatch, {Phase.BACKWARD: 8})
    compared = memory.compare_with_cuda_allocator(STEP.build())
    more = {phase: asked - accounted for phase, (accounted, asked) in compared.after.items()}
    assert more == {phase: 8 if phase is Phase.BACKWARD else 0 for phase in Phase}


def test_blocks_are_predicted_from_each_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    allocator(monkeypatch, {})
    made = STEP.build()
    parameters = [each.numel() * 4 for each in made.network.parameters()]
    inputs = [each.numel() * each.element_size() for each in made.inputs]
    held = sum(map(block_bytes, [*parameters, *inputs]))
    compared = memory.compare_with_cuda_allocator(made)
    predicted, _ = compared.blocks[Phase.CLEAR]
    moments = sum(2 * block_bytes(nbytes) + block_bytes(4) for nbytes in parameters)
    assert predicted >= held + moments
    assert (predicted - held - moments) % 512 == 0
    # The loss is still there, and whatever numbers the optimizer's settings keep as tensors.
    assert predicted - held - moments <= 2 * 512


def test_a_block_is_a_whole_number_of_512_bytes() -> None:
    assert [block_bytes(nbytes) for nbytes in (0, 1, 512, 513, 2**20)] == [0, 512, 512, 1024, 2**20]
