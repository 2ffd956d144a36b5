"""Worlds in which operations take more or less than they do, counters see other things, and plans are made
otherwise.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor, nn
from torch.utils import checkpoint
from torch.utils.flop_counter import flop_registry

from properties.mutants.flops import counted_anew
from properties.mutants.mutant import mutant, patched
from reference import hardware, planner, scalars
from reference.hardware import Rate
from reference.planner import Work
from reference.scalars import plain

aten = torch.ops.aten


# ── counts ──


@mutant(
    "numpy-skips-zeros",
    breaks=("mfu.flops.count-adds-and-multiplies",),
    properties=("test_a_count_depends_on_shapes_alone",),
)
def numpy_skips_zeros() -> Iterator[None]:
    """NumPy's matrix product leaves out the terms in which a factor is zero."""

    def entry(row: Any, column: Any) -> Any:
        return sum(x * y for x, y in zip(row, column, strict=True) if plain(x) and plain(y))

    def product(x: Any, y: Any) -> Shaped[np.ndarray, "rows columns"]:
        return np.array([[entry(row, column) for column in y.T] for row in x], dtype=object)

    with patched(np, "matmul", product):
        yield


@mutant(
    "products-by-logarithms",
    breaks=("mfu.flops.count-adds-and-multiplies",),
    properties=("test_a_decoder_mostly_adds_and_multiplies",),
)
def products_by_logarithms() -> Iterator[None]:
    """A product of two numbers is the exponential of the sum of their logarithms."""

    def multiply_add(self: Any, total: Any, factor: Any) -> Any:
        self.done.exponentials += 3
        self.done.additions += 2
        return self.like(plain(total) + self.value * plain(factor))

    with patched(scalars.Counted, "multiply_add", multiply_add):
        yield


# ── elementwise operations ──


@mutant("sums-scale-their-second-term", breaks=("flops.elementwise.add",))
def sums_scale_their_second_term() -> Iterator[None]:
    """``x + y`` multiplies y by a factor before it adds it."""
    with patched(torch.Tensor, "__add__", lambda x, y: torch.add(x, y, alpha=2)):
        yield


@mutant("pointwise-products-by-logarithms", breaks=("flops.elementwise.multiply",))
def pointwise_products_by_logarithms() -> Iterator[None]:
    """``x * y`` is the exponential of a sum of logarithms."""
    with patched(torch.Tensor, "__mul__", lambda x, y: torch.exp(torch.log(x) + torch.log(y))):
        yield


@mutant("addcmul-and-clone-take-one", breaks=("flops.elementwise.any-op",))
def addcmul_and_clone_take_one() -> Iterator[None]:
    """addcmul leaves out its factors, and a copy is made by multiplying by one."""
    with (
        patched(torch, "addcmul", lambda x, y, z, value: torch.add(x, y)),
        patched(torch, "clone", lambda x: torch.mul(x, 1)),
    ):
        yield


