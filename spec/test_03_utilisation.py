"""Utilisation: what a FLOP is, and which share of a machine's rate a training run gets out of it."""

import math
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from properties.claims import also, context, costly, holds, holds_when, needs
from properties.evidence import every, in_band, when, within_band
from properties.instruments import devices
from properties.instruments.clock import compare, share
from properties.instruments.flops import count_flops
from properties.needs import on_each_device
from properties.ratios import Band
from properties.strategies import workloads
from properties.strategies.algorithms import Block, Computation, Values, blocks, computations
from properties.strategies.draws import between
from properties.strategies.plans import (
    QUANTITIES,
    SPARSE_PEAK,
    Checkpointing,
    Impossible,
    Run,
    Step,
    checkpointed_steps,
    plain_steps,
    refusal,
    runs,
)
from properties.strategies.workloads import ElementwiseProduct, Multiplication
from reference import planner
from reference.hardware import Arithmetic
from reference.planner import Peak, PlannerError, SparsePeakError, Sparsity, Work

seeds = between(0, 2**16 - 1)

# ── FLOPs ──


@holds("mfu.flops.count-adds-and-multiplies")
@given(computation=computations(), values=st.sampled_from(Values), seed=seeds)
@example(computation=Computation("NumPy's product", (2, 3, 2)), values=Values.SMALL_INTEGERS, seed=0)
def test_a_count_depends_on_shapes_alone(computation, values, seed):
    """FLOPs counts the floating-point operations of an algorithm, mainly additions and multiplications.

    Numbers that count what is done with them are sent through plain algorithms, and through NumPy's own
    loops. Each kind of operation is done as often on any numbers as on zeros.
    """
    assert computation.count(values, seed) == computation.count(Values.ZEROS, seed)


@also("mfu.flops.count-adds-and-multiplies")
@given(block=blocks())
@example(block=Block(3, 1, 2))
def test_a_decoder_mostly_adds_and_multiplies(block):
    """Of a decoder's block, from a head width of two up, at least four FLOPs in five add or multiply.

    The rest are the divisions, roots and exponentials of softmax, GELU and the norms. With width w and hidden width m w
    they are at most (m + 2) w + 6 a token, a quarter of the (4 m + 8) w**2 of its weights or less, and 2 a score, a
    quarter of the 4 * head width of its products or less.
    """
    done = block.count()
    assert 5 * (done.additions + done.multiplications) >= 4 * done.flops


context(
    "mfu.flops.per-second",
    "FLOPS, or FLOP/s, is operations per second and measures hardware.",
    source="the document, section 3",
)


@holds_when(
    "mfu.flops.as-time-complexity",
    "the work is bound by arithmetic, as large matrix products are; a copy takes no FLOP, and time",
)
@on_each_device
def test_flops_measure_time_where_arithmetic_bounds_the_work(device):
    """FLOPs measure the time an algorithm takes.

    Two pieces of work by turns, each time in the ratio of their FLOPs or not.
    """
    for pair in workloads.pairs(device):
        seen = compare(pair.first.work(), pair.second.work(), pair.band)
        as_predicted = in_band(seen, rule=pair.rule, unit="times as long", where=pair)
        assert as_predicted == when(pair.bound_by_arithmetic)


# ── utilisation ──


@holds("mfu.peak.not-reached")
@on_each_device
def test_a_large_product_stays_below_the_peak(device):
    """Real runs usually stay below the theoretical peak.

    A device that is in no table has no peak to stay below, as a processor: nothing is judged there.
    """
    product = workloads.square(device)
    ideal = product.flops / devices.peak(device, product.arithmetic)
    within_band(share(ideal, product.work(), Band(0, 1)), unit="of the peak", where=product)


@also("mfu.peak.not-reached")
@needs("cuda")
@pytest.mark.parametrize("arithmetic", [each for each in Arithmetic if each is not Arithmetic.BF16])
def test_a_large_product_stays_below_the_peak_in_every_arithmetic(arithmetic):
    """In FP8, float16, TF32 and float32 too, each against its own peak."""
    product = workloads.square("cuda", arithmetic)
    ideal = product.flops / devices.peak("cuda", arithmetic)
    within_band(share(ideal, product.work(), Band(0, 1)), unit="of the peak", where=product)


