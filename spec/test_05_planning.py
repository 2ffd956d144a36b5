"""Planning a training run: the rate of a card, the FLOPs of a model of 70 billion parameters, and the days."""

from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from properties.claims import also, approximates, costly, holds, holds_when, needs
from properties.evidence import every, observe, when, within_band
from properties.instruments import devices
from properties.instruments.clock import share
from properties.ratios import Band
from properties.refusals import refused
from properties.strategies import workloads
from properties.strategies.draws import between
from properties.strategies.plans import Mixture, Run, dense_models, runs, sparse_models
from properties.strategies.transformers import (
    PUBLISHED,
    counted_at_full_size,
    full_sizes_and_contexts,
    parameters_at_full_size,
)
from reference import hardware, planner, transformer
from reference.hardware import Arithmetic
from reference.planner import AttentionCounted, Peak, Recomputation, SparsePeakError, Sparsity, Work

PARAMETERS, TOKENS = 70 * 10**9, 15 * 10**12
TERA = 10**12
LLAMA, CONTEXT = "Llama-3 70B", 8192
AT_FULL_SIZE = {"model": LLAMA, "context": CONTEXT}
BUILT = "a model of 70 billion parameters is built and counted, which takes two seconds"
RULE = planner.training_work(PARAMETERS, TOKENS, Recomputation.NONE)
CLUSTER = {"peak": Peak(Fraction(1979, 2) * TERA, Sparsity.DENSE), "devices": 1024, "mfu": Fraction(1, 2)}
THE_RUN = Run(PARAMETERS, TOKENS, devices=1024, teraflops=989, utilisation=50)

# ── the rate of one card ──


@holds_when(
    "training.peak.half-of-1979",
    "the card is an H100 SXM, the work dense, and the numbers bfloat16 or float16: the datasheet's 1979 is with 2:4"
    " sparsity, and PCIe and NVL cards are slower",
)
def test_an_h100_does_half_of_1979_teraflops():
    """Take the arithmetic rate of one H100 to be 1979e12 / 2 FLOP/s.

    To the rounding of that figure, which is half a teraflop with sparsity and a quarter without.
    """
    cards = (hardware.H100_SXM, hardware.H100_NVL, hardware.H100_PCIE)
    cases = [(card, numbers) for card in cards for numbers in Arithmetic]
    rates = [card.peak(numbers).flops_per_second for card, numbers in cases]
    near = [abs(rate - Fraction(1979, 2) * TERA) <= Fraction(TERA, 4) for rate in rates]
    sides = [card.form == "SXM" and numbers in (Arithmetic.BF16, Arithmetic.FP16) for card, numbers in cases]
    names = [f"H100 {card.form}, {numbers.value}" for card, numbers in cases]
    right = [seen == side for seen, side in zip(near, sides, strict=True)]
    every("every H100 and every format", right, names, size=3 * len(Arithmetic), inside=sides)


@also("training.peak.half-of-1979")
def test_the_1979_of_the_datasheet_is_with_sparsity():
    """1979 is the bfloat16 figure with 2:4 sparsity, twice the dense one; a plan that is given it refuses it."""
    dense = hardware.H100_SXM.peak(Arithmetic.BF16)
    sparse = hardware.H100_SXM.peak(Arithmetic.BF16, Sparsity.STRUCTURED_2_4)
    assert round(sparse.flops_per_second / TERA) == 1979
    assert abs(sparse.dense().flops_per_second - dense.flops_per_second) <= Fraction(TERA, 10)
    assert refused(SparsePeakError, planner.flops_per_day, peak=sparse, devices=1, mfu=1)


@also("training.peak.half-of-1979")
@needs("cuda")
@pytest.mark.parametrize("arithmetic", [Arithmetic.BF16, Arithmetic.FP16])
def test_a_large_product_reaches_half_of_the_dense_peak_of_the_card_at_hand(arithmetic):
    """Between a half and all of it, on whichever card of the table: with the sparse figure it would be half as much."""
    product = workloads.square("cuda", arithmetic)
    ideal = product.flops / devices.peak("cuda", arithmetic)
    within_band(share(ideal, product.work(), Band(0.5, 1.0)), rule=1, unit="of the dense peak", where=product)


# ── 70 billion parameters ──


