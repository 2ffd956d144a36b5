"""The FLOP counter: against plain loops, against torch's own counter where that is right, and where it must refuse."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils import checkpoint

from properties.instruments.flop_rules import FREE, RULES
from properties.instruments.flops import Counted, Phase, UncountedOperation, Work, count_flops
from properties.instruments.torchs_counter import counted_by_torch
from properties.strategies.programs import Kind, Program
from reference import scalars
from reference.autodiff import differentiate
from reference.scalars import reals


@pytest.fixture(autouse=True)
def torch_as_it_was() -> Iterator[None]:
    """Modules draw random weights, and torch warns where its checkpointing is not told its form."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def counted(program: Callable[[], object]) -> Counted:
    with count_flops() as result:
        program()
    return result


def back(loss: Tensor) -> None:
    loss.backward()  # type: ignore[no-untyped-call]


# ── against plain loops ──


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("sizes", [(2, 3, 4), (1, 1, 1), (3, 2, 2)])
def test_a_program_takes_the_matrix_flops_of_the_plain_algorithm(kind: Kind, sizes: tuple[int, int, int]) -> None:
    program = Program(kind, sizes)
    assert counted(program.run).matrix == program.count().matrix


WEIGHT, BIAS = torch.ones(4), torch.zeros(4)
ELEMENTWISE: dict[str, tuple[Callable[[Tensor], Any], Callable[[Any], Any]]] = {
    "gelu": (F.gelu, lambda x: scalars.elementwise(scalars.gelu, x)),
    "gelu by tanh": (
        lambda x: F.gelu(x, approximate="tanh"),
        lambda x: scalars.elementwise(scalars.tanh_gelu, x),
    ),
    "silu": (F.silu, lambda x: scalars.elementwise(scalars.silu, x)),
    "sigmoid": (torch.sigmoid, lambda x: scalars.elementwise(scalars.sigmoid, x)),
    "relu": (F.relu, lambda x: scalars.elementwise(scalars.relu, x)),
    "lerp": (lambda x: torch.lerp(x, x, 0.3), lambda x: scalars.elementwise(scalars.lerp, x, x, 0.3)),
    "addcmul": (
        lambda x: torch.addcmul(x, x, x, value=2),
        lambda x: scalars.elementwise(scalars.addcmul, x, x, x, 2),
    ),
    "softmax": (lambda x: x.softmax(-1), scalars.softmax),
    "layer norm": (
        lambda x: F.layer_norm(x, (4,), WEIGHT, BIAS),
        lambda x: scalars.layer_norm(x, np.ones(4), np.zeros(4)),
    ),
    "RMS norm": (lambda x: F.rms_norm(x, (4,), WEIGHT), lambda x: scalars.rms_norm(x, np.ones(4))),
    "mean square": (lambda x: F.mse_loss(x, x), lambda x: scalars.mean_square_error(x, x)),
    "cross-entropy": (
        lambda x: F.cross_entropy(x, torch.zeros(3, dtype=torch.int64)),
        lambda x: scalars.cross_entropy(x, [0] * 3),
    ),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_an_operation_takes_the_flops_and_comparisons_of_its_formula(name: str) -> None:
    ours, plain = ELEMENTWISE[name]
    seen, done = counted(lambda: ours(torch.ones(3, 4))).hardware, scalars.count(plain, reals((3, 4)))
    # The log-softmax of a cross-entropy subtracts for every class what its formula subtracts for one.
    extra = 3 * 4 - 3 - 3 if name == "cross-entropy" else 0
    assert (seen.matrix, seen.elementwise, seen.comparisons) == (0, done.flops + extra, done.comparisons)


def test_a_rectifier_is_a_comparison_forward_and_backward() -> None:
    x = torch.ones(3, 4, requires_grad=True)
    seen = counted(lambda: back(F.relu(x).sum()))
    assert (seen.forward.comparisons, seen.backward.comparisons) == (12, 12)


def test_the_gradients_of_a_recurrent_cell_are_those_of_the_tape() -> None:
    shapes = [(2, 3), (2, 4), (4, 3), (4, 4), (4,), (4,)]
    arrays = [reals(shape) for shape in shapes]
    tape = differentiate(scalars.recurrent_cell, *arrays, output_gradient=np.ones((2, 4)))
    x, hidden, *weights = (torch.from_numpy(array).requires_grad_() for array in arrays)

    def cell() -> None:
        out = torch.tanh(F.linear(x, weights[0], weights[2]) + F.linear(hidden, weights[1], weights[3]))
        out.backward(torch.ones_like(out))  # type: ignore[no-untyped-call]

    seen = counted(cell)
    assert (seen.forward.matrix, seen.backward.matrix) == (tape.forward.matrix, tape.backward.matrix)


# ── against torch's own counter ──


def dense(device: str) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.Linear(5, 3)).to(device)


