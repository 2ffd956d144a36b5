"""The account of a training step: that it sees each kind where it lies, agrees with torch's profiler, and fails closed.

And that the strategies of its claims reach both sides of their conditions.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from properties import hygiene
from properties.hygiene import Snapshot
from properties.instruments import memory, processes
from properties.instruments.memory import Kind, Phase, Step, UnattributedBytes
from properties.strategies import batches, gradient_sequences, module_trees, participation, training
from properties.strategies.batches import Batch, Container
from properties.strategies.module_trees import Entry, Role, Tree
from properties.strategies.networks import Mlp, new_optimizer
from properties.strategies.participation import Stage
from properties.strategies.training import Decoding, Manner, Optimizer, TrainingStep, Way
from properties.strategies.transformers import Attention
from properties.tests.drawing import drawn, share

MIB = 2**20


def a_step(network: nn.Module, loss: Callable[[Tensor], Any], name: str = "SGD") -> Step:
    """A step of a network on ones."""
    inputs = torch.ones(5, 8)
    return Step(network, new_optimizer(name, network.parameters()), (inputs,), lambda: loss(inputs))


def two_layers() -> nn.Sequential:
    """Eight columns to sixteen to four."""
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def test_every_kind_lies_where_it_is_made() -> None:
    network = nn.Sequential(*two_layers(), nn.BatchNorm1d(4))
    account = memory.account(a_step(network, lambda x: network(x).sum(), "AdamW"))
    numbers = 16 * 9 + 4 * 17 + 8
    assert account.before[Kind.PARAMETER] == 4 * numbers
    assert account.before[Kind.BUFFER] == 2 * 16 + 8
    assert account.before[Kind.INPUT] == 4 * 5 * 8
    assert account.before[Kind.GRADIENT] == account.before[Kind.OPTIMIZER_STATE] == 0
    forward, backward, step = (account.after[phase] for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.STEP))
    hidden, out, statistics = 4 * 5 * 16, 4 * 5 * 4, 2 * 16
    assert forward[Kind.SAVED] == hidden + out + statistics
    assert forward[Kind.OUTPUT] == 4
    assert backward[Kind.SAVED] == 0
    assert backward[Kind.GRADIENT] == 4 * numbers
    assert step[Kind.OPTIMIZER_STATE] == 8 * numbers + 4 * 6
    assert account.after[Phase.CLEAR][Kind.GRADIENT] == 0
    assert account.largest == 4 * 16 * 8


def test_a_second_step_finds_gradients_and_state_there() -> None:
    network = two_layers()
    step = a_step(network, lambda x: network(x).sum(), "AdamW")
    first = memory.account(step)
    second = memory.account(step)
    assert second.before == {**first.after[Phase.CLEAR], Kind.OUTPUT: 0}
    assert second.after[Phase.FORWARD][Kind.OPTIMIZER_STATE] == first.after[Phase.STEP][Kind.OPTIMIZER_STATE]
    assert second.after[Phase.CLEAR] == first.after[Phase.CLEAR]


def test_transients_are_named_by_their_operator() -> None:
    network = two_layers()
    peak = memory.account(a_step(network, lambda x: network(x).sum())).peaks[Phase.FORWARD]
    assert peak.transients == {"aten.addmm.default": 4 * 5 * 16}
    assert peak.total == sum(peak.bytes.values())


def test_a_number_that_autograd_keeps_is_eight_bytes_until_the_backward_pass() -> None:
    network = nn.Linear(8, 4)
    account = memory.account(a_step(network, lambda x: (network(x) * 3).sum()))
    assert account.after[Phase.FORWARD][Kind.SAVED] == 8
    assert account.after[Phase.BACKWARD][Kind.SAVED] == 0


def test_what_is_run_again_is_told_from_transients() -> None:
    network = two_layers()
    account = memory.account(a_step(network, lambda x: checkpoint(network, x, use_reentrant=False).sum()))
    assert account.after[Phase.FORWARD][Kind.SAVED] == 0
    assert account.peaks[Phase.BACKWARD].bytes[Kind.RECOMPUTED] >= 4 * 5 * 16
    assert account.after[Phase.BACKWARD][Kind.RECOMPUTED] == 0


def test_a_sparse_gradient_is_its_indices_and_its_rows() -> None:
    table = nn.Embedding(10, 3, sparse=True)
    places = torch.tensor([1, 4, 4])
    step = Step(table, new_optimizer("SGD", table.parameters()), (places,), lambda: table(places).sum())
    assert memory.account(step).after[Phase.BACKWARD][Kind.GRADIENT] == 3 * (3 * 4 + 8)


def test_a_storage_that_grows_is_counted_as_it_is() -> None:
    network = nn.Linear(8, 4)
    kept = torch.ones(1)

    def loss(x: Tensor) -> Tensor:
        kept.resize_(100)
        out: Tensor = network(x).sum()
        return out

    step = a_step(network, loss)
    grown = Step(step.network, step.optimizer, (*step.inputs, kept), step.loss)
    account = memory.account(grown)
    assert account.after[Phase.FORWARD][Kind.INPUT] - account.before[Kind.INPUT] == 4 * 99


@pytest.mark.parametrize("measure", [lambda build: memory.account(build()), memory.compare_with_allocator])
def test_what_is_none_of_the_kinds_is_an_error_that_names_its_operator(measure: Callable[[Any], object]) -> None:
    network, hidden = two_layers(), []

    def loss(x: Tensor) -> Tensor:
        hidden.append(x.exp())
        out: Tensor = network(x).sum()
        return out

    with pytest.raises(
        UnattributedBytes, match=r"160 bytes by aten\.exp\.default, born in the forward, is still there"
    ):
        measure(lambda: a_step(network, loss))
    assert gc.isenabled()


def test_what_dies_in_a_later_phase_is_an_error_too() -> None:
    network, hidden = two_layers(), []

    def loss(x: Tensor) -> Tensor:
        hidden.append(x.exp())
        out: Tensor = network(x).sum()
        out.register_hook(lambda gradient: hidden.clear())  # type: ignore[no-untyped-call]
        return out

    with pytest.raises(UnattributedBytes, match="died in the backward"):
        memory.account(a_step(network, loss))


def test_a_layout_of_unknown_storages_is_refused() -> None:
    network = nn.Linear(8, 4)
    with pytest.raises(UnattributedBytes, match="sparse_csr"):
        memory.account(a_step(network, lambda x: network(x).sum() + x.to_sparse_csr().sum()))


# ── against the profiler ──


@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("network", [Mlp((8, 16, 4)), training.Convolution(3, 4, 6), Decoding(2, 2, 4, 8)])
def test_the_account_and_the_allocator_agree_to_the_byte(network: Any, way: Way) -> None:
    step = TrainingStep(network, 3, Optimizer("AdamW", (), way))
    compared = memory.compare_with_allocator(step.build)
    assert compared.differences == {}
    assert compared.peak == compared.allocator_peak
    assert compared.account == memory.account(step.build())


def test_the_allocators_peak_is_that_of_torchs_public_profiler() -> None:
    """torch.profiler's memory events, summed: the same peak as the trace that is read here has."""
    step = TrainingStep(Mlp((8, 16, 4)), 5, Optimizer("AdamW"))
    compared = memory.compare_with_allocator(step.build)
    made = step.build()
    with torch.profiler.profile(profile_memory=True) as profiler:  # noqa: TID251
        loss = made.loss()
        loss.backward()  # type: ignore[no-untyped-call]
        made.optimizer.step()
        made.optimizer.zero_grad()
    total = peak = 0
    waiting: list[Any] = list(reversed(profiler.profiler.kineto_results.experimental_event_tree()))
    while waiting:
        event = waiting.pop()
        waiting += reversed(event.children)
        if event.tag.name == "Allocation":
            total += event.extra_fields.alloc_size
            peak = max(peak, total)
    assert (
        compared.account.before[Kind.PARAMETER] + compared.account.before[Kind.INPUT] + peak == compared.allocator_peak
    )