@holds_when(
    "training.example.pairs",
    "every weight takes part for every token: of an embedding a token meets one row, of a mixture its own experts",
)
@costly(cases=50, because="a case takes milliseconds")
@given(model=st.one_of(dense_models(), sparse_models()))
@example(model=Mixture(0, 2, 1, 1, (0, 0)))
@example(model=Mixture(7, 2, 3, 1, (0, 6)))
def test_every_parameter_meets_every_token(model):
    """Every parameter meets every token at least once: 70e9 * 15e12 encounters.

    A weight and a token meet where the token's output has a gradient by the weight.
    """
    met = model.encounters()
    assert met == model.active_parameters * len(model.tokens)
    assert (met == model.parameters * len(model.tokens)) == when(model.meets_everything)


@holds("training.example.forward")
@costly(cases=1, because=BUILT, lowest="default")
def test_the_forward_pass_takes_2_1e24_flops():
    """70e9 parameters and 15e12 tokens: 2 * 70e9 * 15e12 forward FLOPs.

    A model of that shape, counted on the meta device at a context of 8192, takes as much for a token but for
    its attention, which is 15 % of the work of its weights.
    """
    rule = planner.forward_flops(PARAMETERS, TOKENS)
    assert rule == 21 * 10**23
    counted = Fraction(counted_at_full_size(LLAMA, CONTEXT).forward.matrix, CONTEXT) * TOKENS
    attention = transformer.attention_excess(PUBLISHED[LLAMA].sizes, CONTEXT, AttentionCounted.FULL)
    observe(rule=rule, exact=counted, bound=attention, unit="FLOP", where=AT_FULL_SIZE, by=planner.forward_flops)


@holds("training.example.backward")
@costly(cases=1, because=BUILT, lowest="default")
def test_the_backward_pass_takes_4_2e24_flops():
    """and 4 * 70e9 * 15e12 backward.

    The same model's backward pass, in which every product has two: one for each gradient.
    """
    rule = planner.backward_flops(PARAMETERS, TOKENS)
    assert rule == 42 * 10**23
    counted = Fraction(counted_at_full_size(LLAMA, CONTEXT).backward.matrix, CONTEXT) * TOKENS
    attention = transformer.attention_excess(PUBLISHED[LLAMA].sizes, CONTEXT, AttentionCounted.FULL)
    observe(rule=rule, exact=counted, bound=attention, unit="FLOP", where=AT_FULL_SIZE, by=planner.backward_flops)


@holds("training.example.total")
@costly(cases=1, because=BUILT, lowest="default")
def test_training_takes_6_3e24_flops():
    """Training takes 6 * params * tokens in all: 6.3e24 FLOPs here."""
    rule = planner.training_work(PARAMETERS, TOKENS, Recomputation.NONE).model_flops
    assert rule == 63 * 10**23
    assert rule == planner.forward_flops(PARAMETERS, TOKENS) + planner.backward_flops(PARAMETERS, TOKENS)
    counted = Fraction(counted_at_full_size(LLAMA, CONTEXT).model.matrix, CONTEXT) * TOKENS
    attention = transformer.attention_excess(PUBLISHED[LLAMA].sizes, CONTEXT, AttentionCounted.FULL)
    observe(rule=rule, exact=counted, bound=attention, unit="FLOP", where=AT_FULL_SIZE, by=planner.training_work)


# ── days ──


@holds("training.example.flops-per-day")
@given(run=runs(), factor=between(2, 1000))
@example(run=THE_RUN, factor=2)
def test_a_day_yields_rate_times_utilisation_times_devices(run, factor):
    """A day yields FLOP/s of one GPU * MFU * GPUs * 86400.

    It is linear in the rate, in the utilisation and in the number of devices, and the days of a run are
    inverse to it.
    """
    a_day = planner.flops_per_day(peak=run.peak, devices=run.devices, mfu=run.mfu)
    assert a_day == run.teraflops * TERA * Fraction(run.utilisation, 100) * run.devices * 24 * 60 * 60
    faster = Peak(factor * run.peak.flops_per_second, Sparsity.DENSE)
    assert planner.flops_per_day(peak=faster, devices=run.devices, mfu=run.mfu) == factor * a_day
    assert planner.flops_per_day(peak=run.peak, devices=factor * run.devices, mfu=run.mfu) == factor * a_day
    assert planner.flops_per_day(peak=run.peak, devices=run.devices, mfu=run.mfu / factor) == a_day / factor
    assert run.days(factor * run.devices) == run.days() / factor
    assert run.days() * a_day == 6 * run.parameters * run.tokens


