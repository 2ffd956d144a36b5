"""The planner against arithmetic by hand, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import sympy

from reference import planner
from reference.planner import (
    Attention,
    AttentionCounted,
    ImpossibleNumber,
    Parameters,
    ParametersCounted,
    Peak,
    PlannerError,
    Recomputation,
    SparsePeakError,
    Sparsity,
    Work,
)

H100 = Peak(1979e12, Sparsity.STRUCTURED_2_4)
DENSE = H100.dense()
RUN = planner.training_work(70e9, 15e12, Recomputation.NONE)


def test_the_rule_of_thumb_is_two_and_four() -> None:
    assert planner.forward_flops(3, 5) == 30
    assert planner.backward_flops(3, 5) == 60
    assert RUN == Work(63 * 10**23, 0)
    assert planner.training_work(3, 5, Recomputation.FULL) == Work(90, 30)
    assert planner.training_work(3, 5, Recomputation.FULL).hardware_flops == 120
    assert Work(90).hardware_flops == 90


def test_a_sparse_peak_is_twice_the_dense_one() -> None:
    assert DENSE == Peak(Fraction(1979, 2) * 10**12, Sparsity.DENSE)
    assert DENSE.dense() == DENSE


def test_the_example_takes_144_days() -> None:
    days = planner.training_days(RUN, peak=DENSE, devices=1024, mfu=0.5)
    assert round(float(days), 2) == 143.93
    assert planner.devices_needed(RUN, peak=DENSE, days=days, mfu=0.5) == 1024
    assert planner.devices_needed(RUN, peak=DENSE, days=144, mfu=0.5) == 1024
    assert planner.devices_needed(RUN, peak=DENSE, days=143, mfu=0.5) == 1031


def test_the_utilisation_of_a_plan_is_the_one_it_was_made_with() -> None:
    days = planner.training_days(RUN, peak=DENSE, devices=1024, mfu=0.5)
    seconds = days * planner.SECONDS_PER_DAY
    assert planner.mfu(RUN, seconds=seconds, peak=DENSE, devices=1024) == Fraction(1, 2)
    again = planner.training_work(70e9, 15e12, Recomputation.FULL)
    assert planner.mfu(again, seconds=seconds, peak=DENSE, devices=1024) == Fraction(1, 2)
    assert planner.hfu(again, seconds=seconds, peak=DENSE, devices=1024) == Fraction(2, 3)


def test_the_largest_model_is_the_one_that_still_fits() -> None:
    assert planner.largest_model_in_memory(devices=8, bytes_per_device=80e9, bytes_per_parameter=16) == 40_000_000_000
    days = planner.training_days(RUN, peak=DENSE, devices=1024, mfu=0.5)
    assert planner.largest_model_in_time(tokens=15e12, days=days, peak=DENSE, devices=1024, mfu=0.5) == 70_000_000_000


def test_the_conventions_are_told_apart() -> None:
    untied, tied = Parameters(100, 30, 30), Parameters(100, 30)
    assert [untied.counted(which) for which in ParametersCounted] == [160, 130, 100]
    assert [tied.counted(which) for which in ParametersCounted] == [130, 130, 100]
    attention = Attention(layers=2, width=4, context=8)
    assert [attention.forward_flops_per_token(how) for how in AttentionCounted] == [0, 144, 256]
    assert (
        planner.training_flops_per_token(untied, attention, ParametersCounted.MULTIPLIED, AttentionCounted.FULL)
        == 6 * 130 + 3 * 256
    )


BAD = [0, -1, float("nan"), float("inf"), -float("inf"), True, "7", None]
PLANS: dict[str, Callable[[Any], Any]] = {
    "parameters": lambda bad: planner.forward_flops(bad, 1),
    "tokens": lambda bad: planner.backward_flops(1, bad),
    "a peak": lambda bad: Peak(bad, Sparsity.DENSE),
    "MFU": lambda bad: planner.flops_per_day(peak=DENSE, devices=1, mfu=bad),
    "devices": lambda bad: planner.flops_per_day(peak=DENSE, devices=bad, mfu=0.5),
    "days": lambda bad: planner.devices_needed(RUN, peak=DENSE, days=bad, mfu=0.5),
    "seconds": lambda bad: planner.mfu(Work(1), seconds=bad, peak=DENSE, devices=1),
    "model FLOPs": lambda bad: planner.training_days(Work(bad), peak=DENSE, devices=1, mfu=0.5),
    "bytes of a device": lambda bad: planner.largest_model_in_memory(
        devices=1, bytes_per_device=bad, bytes_per_parameter=16
    ),
    "bytes of a parameter": lambda bad: planner.largest_model_in_memory(
        devices=1, bytes_per_device=16, bytes_per_parameter=bad
    ),
    "the blocks' parameters": lambda bad: Parameters(bad, 1).counted(ParametersCounted.ALL),
    "the context": lambda bad: Attention(1, 1, bad).forward_flops_per_token(AttentionCounted.FULL),
}


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("bad", BAD)
def test_an_impossible_number_is_refused_by_name(name: str, bad: Any) -> None:
    with pytest.raises(ImpossibleNumber, match=f"{name}.* is "):
        PLANS[name](bad)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_recomputation_may_be_nothing_but_not_less(bad: float) -> None:
    assert Work(1, 0).hardware_flops == 1
    with pytest.raises(ImpossibleNumber, match="recomputed FLOPs is"):
        _ = Work(1, bad).hardware_flops


def test_a_utilisation_above_one_is_refused() -> None:
    with pytest.raises(ImpossibleNumber, match=r"MFU is 1\.5, and cannot be above 1"):
        planner.training_days(RUN, peak=DENSE, devices=1, mfu=1.5)
    with pytest.raises(ImpossibleNumber, match="MFU is 2, and cannot be above 1"):
        planner.mfu(Work(2 * 1979e12 / 2), seconds=1, peak=DENSE, devices=1)
    with pytest.raises(ImpossibleNumber, match="HFU is 2, and cannot be above 1"):
        planner.hfu(Work(1979e12 / 2, 1979e12 / 2), seconds=1, peak=DENSE, devices=1)


def test_a_sparse_peak_is_refused_where_a_dense_one_is_asked() -> None:
    asked: list[Callable[[], Any]] = [
        lambda: planner.flops_per_day(peak=H100, devices=1, mfu=0.5),
        lambda: planner.training_days(RUN, peak=H100, devices=1, mfu=0.5),
        lambda: planner.devices_needed(RUN, peak=H100, days=1, mfu=0.5),
        lambda: planner.mfu(RUN, seconds=1, peak=H100, devices=1),
        lambda: planner.hfu(RUN, seconds=1, peak=H100, devices=1),
        lambda: planner.largest_model_in_time(tokens=1, days=1, peak=H100, devices=1, mfu=0.5),
    ]
    for plan in asked:
        with pytest.raises(SparsePeakError, match=r"use peak\.dense"):
            plan()


def test_no_model_fits_where_there_is_no_room_for_one_parameter() -> None:
    assert planner.largest_model_in_memory(devices=1, bytes_per_device=16, bytes_per_parameter=16) == 1
    with pytest.raises(PlannerError, match="less than one"):
        planner.largest_model_in_memory(devices=1, bytes_per_device=8, bytes_per_parameter=16)
    with pytest.raises(PlannerError, match="less than one"):
        planner.largest_model_in_time(tokens=1e40, days=1, peak=DENSE, devices=1, mfu=0.5)


def test_symbols_give_the_formula() -> None:
    N, T, P, G, U, L, H, S = sympy.symbols("N T P G U L H S", positive=True)
    work = planner.training_work(N, T, Recomputation.FULL)
    assert (work.model_flops, work.hardware_flops) == (6 * N * T, 8 * N * T)
    peak = Peak(P, Sparsity.DENSE)
    days = planner.training_days(work, peak=peak, devices=G, mfu=U)
    assert sympy.simplify(days - N * T / (14400 * P * G * U)) == 0
    attention = Attention(L, H, S).forward_flops_per_token(AttentionCounted.CAUSAL)
    assert sympy.expand(attention - 2 * L * H * S - 2 * L * H) == 0