def test_a_kernels_own_memory_is_added_by_its_operator() -> None:
    step = TrainingStep(training.Convolution(3, 4, 6), 3, Optimizer("SGD"))
    compared = memory.compare_with_allocator(step.build)
    assert set(compared.scratch) == {"aten.convolution_backward.default"}
    assert compared.account.peak.total < compared.peak == compared.allocator_peak


class Remembers(nn.Module):
    """A region that is run again with the random numbers it had."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = two_layers()

    def forward(self, x: Tensor) -> Tensor:
        """The layers."""
        out: Tensor = checkpoint(self.layers, x, use_reentrant=False, preserve_rng_state=True)
        return out


def test_a_difference_is_listed_with_its_place_and_bytes() -> None:
    """The state of the random generator is made by no operator: checkpointing keeps it, and while it runs a region
    again it keeps the present one too.
    """
    network = Remembers()
    compared = memory.compare_with_allocator(lambda: a_step(network, lambda x: network(x).sum()))
    state = torch.get_rng_state().numel()
    assert max(compared.differences.values()) == 2 * state
    assert sum(compared.differences.values()) == 0


@pytest.mark.parametrize("attention", Attention)
@pytest.mark.parametrize("manner", Manner)
def test_elsewhere_differences_are_at_most_a_hundredth_of_the_peak(attention: Attention, manner: Manner) -> None:
    """Fused attention, autocast and checkpointing, at a size of a megabyte or more."""
    step = TrainingStep(Decoding(2, 4, 16, 32, attention), 4, Optimizer("AdamW"), manner)
    compared = memory.compare_with_allocator(step.build)
    assert compared.allocator_peak > MIB
    assert abs(compared.peak - compared.allocator_peak) <= compared.allocator_peak / 100
    assert all(abs(nbytes) <= compared.allocator_peak / 100 for nbytes in compared.differences.values())


# ── two processes ──


def fails_in_one(network: nn.Module) -> nn.Module:
    """A way of sharing in which the second process fails and the first waits for it."""
    if torch.distributed.get_rank() == 1:
        raise LookupError("no such layer")
    time.sleep(60)
    return network


def hangs(network: nn.Module) -> nn.Module:
    """A way of sharing that takes longer than anybody waits."""
    time.sleep(60)
    return network


def test_processes_that_are_spawned_hold_what_forked_ones_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside an accelerator none is forked; Python's own helper, which then stays, is no child that is left."""
    forked, before = processes.train_on_two_ranks((4, 4), 1), Snapshot()
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    assert processes.train_on_two_ranks((4, 4), 1) == forked
    assert before.restore() == []