@mutant(
    "large-operands-are-done-twice",
    breaks=("flops.elementwise.linear",),
    properties=("test_elementwise_work_grows_with_the_elements",),
)
def large_operands_are_done_twice() -> Iterator[None]:
    """GELU of more than 64 numbers is computed a second time, to be sure."""

    def gelu(x: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        if x.numel() > 64:
            once(x)
        result: Tensor = once(x)
        return result

    with patched(nn.functional, "gelu", gelu) as once:
        yield


# ── matrix products ──


@mutant("rows-and-columns-exchanged", breaks=("flops.matmul.rows-by-columns",))
def rows_and_columns_exchanged() -> Iterator[None]:
    """Entry (i, k) of a square product comes from row k and column i."""

    def matmul(x: Shaped[Tensor, "..."], y: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        result: Tensor = product(x, y)
        return result.T if len(set(result.shape)) == 1 else result

    with patched(torch, "matmul", matmul) as product:
        yield


@mutant("inner-products-of-scaled-terms", breaks=("flops.matmul.inner-product",))
def inner_products_of_scaled_terms() -> Iterator[None]:
    """NumPy's inner product multiplies each term by one on the way."""
    with patched(np, "dot", lambda x, y: np.sum(x * y * 1)):
        yield


@mutant(
    "products-with-padded-rows",
    breaks=("flops.matmul.one-row", "flops.matmul.two-b-d-k"),
    properties=("test_one_row_takes_two_for_each_weight", "test_a_product_takes_two_for_each_of_its_terms"),
)
def products_with_padded_rows() -> Iterator[None]:
    """``x @ y`` adds a row of zeros to a matrix on the left, and drops what comes of it."""

    def matmul(x: Shaped[Tensor, "..."], y: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        if x.dim() < 2:
            return torch.matmul(x, y)
        padded = torch.cat((x, x.new_zeros(*x.shape[:-2], 1, x.shape[-1])), dim=-2)
        product = torch.matmul(padded, y)
        return product[:-1] if y.dim() == 1 else product[..., :-1, :]

    with patched(torch.Tensor, "__matmul__", matmul):
        yield


@mutant(
    "einsum-always-multiplies-matrices",
    breaks=("flops.matmul.two-b-d-k",),
    properties=("test_einsum_multiplies_elementwise_where_there_is_nothing_to_sum",),
)
def einsum_always_multiplies_matrices() -> Iterator[None]:
    """torch.einsum asks for a matrix product whatever there is to sum."""
    with patched(torch, "einsum", lambda equation, x, y: torch.matmul(x, y)):
        yield


@mutant(
    "chains-from-the-right",
    breaks=("flops.matmul.two-b-d-k",),
    properties=("test_the_order_of_a_chain_changes_the_count_as_predicted",),
)
def chains_from_the_right() -> Iterator[None]:
    """torch.linalg.multi_dot multiplies from the right, whatever that costs."""
    with patched(torch.linalg, "multi_dot", lambda chain: chain[0] @ (chain[1] @ chain[2])):
        yield


# ── torch's own counter ──


def _formula(operator: Any, formula: Callable[..., int]) -> Any:
    """torch's counter with another formula for an operator: it gets the operands, and the result as ``out_val``."""
    return patch.dict(flop_registry, {operator: formula})


@mutant(
    "torchs-counter-sees-sums",
    breaks=("flops.counter.blind-spots",),
    properties=("test_torchs_counter_sees_every_flop",),
)
def torchs_counter_sees_sums() -> Iterator[None]:
    """torch's counter has a formula for elementwise sums."""
    with _formula(aten.add, lambda *operands, out_val, **keywords: out_val.numel()):
        yield


@mutant(
    "torchs-counter-forgets-broadcast-batches",
    breaks=("flops.counter.blind-spots",),
    properties=("test_torchs_counter_sees_matrix_work_that_it_has_a_formula_for",),
)
def torchs_counter_forgets_broadcast_batches() -> Iterator[None]:
    """torch's counter counts one product of a batch."""
    with _formula(aten.bmm, lambda x, y, *rest, out_val, **keywords: 2 * x.shape[1] * x.shape[2] * y.shape[2]):
        yield


@mutant(
    "torchs-counter-forgets-the-batch-of-what-is-added",
    breaks=("flops.counter.blind-spots",),
    properties=("test_torchs_counter_sees_matrix_work_that_it_has_a_formula_for",),
)
def torchs_counter_forgets_the_batch_of_what_is_added() -> Iterator[None]:
    """torch's counter counts one product of a batch that is added to something."""
    with _formula(aten.baddbmm, lambda into, x, y, **keywords: 2 * x.shape[1] * x.shape[2] * y.shape[2]):
        yield


@mutant(
    "torchs-counter-adds-biases",
    breaks=("flops.counter.blind-spots",),
    properties=("test_torchs_counter_sees_matrix_work_that_it_has_a_formula_for",),
)
def torchs_counter_adds_biases() -> Iterator[None]:
    """torch's counter takes the sum with a bias for matrix work."""
    with _formula(aten.addmm, lambda into, x, y, **keywords: (2 * x.shape[1] + 1) * x.shape[0] * y.shape[1]):
        yield


@mutant(
    "torchs-counter-forgets-scores-done-again",
    breaks=("flops.counter.blind-spots",),
    properties=("test_torchs_counter_sees_matrix_work_that_it_has_a_formula_for",),
)
def torchs_counter_forgets_scores_done_again() -> Iterator[None]:
    """torch's counter takes the backward pass of memory-efficient attention for twice its forward pass."""

    def backward(gradient: Any, query: Any, key: Any, value: Any, *rest: Any, **keywords: Any) -> int:
        batch, heads, queries, width = query.shape
        return int(4 * batch * heads * queries * key.shape[2] * (width + value.shape[3]))

    with _formula(aten._scaled_dot_product_efficient_attention_backward, backward):
        yield


@mutant(
    "torchs-counter-takes-the-wrong-positions",
    breaks=("flops.counter.blind-spots",),
    properties=("test_torchs_counter_sees_matrix_work_that_it_has_a_formula_for",),
)
def torchs_counter_takes_the_wrong_positions() -> Iterator[None]:
    """torch's counter multiplies a convolution's backward pass by the positions of its output once more."""
    right: Callable[..., int] = flop_registry[aten.convolution_backward]

    def backward(gradient: Any, *rest: Any, **keywords: Any) -> int:
        positions: int = math.prod(gradient.shape[2:])
        return positions * right(gradient, *rest, **keywords)

    with _formula(aten.convolution_backward, backward):
        yield


@mutant(
    "torchs-counter-counts-multiply-adds",
    breaks=("flops.counter.blind-spots",),
    properties=("test_our_counter_sees_what_torchs_overlooks",),
)
def torchs_counter_counts_multiply_adds() -> Iterator[None]:
    """torch's counter has a formula for a matrix times a vector, and it counts a multiplication and an
    addition as one.
    """
    with _formula(aten.mv, lambda x, y, *rest, out_val, **keywords: x.numel()):
        yield


@mutant(
    "torchs-counter-takes-attention-for-one-product",
    breaks=("flops.counter.blind-spots",),
    properties=("test_our_counter_sees_what_torchs_overlooks",),
)
def torchs_counter_takes_attention_for_one_product() -> Iterator[None]:
    """torch's counter has a formula for fused attention on a CPU, which forgets the weighted sums."""

    def scores(query: Any, key: Any, *rest: Any, **keywords: Any) -> int:
        return 2 * int(query.numel()) * int(key.shape[-2])

    with _formula(aten._scaled_dot_product_flash_attention_for_cpu, scores):
        yield


@mutant(
    "torchs-counter-takes-lookups-for-products",
    breaks=("flops.counter.blind-spots",),
    properties=("test_torchs_counter_sees_matrix_work_that_it_has_a_formula_for",),
)
def torchs_counter_takes_lookups_for_products() -> Iterator[None]:
    """torch's counter charges a lookup as the product of its table with a row of zeros and a one."""
    with _formula(aten.embedding, lambda table, places, *rest, **keywords: 2 * table.numel() * places.numel()):
        yield


@mutant(
    "eigenvalues-by-known-operators",
    breaks=("flops.counter.blind-spots",),
    properties=("test_our_counter_refuses_what_it_has_no_rule_for",),
)
def eigenvalues_by_known_operators() -> Iterator[None]:
    """torch.linalg.eigvals reads the diagonal, as for a triangular matrix."""
    with patched(torch.linalg, "eigvals", lambda x: x.diagonal().clone()):
        yield


# ── utilisation ──


@mutant(
    "checkpoints-keep-everything",
    breaks=("mfu.definition",),
    properties=("test_mfu_is_achieved_over_peak",),
)
def checkpoints_keep_everything() -> Iterator[None]:
    """Checkpointing keeps what the forward pass made, and does nothing again."""
    with patched(checkpoint, "checkpoint", lambda function, *given, use_reentrant: function(*given)):
        yield


@mutant(
    "utilisation-of-one-device",
    breaks=("mfu.definition",),
    properties=("test_mfu_halves_in_twice_the_time_and_ignores_the_number_of_devices",),
)
def utilisation_of_one_device() -> Iterator[None]:
    """The MFU of a cluster is compared with the peak of as many devices as the root of their number."""

    def mfu(work: Any, *, seconds: Any, peak: Any, devices: Any) -> Any:
        return right(work, seconds=seconds * devices, peak=peak, devices=1 + 1 / devices)

    with patched(planner, "mfu", mfu) as right:
        yield


@mutant(
    "negative-numbers-by-their-size",
    breaks=("mfu.definition",),
    properties=("test_an_impossible_number_is_refused_by_its_name",),
)
def negative_numbers_by_their_size() -> Iterator[None]:
    """A plan takes a negative number for the positive one of its size."""

    def positive(name: str, number: Any) -> Any:
        return right(name, abs(number))

    with patched(planner, "_positive", positive) as right:
        yield


@mutant(
    "utilisation-without-a-limit",
    breaks=("mfu.definition",),
    properties=("test_a_utilisation_above_one_and_a_sparse_peak_are_refused",),
)
def utilisation_without_a_limit() -> Iterator[None]:
    """A utilisation may be anything above zero."""
    with patched(planner, "_share", lambda name, number: planner._positive(name, number)):
        yield


# ── the rate of one card ──


@mutant(
    "pcie-cards-as-fast",
    breaks=("training.peak.half-of-1979",),
    changes="arithmetic",
    properties=("test_an_h100_does_half_of_1979_teraflops",),
)
def pcie_cards_as_fast() -> Iterator[None]:
    """The PCIe card has the rates of the SXM card."""
    equal = dataclasses.replace(hardware.H100_PCIE, rates=hardware.H100_SXM.rates)
    with patched(hardware, "H100_PCIE", equal):
        yield


@mutant(
    "datasheets-print-dense-rates",
    breaks=("training.peak.half-of-1979",),
    changes="arithmetic",
    properties=("test_the_1979_of_the_datasheet_is_with_sparsity",),
)
def datasheets_print_dense_rates() -> Iterator[None]:
    """The 1979 of the datasheet is the dense rate."""
    rates = {numbers: Rate(rate.sparse or rate.dense) for numbers, rate in hardware.H100_SXM.rates.items()}
    doubled = {numbers: Rate(rate.dense, 2 * rate.dense) for numbers, rate in rates.items()}
    with patched(hardware, "H100_SXM", dataclasses.replace(hardware.H100_SXM, rates=doubled)):
        yield


# ── gradients where a function bends ──


@mutant(
    "rectifiers-pass-on-at-zero",
    breaks=("training.backward.loss-gradient-elementwise",),
    properties=("test_a_rectifier_passes_nothing_where_its_input_is_negative_and_all_where_it_is_positive",),
)
def rectifiers_pass_on_at_zero() -> Iterator[None]:
    """A ReLU's slope at zero is one."""
    with patched(nn.functional, "relu", lambda y: torch.where(y >= 0, y, torch.zeros_like(y))):
        yield


@mutant(
    "guards-are-optimised-away",
    breaks=("training.backward.loss-gradient-elementwise",),
    properties=("test_a_branch_that_is_not_taken_needs_an_input_that_it_can_take",),
)
def guards_are_optimised_away() -> Iterator[None]:
    """torch.where leaves a number as it is instead of putting a one in its place."""

    def where(condition: Any, x: Any, y: Any) -> Any:
        guards = isinstance(y, Tensor) and y.numel() > 0 and not y.requires_grad and bool((y == 1).all())
        return x if guards else right(condition, x, y)

    with patched(torch, "where", where) as right:
        yield


# ── a model of 70 billion parameters ──


@mutant("lookups-read-the-whole-table", breaks=("training.example.pairs",))
def lookups_read_the_whole_table() -> Iterator[None]:
    """An embedding mixes a little of every row into the one that is asked for."""
    with patched(nn.functional, "embedding", lambda place, table: table[place] + table.mean(dim=0)):
        yield


@mutant(
    "linear-layers-copy",
    breaks=(
        "training.example.forward",
        "training.example.backward",
        "training.example.total",
        "training.example.real-architecture",
    ),
    properties=(
        "test_the_forward_pass_takes_2_1e24_flops",
        "test_the_backward_pass_takes_4_2e24_flops",
        "test_training_takes_6_3e24_flops",
        "test_a_real_model_takes_those_days",
    ),
)
def linear_layers_copy() -> Iterator[None]:
    """A linear layer repeats a number of its input instead of multiplying."""

    def copied(self: nn.Linear, x: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        return x[..., :1].expand(*x.shape[:-1], self.out_features)

    with patched(nn.Linear, "forward", copied), counted_anew():
        yield


@mutant(
    "linear-layers-always-have-a-bias",
    breaks=("training.example.real-architecture",),
    properties=("test_the_model_has_the_published_number_of_parameters",),
)
def linear_layers_always_have_a_bias() -> Iterator[None]:
    """nn.Linear has a bias whatever it is asked for."""

    def made(self: nn.Linear, inputs: int, outputs: int, bias: bool = True, **keywords: Any) -> None:
        right(self, inputs, outputs, bias=True, **keywords)

    with patched(nn.Linear, "__init__", made) as right, counted_anew():
        yield


# ── days ──


@mutant(
    "days-of-twelve-hours",
    breaks=("training.example.flops-per-day", "training.example.144-days", "training.example.real-architecture"),
    changes="arithmetic",
    properties=(
        "test_a_day_yields_rate_times_utilisation_times_devices",
        "test_1024_h100s_take_144_days",
        "test_at_its_own_context_it_takes_154_or_165_days",
    ),
)
def days_of_twelve_hours() -> Iterator[None]:
    """A cluster works twelve hours a day."""
    with patched(planner, "SECONDS_PER_DAY", 12 * 60 * 60):
        yield


@mutant(
    "devices-rounded-down",
    breaks=("training.example.flops-per-day",),
    changes="arithmetic",
    properties=("test_the_devices_for_the_days_of_a_cluster_are_that_cluster",),
)
def devices_rounded_down() -> Iterator[None]:
    """A plan rounds the devices that it needs down."""

    def needed(work: Work, *, peak: Any, days: Any, mfu: Any) -> int:
        devices: int = math.floor(planner.training_days(work, peak=peak, devices=1, mfu=mfu) / days)
        return max(devices, 1)

    with patched(planner, "devices_needed", needed):
        yield


@mutant(
    "forward-flops-as-multiply-adds",
    breaks=("training.example.forward", "training.example.total"),
    properties=("test_the_forward_pass_takes_2_1e24_flops", "test_training_takes_6_3e24_flops"),
)
def forward_flops_as_multiply_adds() -> Iterator[None]:
    """The rule of thumb counts a multiplication and an addition as one."""

    def forward_flops(parameters: Any, tokens: Any) -> Any:
        return right(parameters, tokens) / 2

    with patched(planner, "forward_flops", forward_flops) as right:
        yield