@also("training.example.flops-per-day")
@given(run=runs(), spare=between(1, 99))
@example(run=THE_RUN, spare=1)
def test_the_devices_for_the_days_of_a_cluster_are_that_cluster(run, spare):
    """N devices take some days, and those days need N devices; a little less time needs more, and the largest
    model that a cluster trains in those days is the one that takes them.
    """
    days, plan = run.days(), {"peak": run.peak, "mfu": run.mfu}
    assert planner.devices_needed(run.work, days=days, **plan) == run.devices
    hurried = planner.devices_needed(run.work, days=days * spare / 100, **plan)
    assert run.days(hurried) <= days * spare / 100 < run.days(hurried - 1)
    largest = planner.largest_model_in_time(tokens=run.tokens, days=days, devices=run.devices, **plan)
    assert largest == run.parameters


@holds("training.example.144-days")
def test_1024_h100s_take_144_days():
    """1024 H100s at MFU 0.5 take about 144 days.

    143.93 of them. With the peak that assumes sparsity it would be 72, and the plan refuses it.
    """
    days = planner.training_days(RULE, **CLUSTER)
    assert round(float(days), 2) == 143.93
    assert round(days) == 144
    mistaken, sparse = (Peak(1979 * TERA, kind) for kind in (Sparsity.DENSE, Sparsity.STRUCTURED_2_4))
    assert round(planner.training_days(RULE, peak=mistaken, devices=1024, mfu=0.5)) == 72
    assert refused(SparsePeakError, planner.training_days, RULE, peak=sparse, devices=1024, mfu=0.5)


@approximates(
    "training.example.real-architecture",
    "the share of attention: at a context of 8192 about 7 % longer counting the causal half of it, 15 % longer in full",
)
@costly(cases=1, because=BUILT, lowest="default")
def test_a_real_model_takes_those_days():
    """So a real 70B model takes those 144 days.

    The rule leaves attention out, which grows with the context. A Llama-3-70B shape has 70.55e9 parameters,
    of which all but the input embedding are multiplied.
    """
    by_rule = planner.training_days(RULE, **CLUSTER)
    for context in [context for name, context in full_sizes_and_contexts() if name == LLAMA]:
        sizes, counted = PUBLISHED[LLAMA].at(context), counted_at_full_size(LLAMA, context).model.matrix
        weights = 6 * context * transformer.multiplied_weights(sizes)
        assert counted == weights * (1 + transformer.attention_excess(sizes, context, AttentionCounted.FULL))
        for how in (AttentionCounted.CAUSAL, AttentionCounted.FULL):
            excess = transformer.attention_excess(sizes, context, how)
            days = planner.training_days(Work(weights * (1 + excess) * TOKENS / context), **CLUSTER)
            where = {"context": context, "attention counted": how.name.lower()}
            observe(rule=by_rule, exact=days, bound=excess, unit="days", where=where, by=planner.training_days)


@also("training.example.real-architecture")
def test_at_its_own_context_it_takes_154_or_165_days():
    """At a context of 8192 it takes 154 days with the causal half of attention counted, and 165 with all of
    it.
    """
    causal, full = (
        transformer.forward_flops(PUBLISHED[LLAMA].sizes, 1, CONTEXT, how)
        for how in (AttentionCounted.CAUSAL, AttentionCounted.FULL)
    )
    assert round(planner.training_days(Work(3 * causal * TOKENS / CONTEXT), **CLUSTER)) == 154
    assert round(planner.training_days(Work(3 * full * TOKENS / CONTEXT), **CLUSTER)) == 165


@also("training.example.real-architecture")
@costly(cases=1, because=BUILT, lowest="default")
def test_the_model_has_the_published_number_of_parameters():
    """A model of that shape has 70,553,706,496 parameters, 1 % more than 70e9, and multiplies 1 % less than
    that.
    """
    sizes = PUBLISHED[LLAMA].sizes
    assert parameters_at_full_size(LLAMA) == transformer.parameters(sizes) == 70_553_706_496
    assert transformer.multiplied_weights(sizes) == 69_501_714_432
