"""The table of devices: its figures against one another, and the names that drivers report."""

from __future__ import annotations

from fractions import Fraction

import pytest

from reference import hardware
from reference.hardware import BY_DRIVER_NAME, TERA, Arithmetic, Device, Unknown, identify
from reference.planner import Peak, Sparsity

DEVICES = list(BY_DRIVER_NAME.values())
HALF_AS_WIDE = [(Arithmetic.FP8, Arithmetic.BF16), (Arithmetic.BF16, Arithmetic.TF32)]


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: f"{device.name} {device.form}")
class TestEachDevice:
    def test_sparse_peaks_are_twice_the_dense_ones_as_printed(self, device: Device) -> None:
        for arithmetic, rate in device.rates.items():
            if rate.sparse is not None:
                assert abs(rate.sparse / rate.dense - 2) <= Fraction(3, 100), arithmetic

    def test_float32_outside_matrix_units_has_no_sparse_peak(self, device: Device) -> None:
        assert device.rates[Arithmetic.FP32].sparse is None

    def test_numbers_half_as_wide_go_through_matrix_units_twice_as_fast(self, device: Device) -> None:
        for narrow, wide in HALF_AS_WIDE:
            if narrow in device.rates:
                ratio = device.rates[narrow].dense / device.rates[wide].dense
                assert abs(ratio - 2) <= Fraction(5, 100), (narrow, wide)

    def test_both_formats_of_16_bits_are_as_fast(self, device: Device) -> None:
        assert device.rates[Arithmetic.FP16] == device.rates[Arithmetic.BF16]

    def test_fp8_needs_compute_capability_8_9(self, device: Device) -> None:
        assert (Arithmetic.FP8 in device.rates) == (device.capability >= (8, 9))

    def test_a_peak_says_what_it_assumes(self, device: Device) -> None:
        dense, sparse = (device.peak(Arithmetic.BF16, sparsity) for sparsity in Sparsity)
        assert isinstance(dense, Peak) and isinstance(sparse, Peak)
        assert dense.sparsity is Sparsity.DENSE and dense.dense() == dense
        assert sparse.sparsity is Sparsity.STRUCTURED_2_4
        assert dense.flops_per_second == device.rates[Arithmetic.BF16].dense * TERA

    def test_its_sources_are_named(self, device: Device) -> None:
        assert device.source and device.read.startswith("https://")


SOLD = {
    "NVIDIA H100 80GB HBM3": ((9, 0), 80, 3350),
    "NVIDIA H100 NVL": ((9, 0), 94, 3900),
    "NVIDIA H100 PCIe": ((9, 0), 80, 2000),
    "NVIDIA H200": ((9, 0), 141, 4800),
    "NVIDIA B200": ((10, 0), 180, 7700),
    "NVIDIA A100-SXM4-40GB": ((8, 0), 40, 1555),
    "NVIDIA A100-SXM4-80GB": ((8, 0), 80, 2039),
    "NVIDIA A100-PCIE-40GB": ((8, 0), 40, 1555),
    "NVIDIA A100 80GB PCIe": ((8, 0), 80, 1935),
    "NVIDIA L4": ((8, 9), 24, 300),
    "NVIDIA L40S": ((8, 9), 48, 864),
    "NVIDIA GeForce RTX 4090": ((8, 9), 24, 1008),
    "NVIDIA GeForce RTX 5090": ((12, 0), 32, 1792),
    "AMD Instinct MI300X": ((9, 4), 192, 5300),
}
"""Compute capability, gigabytes and GB/s, entered a second time: a digit that slips in one of the two shows."""


def test_devices_are_what_they_are_sold_as() -> None:
    assert {
        name: (device.capability, device.memory, device.bandwidth) for name, device in BY_DRIVER_NAME.items()
    } == SOLD


def test_figures_that_many_quote_are_these() -> None:
    assert hardware.H100_SXM.rates[Arithmetic.BF16].sparse == Fraction("1978.9")
    assert hardware.A100_SXM_80.rates[Arithmetic.BF16].dense == 312
    assert hardware.A100_SXM_80.bytes_per_second == 2039 * 10**9
    assert hardware.H100_PCIE.rates[Arithmetic.BF16].dense < hardware.H100_NVL.rates[Arithmetic.BF16].dense


def test_the_whole_device_is_found_by_the_name_and_the_memory_its_driver_reports() -> None:
    assert identify("NVIDIA H100 80GB HBM3") is hardware.H100_SXM
    assert identify("NVIDIA H100 80GB HBM3", 85_017_755_648) is hardware.H100_SXM
    assert identify("NVIDIA H200", 150_110_011_392) is hardware.H200
    assert identify("NVIDIA H200", 126_900_000_000) is hardware.H200
    assert identify("NVIDIA A100-SXM4-40GB", 42_405_855_232) is hardware.A100_SXM_40


@pytest.mark.parametrize(
    ("name", "memory", "reason"),
    [
        ("cpu", None, "not in the table"),
        ("", None, "not in the table"),
        ("NVIDIA H100", None, "not in the table"),
        ("nvidia h100 80gb hbm3", None, "not in the table"),
        ("NVIDIA H200 NVL", None, "not in the table"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None, "a partition"),
        ("NVIDIA H100 80GB HBM3", 10 * 10**9, "a partition"),
        ("NVIDIA H200", 126_899_999_999, "a partition"),
        ("AMD Instinct MI300X VF", None, "not in the table"),
    ],
)
def test_anything_else_is_unknown_and_says_why(name: str, memory: int | None, reason: str) -> None:
    found = identify(name, memory)
    assert isinstance(found, Unknown)
    assert found.name == name and reason in found.reason
    assert found.peak(Arithmetic.BF16) is found


def test_a_figure_that_a_maker_does_not_state_is_unknown() -> None:
    for arithmetic, sparsity in ((Arithmetic.FP8, Sparsity.DENSE), (Arithmetic.FP32, Sparsity.STRUCTURED_2_4)):
        missing = hardware.A100_SXM_80.peak(arithmetic, sparsity)
        assert isinstance(missing, Unknown)
        assert "no peak is stated" in missing.reason