@holds_when(
    "mfu.definition",
    "the FLOPs achieved are the model's own; with those done again to save memory it is hardware utilisation (HFU)",
)
@costly(cases=50, because="a case takes milliseconds")
@given(step=st.one_of(plain_steps(), checkpointed_steps()), milliseconds=st.integers(1, 10**6))
@example(step=Step(2, (3, 3, 3), Checkpointing.OFF), milliseconds=1)
@example(step=Step(2, (3, 3, 3), Checkpointing.REENTRANT), milliseconds=1)
def test_mfu_is_achieved_over_peak(step, milliseconds):
    """MFU is achieved FLOP/s over peak FLOP/s.

    A step is counted at the dispatcher, what its backward pass does again apart. Checkpointing leaves MFU
    where it is.
    """
    with count_flops() as counted:
        step.run()
    work = Work(counted.model.matrix, counted.recomputed.matrix)
    run = {"seconds": Fraction(milliseconds, 1000), "devices": 1, "peak": Peak(10**12, Sparsity.DENSE)}
    achieved = counted.matrix / run["seconds"]
    assert (planner.mfu(work, **run) == achieved / run["peak"].flops_per_second) == when(not step.recomputes)
    assert planner.hfu(work, **run) == achieved / run["peak"].flops_per_second


@also("mfu.definition")
@given(run=runs())
@example(run=Run(70 * 10**9, 15 * 10**12, 1024, 989, 50))
def test_mfu_halves_in_twice_the_time_and_ignores_the_number_of_devices(run):
    """MFU lies in (0, 1], halves when the time doubles, and is what it was on more devices that are as
    efficient.
    """
    seconds = run.days() * planner.SECONDS_PER_DAY
    reached = planner.mfu(run.work, seconds=seconds, peak=run.peak, devices=run.devices)
    assert 0 < reached <= 1
    assert reached == run.mfu
    assert planner.mfu(run.work, seconds=2 * seconds, peak=run.peak, devices=run.devices) == reached / 2
    threefold = Work(3 * run.work.model_flops)
    assert planner.mfu(threefold, seconds=seconds, peak=run.peak, devices=3 * run.devices) == reached


@also("mfu.definition")
def test_an_impossible_number_is_refused_by_its_name():
    """Zero, a negative number, NaN and infinity are refused wherever a plan takes a number, by the number's
    name.
    """
    cases = [(name, bad) for name in QUANTITIES for bad in Impossible]
    named = [refusal(name, bad).startswith(name) for name, bad in cases]
    every("numbers and places", named, cases, size=4 * len(QUANTITIES))


@also("mfu.definition")
@given(run=runs(), percent=st.integers(101, 1000))
def test_a_utilisation_above_one_and_a_sparse_peak_are_refused(run, percent):
    """An MFU above one is refused, given or found, and so is a peak that assumes sparsity."""
    with pytest.raises(PlannerError, match="cannot be above 1"):
        planner.flops_per_day(peak=run.peak, devices=run.devices, mfu=percent / 100)
    seconds = run.days() * planner.SECONDS_PER_DAY * run.mfu * 100 / percent
    with pytest.raises(PlannerError, match="cannot be above 1"):
        planner.mfu(run.work, seconds=seconds, peak=run.peak, devices=run.devices)
    with pytest.raises(SparsePeakError, match="2:4 sparsity"):
        planner.mfu(run.work, seconds=10**30, peak=SPARSE_PEAK, devices=1)


@holds_when(
    "mfu.half-is-good",
    "the work is large bfloat16 matrix products, and the peak the dense one; elementwise work cannot come near it",
)
@needs("cuda")
def test_large_products_reach_half_of_the_peak_and_elementwise_work_does_not():
    """An MFU of 0.5 or more counts as very good, especially when matmul dominates."""
    elementwise = ElementwiseProduct(workloads.ELEMENTS["cuda"], Arithmetic.BF16, "cuda")
    for work in (workloads.square("cuda", Arithmetic.BF16), elementwise):
        ideal = work.flops / devices.peak("cuda", Arithmetic.BF16)
        good = in_band(share(ideal, work.work(), Band(0.5, 1.0)), unit="MFU", where=work)
        assert good == when(isinstance(work, Multiplication))


@also("mfu.half-is-good")
@needs("cuda")
def test_elementwise_work_stays_below_a_fiftieth_of_the_peak():
    """It waits for memory: an elementwise product of large vectors is far from a tenth of what would be good."""
    work = ElementwiseProduct(workloads.ELEMENTS["cuda"], Arithmetic.BF16, "cuda")
    ideal = work.flops / devices.peak("cuda", Arithmetic.BF16)
    within_band(share(ideal, work.work(), Band(0, 0.02)), unit="MFU", where=work)


@also("mfu.half-is-good")
@on_each_device
def test_a_large_product_does_ten_times_the_flops_a_second_of_elementwise_work(device):
    """So elementwise work stays below a tenth of any peak, known or not, that products stay below."""
    product, elementwise = workloads.square(device), ElementwiseProduct(workloads.ELEMENTS[device], device=device)
    scale = product.flops / elementwise.flops
    seen = compare(elementwise.work(), product.work(), Band(10 / scale, math.inf)).times(scale)
    within_band(seen, unit="times the FLOP/s", where=product)