PROGRAMS: dict[str, Callable[[], object]] = {
    "a perceptron": lambda: back(dense("cpu")(torch.ones(2, 6)).sum()),
    "a perceptron on the meta device": lambda: back(dense("meta")(torch.ones(2, 6, device="meta")).sum()),
    "baddbmm": lambda: torch.baddbmm(torch.ones(2, 3, 5), torch.ones(2, 3, 4), torch.ones(2, 4, 5)),
    "an einsum": lambda: torch.einsum("abc,cd->abd", torch.ones(2, 3, 4), torch.ones(4, 5)),
    "a convolution": lambda: back(nn.Conv2d(2, 3, 2)(torch.ones(2, 2, 4, 4, requires_grad=True)).sum()),
    "a transposed convolution": lambda: back(
        nn.ConvTranspose2d(2, 3, 2, stride=2)(torch.ones(2, 2, 4, 4, requires_grad=True)).sum()
    ),
    "an encoder layer": lambda: back(
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, device="meta")(torch.ones(2, 3, 8, device="meta")).sum()
    ),
    "an LSTM on the meta device": lambda: back(
        nn.LSTM(3, 4, 2, device="meta")(torch.ones(5, 2, 3, device="meta"))[0].sum()
    ),
    "vmap": lambda: torch.vmap(torch.matmul)(torch.ones(3, 2, 4), torch.ones(3, 4, 5)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_torchs_own_counter_sees_the_same_matrix_flops_where_it_is_right(name: str) -> None:
    assert counted(PROGRAMS[name]).matrix == counted_by_torch(PROGRAMS[name]) > 0


def test_an_lstm_takes_the_same_fused_on_a_cpu_and_step_by_step_on_the_meta_device() -> None:
    def run(layers: int, both: bool, device: str) -> Counted:
        module = nn.LSTM(3, 4, layers, bidirectional=both, device=device)
        return counted(lambda: module(torch.ones(5, 2, 3, device=device)))

    for layers, both in ((1, False), (2, True)):
        fused, steps = (run(layers, both, device) for device in ("cpu", "meta"))
        assert "aten.mkldnn_rnn_layer" not in steps.calls
        assert fused.forward == steps.forward


def test_attention_takes_the_same_on_its_fast_path() -> None:
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.ones(2, 5, 8)
    with torch.no_grad():
        fast = counted(lambda: layer.eval()(x, x, x, need_weights=False))
    slow = counted(lambda: layer.train()(x, x, x, need_weights=False))
    assert "aten._native_multi_head_attention" in fast.calls
    assert fast.forward == slow.forward


def test_an_encoder_layer_takes_the_same_on_its_fast_path() -> None:
    layer, x = nn.TransformerEncoderLayer(8, 2, 16, dropout=0, batch_first=True), torch.ones(2, 5, 8)
    with torch.no_grad():
        fast = counted(lambda: layer.eval()(x))
    assert "aten._transformer_encoder_layer_fwd" in fast.calls
    assert fast.forward == counted(lambda: layer.train()(x)).forward


def test_bilinear_layers_are_two_products_one_after_the_other() -> None:
    seen = counted(lambda: F.bilinear(torch.ones(2, 3), torch.ones(2, 4), torch.ones(5, 3, 4)))
    plain = scalars.count(
        lambda x, w, y: scalars.einsum("b o j, b j -> b o", scalars.einsum("b i, o i j -> b o j", x, w), y),
        *map(reals, ((2, 3), (5, 3, 4), (2, 4))),
    )
    assert seen.matrix == plain.matrix


def test_composites_are_taken_apart_where_nothing_records_gradients() -> None:
    with torch.inference_mode():
        seen = counted(lambda: dense("cpu")(torch.ones(2, 6)))
    assert seen.forward == counted(lambda: dense("cpu")(torch.ones(2, 6))).forward
    assert "aten.linear" not in seen.calls


def test_an_optimizer_step_takes_the_same_written_in_three_ways() -> None:
    def step(**form: Any) -> Work:
        weight = nn.Parameter(torch.ones(4, 5))
        optimizer = torch.optim.AdamW([weight], **form)
        weight.grad = torch.ones(4, 5)
        return counted(optimizer.step).optimizer

    assert step(foreach=False) == step(foreach=True) == step(fused=True)


# ── numbers of another kind ──


def test_whole_numbers_are_no_floating_point_work() -> None:
    x = torch.ones(3, 3, dtype=torch.int64)
    assert counted(lambda: (x @ x + x * x).sum()).hardware == Work()


def test_complex_numbers_are_counted_in_real_operations() -> None:
    x = torch.ones(3, 3, dtype=torch.complex64)
    assert counted(lambda: x + x).elementwise == 2 * 9
    assert counted(lambda: x * x).elementwise == 6 * 9
    assert counted(lambda: x @ x).matrix == 4 * counted(lambda: x.real @ x.real).matrix


def test_an_operation_on_complex_numbers_without_a_rule_is_refused() -> None:
    with pytest.raises(UncountedOperation, match="complex"):
        counted(lambda: torch.exp(torch.ones(3, dtype=torch.complex64)))


# ── what it refuses ──


def test_an_operator_without_a_rule_is_refused_by_name() -> None:
    with pytest.raises(UncountedOperation, match=r"aten\._fft_r2c.* has no rule.*count_flops\(rules="):
        counted(lambda: torch.fft.rfft(torch.ones(8)))


def test_a_refusal_leaves_torch_as_it_was() -> None:
    with pytest.raises(UncountedOperation):
        counted(lambda: nn.Sequential(nn.Linear(2, 2), nn.Fold(2, 1))(torch.fft.rfft(torch.ones(8))))
    assert not nn.modules.module._global_forward_pre_hooks
    assert not nn.modules.module._global_forward_hooks
    assert torch.fft.rfft(torch.ones(8)).shape == (5,)


def test_an_operator_can_be_given_a_rule_and_is_known_only_there() -> None:
    rule = {torch.ops.aten._fft_r2c: lambda args, kwargs, out: Work(elementwise=7)}
    with count_flops(rules=rule) as result:
        torch.fft.rfft(torch.ones(8))
    assert result.elementwise == 7
    with pytest.raises(UncountedOperation):
        counted(lambda: torch.fft.rfft(torch.ones(8)))


def test_a_higher_order_operator_is_refused() -> None:
    with pytest.raises((UncountedOperation, NotImplementedError), match="cond"):
        counted(lambda: torch.ops.higher_order.cond(torch.tensor(True), torch.sin, torch.cos, (torch.ones(2),)))


def test_packed_sequences_are_refused() -> None:
    rule = RULES["_flash_attention_forward"]
    assert callable(rule)
    query = torch.ones(5, 2, 4)
    with pytest.raises(UncountedOperation, match="packed"):
        rule((query, query, query, torch.tensor([0, 2, 5])), {}, query)


def test_no_operator_is_both_counted_and_free() -> None:
    assert not FREE & set(RULES)


# ── phases ──


def test_checkpointed_regions_are_told_apart_from_the_backward_pass() -> None:
    module, x = dense("cpu"), torch.ones(2, 6, requires_grad=True)
    plain = counted(lambda: back(module(x).sum()))
    for reentrant, again in ((True, plain.forward.matrix), (False, 2 * 2 * 6 * 5)):
        with count_flops() as seen:
            back(checkpoint.checkpoint(module, x, use_reentrant=reentrant).sum())
        assert seen.model.matrix == plain.model.matrix
        assert seen.recomputed.matrix == again
        assert seen.hardware.matrix == seen.matrix == plain.matrix + again


def test_a_backward_pass_that_records_gradients_is_no_recomputation() -> None:
    x = torch.ones(2, 6, requires_grad=True)
    weight = torch.ones(6, 5, requires_grad=True)

    def twice() -> None:
        (gradient,) = torch.autograd.grad(((x @ weight) ** 2).sum(), x, create_graph=True)
        back((gradient**2).sum())

    seen = counted(twice)
    assert seen.recomputed == Work()
    assert seen.backward.matrix > 2 * seen.forward.matrix > 0


def test_a_nested_checkpoint_is_recomputation_twice_over() -> None:
    weight, x = torch.ones(4, 4, requires_grad=True), torch.ones(3, 4, requires_grad=True)

    def inner(x: Tensor) -> Tensor:
        return x @ weight

    def outer(x: Tensor) -> Tensor:
        result: Tensor = checkpoint.checkpoint(inner, x, use_reentrant=True)
        return result

    seen = counted(lambda: back(checkpoint.checkpoint(outer, x, use_reentrant=True).sum()))
    product = 2 * 3 * 4 * 4
    assert (seen.forward.matrix, seen.recomputed.matrix, seen.backward.matrix) == (product, 2 * product, 2 * product)


def test_a_closure_inside_a_step_is_forward_and_backward_work() -> None:
    weight = nn.Parameter(torch.ones(4, 4))
    optimizer = torch.optim.SGD([weight])

    def closure() -> Tensor:
        loss = (torch.ones(3, 4) @ weight).sum()
        back(loss)
        return loss

    seen = counted(lambda: optimizer.step(closure))
    assert (seen.forward.matrix, seen.backward.matrix) == (96, 96)
    assert seen.optimizer == Work(elementwise=32)


def test_counters_within_one_another_count_the_same() -> None:
    with count_flops() as outer, count_flops() as inner:
        back((torch.ones(2, 3, requires_grad=True) @ torch.ones(3, 4)).sum())
    assert inner.by_operator == outer.by_operator


# ── modules and operators ──


class Towers(nn.Module):
    """Two layers side by side on data that needs no gradient, and one on their sum, used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(4, 5, bias=False)
        self.right = nn.Sequential(nn.Linear(3, 5, bias=False))
        self.both = nn.Linear(5, 5, bias=False)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        out: Tensor = self.both(self.both(self.left(x) + self.right(y)))
        return out


def test_work_belongs_to_the_module_that_did_it_forward_and_backward() -> None:
    seen = counted(lambda: back(Towers()(torch.ones(2, 4), torch.ones(2, 3)).sum()))
    expected = {"left": (80, 80), "right": (60, 60), "right.0": (60, 60), "both": (200, 400)}
    for name, pair in expected.items():
        work = (seen.in_module(f"Towers.{name}", phase).matrix for phase in (Phase.FORWARD, Phase.BACKWARD))
        assert tuple(work) == pair
        assert seen.by_module[f"Towers.{name}"].matrix == sum(pair)
    assert seen.by_module["Towers"].matrix == seen.matrix
    assert seen.in_module("nowhere", Phase.FORWARD) == Work()


def test_work_in_a_checkpointed_module_stays_with_it() -> None:
    module = Towers()

    def step(reentrant: bool) -> None:
        inputs = torch.ones(2, 4, requires_grad=True), torch.ones(2, 3)
        back(checkpoint.checkpoint(module, *inputs, use_reentrant=reentrant).sum())

    for reentrant in (True, False):
        with count_flops() as seen:
            step(reentrant)
        assert seen.in_module("Towers.left", Phase.BACKWARD).matrix == 160
        assert seen.in_module("Towers.left", Phase.RECOMPUTED).matrix == 80
        assert seen.by_module["Towers"].matrix == seen.matrix


def test_a_module_that_fails_is_left() -> None:
    class Failing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise ValueError(f"no {x.shape}")

    with count_flops() as seen:
        with pytest.raises(ValueError, match="no"):
            Failing()(torch.ones(2))
        _ = torch.ones(2) + torch.ones(2)
    assert seen.by_module == {"": Work(elementwise=2)}


def test_operators_have_their_work_and_their_number_of_calls() -> None:
    seen = counted(lambda: torch.ones(2, 3) @ torch.ones(3, 4) + torch.ones(4))
    assert seen.by_operator == {"aten.mm": Work(matrix=48), "aten.add": Work(elementwise=8)}
    assert seen.calls["aten.mm"] == seen.calls["aten.add"] == 1
    assert seen.calls["aten.ones"] == 3
    assert seen.within(Phase.BACKWARD) == {}