def test_a_process_that_fails_is_told_with_what_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_ways", lambda: {"alone": fails_in_one})
    with pytest.raises(processes.RankFailed, match="LookupError: no such layer"):
        processes.train_on_two_ranks((4, 4), 1)
    assert_no_children()


def test_processes_that_hang_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_ways", lambda: {"alone": hangs})
    monkeypatch.setattr(processes, "SECONDS", 0.2)
    with pytest.raises(processes.RankFailed, match=r"two ranks took more than 0\.2 s"):
        processes.train_on_two_ranks((4, 4), 1)
    assert_no_children()


def assert_no_children() -> None:
    """No process that was started here is left, ended or not."""
    assert not hygiene._children()


# ── what the strategies reach ──

SIDES: dict[str, tuple[st.SearchStrategy[Any], Callable[[Any], object]]] = {
    "four tensors": (
        training.adamw_updates((1, 0, 2)),
        lambda each: each.steps > 0 and not dict(each.optimizer.settings).get("amsgrad") and not each.weights.idle,
    ),
    "a plain state": (st.one_of(module_trees.plain_trees(), module_trees.trees()), lambda tree: tree.is_plain),
    "parameters of their own": (
        st.one_of(module_trees.trees(), module_trees.windowed_trees()),
        lambda tree: not any(each.entry.role is Role.WINDOW for each in tree.parameters()),
    ),
    "more rows than columns": (
        st.one_of(training.crowded(), training.uncrowded()),
        lambda case: case[1] > case[0].widths[0] + case[0].bias,
    ),
    "after the backward pass": (participation.parts, lambda case: case.stage is Stage.AFTER_BACKWARD),
    "a dense part": (participation.parts, lambda case: participation.DENSE & set(case.parts)),
    "state as large as the parameters": (
        st.one_of(training.updates(), training.frugal_updates),
        lambda each: each.optimizer.kept(each.weights.shapes) >= each.weights.numbers,
    ),
    "a fine format": (
        st.one_of(gradient_sequences.sequences(), gradient_sequences.coarse_sequences()),
        lambda case: case.dtype in gradient_sequences.FINE,
    ),
}


@pytest.mark.parametrize("what", SIDES)
def test_both_sides_are_reached(what: str) -> None:
    strategy, condition = SIDES[what]
    assert 0.05 <= share(drawn(strategy), condition) <= 0.95


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.WINDOW])
def test_trees_reach_every_role(role: Role) -> None:
    found = drawn(module_trees.trees())
    assert share(found, lambda tree: any(each.role is role for each in every_entry(tree))) >= 0.05


def every_entry(tree: Tree) -> list[Entry]:
    """The entries of a tree and of those below it."""
    return [*tree.entries, *(entry for child in tree.children for entry in every_entry(child))]


def test_training_steps_reach_every_network_optimizer_and_manner() -> None:
    found = drawn(training.training_steps())
    assert {type(step.network).__name__ for step in found} == {"Mlp", "Convolution", "Decoding", "Mixed"}
    assert {step.manner for step in found} == set(Manner)
    assert {step.optimizer.name for step in found} == set(training.HERE) - {"LBFGS", "Muon", "Adafactor"}
    assert {getattr(step.network, "attention", None) for step in found} >= set(Attention)
    assert share(found, lambda step: getattr(step.network, "frozen", ())) >= 0.05
    assert share(found, lambda step: getattr(step.network, "tied", False)) >= 0.05


def test_updates_reach_every_optimizer() -> None:
    assert {each.optimizer.name for each in drawn(training.updates())} == set(training.HERE)


def test_batches_reach_every_container() -> None:
    found = drawn(batches.batches)
    assert {each.container for each in found} == set(Container)
    assert share(found, lambda each: any(isinstance(part, Batch) for part in each.parts)) >= 0.2


def test_a_tree_says_what_its_module_has() -> None:
    tree = Tree(
        (
            Entry(Role.PARAMETER, (2, 3)),
            Entry(Role.TIED, ()),
            Entry(Role.UNSAVED_BUFFER, (9,)),
            Entry(Role.PLAIN, (7,)),
        ),
        (Tree((Entry(Role.TIED, ()), Entry(Role.BUFFER, (4,))), extra=True),),
        twice=True,
    )
    assert [named.numbers for named in tree.parameters()] == [6]
    assert tree.state() == {
        "parameter_0": 6,
        "tied_1": 6,
        "child_0.tied_0": 6,
        "child_0.buffer_1": 4,
        "again.tied_0": 6,
        "again.buffer_1": 4,
    }
    assert tree.extras() == 2
    assert not tree.is_plain
    assert set(tree.build().state_dict()) == {*tree.state(), "child_0._extra_state", "again._extra_state"}


def test_decays_momenta_and_untold_steps_are_of_every_kind() -> None:
    decayed = drawn(gradient_sequences.decayed)
    assert len({(case.optimizer, case.way) for case in decayed}) == 5 * 2
    assert share(decayed, lambda case: case.eighths * case.weight != 0) >= 0.3
    momenta = drawn(gradient_sequences.momenta)
    assert {case.way for case in momenta} == set(training.Way)
    assert 0.2 <= share(momenta, lambda case: case.nesterov) <= 0.8
    assert gradient_sequences.Momentum((4, 0)).due == [(-1.0, 4.0), (-1.5, 2.0)]
    assert len(training.UNTOLD) == 8
    assert set(module_trees.FOUND).isdisjoint(module_trees.HIDDEN)
