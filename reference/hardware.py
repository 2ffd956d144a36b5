"""What accelerators can do at most, as their makers state it.

A peak is given twice: dense, and as datasheets like to print it, with 2:4 structured sparsity, which is about twice as
much and which no dense product reaches. Matrix formats accumulate in float32, as torch has them do; on GeForce cards
that is half the rate of accumulating in float16. ``fp32`` is the rate of ordinary float32 arithmetic, outside matrix
units.

A device is looked up by the name its driver reports. One that is not here, a partition of one that is, or a CPU is
``Unknown``: its peak is unknown too, and never one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from reference.planner import Peak, Sparsity

TERA = 10**12
GIGA = 10**9


class Arithmetic(Enum):
    """The numbers that are multiplied."""

    FP8 = "FP8"
    FP16 = "float16"
    BF16 = "bfloat16"
    TF32 = "float32 operands rounded to TF32"
    FP32 = "float32"

    def __repr__(self) -> str:
        return f"Arithmetic.{self.name}"


@dataclass(frozen=True)
class Rate:
    """A peak in TFLOP/s, as printed: dense, and with 2:4 sparsity where there is such a figure."""

    dense: Fraction
    sparse: Fraction | None = None


@dataclass(frozen=True)
class Device:
    """An accelerator: its peaks, its memory, and where the figures are from.

    ``memory`` is the nominal gigabytes of its name, of which most drivers report 2 to 8 % more bytes than 10**9 each;
    ``bandwidth`` is in GB/s. ``source`` is the maker's document, ``read`` the public page where its figures were read.
    """

    name: str
    form: str
    capability: tuple[int, int]
    memory: int
    bandwidth: int
    rates: Mapping[Arithmetic, Rate]
    source: str
    read: str

    def __hash__(self) -> int:
        return hash((self.name, self.form))

    @property
    def bytes_per_second(self) -> int:
        """Peak memory bandwidth."""
        return self.bandwidth * GIGA

    def peak(self, arithmetic: Arithmetic, sparsity: Sparsity = Sparsity.DENSE) -> Peak | Unknown:
        """The stated rate; Unknown where the device has no such arithmetic or its maker states none."""
        rate = self.rates.get(arithmetic)
        figure = None if rate is None else rate.dense if sparsity is Sparsity.DENSE else rate.sparse
        if figure is None:
            return Unknown(self.name, f"no peak is stated for {arithmetic.value}, {sparsity.name.lower()}")
        return Peak(figure * TERA, sparsity)


@dataclass(frozen=True)
class Unknown:
    """A device, or a figure of one, that the table does not have; the reason says why."""

    name: str
    reason: str

    def peak(self, arithmetic: Arithmetic, sparsity: Sparsity = Sparsity.DENSE) -> Unknown:
        """Still unknown."""
        return self


def identify(name: str, total_bytes: int | None = None) -> Device | Unknown:
    """The device whose driver reports ``name``.

    With the bytes of memory that the driver reports, a part of a device is told from the whole.
    """
    device = BY_DRIVER_NAME.get(name)
    if device is None and " MIG " in f"{name} ":
        return Unknown(name, "a partition of a device has a part of its peaks, and the table has none of those")
    if device is None:
        return Unknown(name, "it is not in the table: add it with its source to reference/hardware.py")
    if total_bytes is not None and total_bytes < Fraction(9, 10) * device.memory * GIGA:
        return Unknown(
            name,
            f"it reports {total_bytes / GIGA:.1f} GB of the {device.memory} GB that the whole device has: a partition",
        )
    return device


# ── the table ──


def _rates(**figures: str) -> dict[Arithmetic, Rate]:
    """Rates from "dense/sparse" in TFLOP/s, or "dense" alone."""
    rates = {}
    for name, figure in figures.items():
        dense, _, sparse = figure.partition("/")
        rates[Arithmetic[name]] = Rate(Fraction(dense), Fraction(sparse) if sparse else None)
    return rates


_HOPPER_SXM = _rates(FP8="1978.9/3957.8", FP16="989.4/1978.9", BF16="989.4/1978.9", TF32="494.7/989.4", FP32="66.9")
_AMPERE = _rates(FP16="312/624", BF16="312/624", TF32="156/312", FP32="19.5")
_H100_PAGE = "NVIDIA H100 Tensor Core GPU, https://www.nvidia.com/en-us/data-center/h100/"
_A100_SHEET = (
    "NVIDIA A100 datasheet, https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/"
    "nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf"
)
_A100_READ = "https://glennklockwood.com/garden/processors/A100, https://www.thundercompute.com/blog/nvidia-a100-specs-full-guide"

H100_SXM = Device(
    "H100",
    "SXM",
    (9, 0),
    80,
    3350,
    _HOPPER_SXM,
    "NVIDIA H100 Tensor Core GPU architecture whitepaper; " + _H100_PAGE,
    "https://glennklockwood.com/garden/processors/h100",
)
H100_NVL = Device(
    "H100",
    "NVL",
    (9, 0),
    94,
    3900,
    # The datasheet has the figures with sparsity, of which the dense ones are halves.
    _rates(FP8="1670.5/3341", FP16="835.5/1671", BF16="835.5/1671", TF32="417.5/835", FP32="60"),
    "NVIDIA H100 NVL datasheet, https://www.pny.com/file%20library/company/support/product%20brochures/"
    "nvidia%20data%20center%20gpus/english/h100-nvl-datasheet.pdf; " + _H100_PAGE,
    "https://github.com/pytorch/torchtitan/blob/main/torchtitan/tools/utils.py (the dense 835 of bfloat16; the rest as"
    " others quote the datasheet)",
)
H100_PCIE = Device(
    "H100",
    "PCIe",
    (9, 0),
    80,
    2000,
    _rates(FP8="1513/3026", FP16="756.5/1513", BF16="756.5/1513", TF32="378/756", FP32="51"),
    "NVIDIA H100 datasheet; NVIDIA H100 PCIe product brief PB-11133-001",
    "https://archive-lib.hpctech.co.jp/gpuproduct/nvidia-h100.html",
)
H200 = Device(
    "H200",
    "SXM",
    (9, 0),
    141,
    4800,
    _HOPPER_SXM,
    "NVIDIA H200 Tensor Core GPU, https://www.nvidia.com/en-us/data-center/h200/",
    "https://aiwiki.ai/wiki/nvidia_h200/raw (the memory; the arithmetic is the H100's)",
)
B200 = Device(
    "B200",
    "SXM, 1,000 W",
    (10, 0),
    180,
    7700,
    # 80 TFLOP/s of float32 and 8 TB/s were announced at first; the datasheet since has less of both.
    _rates(FP8="4500/9000", FP16="2250/4500", BF16="2250/4500", TF32="1100/2200", FP32="75"),
    "NVIDIA Blackwell datasheet, HGX B200 (a single card; dense figures are half of those it prints)",
    "https://zdszero.github.io/Computer/Artificial_Intelligence/Hardware.html (the datasheet's table),"
    " https://glennklockwood.com/garden/processors/B200 (the dense figures)",
)
A100_SXM_40 = Device("A100", "SXM, 40 GB", (8, 0), 40, 1555, _AMPERE, _A100_SHEET, _A100_READ)
A100_SXM_80 = Device("A100", "SXM, 80 GB", (8, 0), 80, 2039, _AMPERE, _A100_SHEET, _A100_READ)
A100_PCIE_40 = Device("A100", "PCIe, 40 GB", (8, 0), 40, 1555, _AMPERE, _A100_SHEET, _A100_READ)
A100_PCIE_80 = Device("A100", "PCIe, 80 GB", (8, 0), 80, 1935, _AMPERE, _A100_SHEET, _A100_READ)
L4 = Device(
    "L4",
    "PCIe",
    (8, 9),
    24,
    300,
    _rates(FP8="242.5/485", FP16="121/242", BF16="121/242", TF32="60/120", FP32="30.3"),
    "NVIDIA L4 Tensor Core GPU, https://www.nvidia.com/en-us/data-center/l4/ (its figures are with sparsity)",
    "https://grokipedia.com/page/NVIDIA_L4_vs_L40S, https://store.sourcecode.com/en-us/bg-bucket-compare/125/9820",
)
L40S = Device(
    "L40S",
    "PCIe",
    (8, 9),
    48,
    864,
    _rates(FP8="733/1466", FP16="362.05/733", BF16="362.05/733", TF32="183/366", FP32="91.6"),
    "NVIDIA L40S datasheet, https://resources.nvidia.com/en-us-l40s/l40s-datasheet-28413",
    "https://www.mullet.se/product.html?product_id=355414",
)
RTX_4090 = Device(
    "GeForce RTX 4090",
    "PCIe",
    (8, 9),
    24,
    1008,
    _rates(FP8="330.3/660.6", FP16="165.2/330.3", BF16="165.2/330.3", TF32="82.6/165.2", FP32="82.6"),
    "NVIDIA Ada GPU architecture whitepaper, appendix A",
    "https://waredb.com/processor/nvidia-geforce-rtx-4090",
)
RTX_5090 = Device(
    "GeForce RTX 5090",
    "PCIe",
    (12, 0),
    32,
    1792,
    # Read were the dense 209.5 of 16 bits and float32. FP8 is twice and TF32 half of 16 bits, and sparse twice dense,
    # as on the RTX 4090, whose units are the same in this: of those figures no page was found that has them.
    _rates(FP8="419/838", FP16="209.5/419", BF16="209.5/419", TF32="104.8/209.5", FP32="104.8"),
    "NVIDIA RTX Blackwell GPU architecture whitepaper, appendix A",
    "https://github.com/karpathy/nanochat/blob/master/nanochat/common.py and https://www.codesota.com/hardware/rtx-5090"
    " (the dense 209.5); https://www.spheron.network/blog/nvidia-rtx-5090-specs/ (memory; 838.4 with sparsity"
    " accumulating in float16, four times that)",
)
MI300X = Device(
    "Instinct MI300X",
    "OAM",
    (9, 4),
    192,
    5300,
    # 304 compute units at 2.1 GHz, by 4096, 2048, 1024 and 256 operations a cycle.
    _rates(FP8="2614.9/5229.8", FP16="1307.4/2614.9", BF16="1307.4/2614.9", TF32="653.7/1307.4", FP32="163.4"),
    "AMD Instinct MI300X, https://www.amd.com/en/products/accelerators/instinct/mi300/mi300x.html",
    "https://raw.githubusercontent.com/alpharomercoma/MI300X-vs-H200/main/METHODOLOGY.md (FP8, bfloat16, memory; TF32"
    " and float32 follow by the operations a cycle)",
)

BY_DRIVER_NAME: dict[str, Device] = {
    "NVIDIA H100 80GB HBM3": H100_SXM,
    "NVIDIA H100 NVL": H100_NVL,
    "NVIDIA H100 PCIe": H100_PCIE,
    "NVIDIA H200": H200,
    "NVIDIA B200": B200,
    "NVIDIA A100-SXM4-40GB": A100_SXM_40,
    "NVIDIA A100-SXM4-80GB": A100_SXM_80,
    "NVIDIA A100-PCIE-40GB": A100_PCIE_40,
    "NVIDIA A100 80GB PCIe": A100_PCIE_80,
    "NVIDIA L4": L4,
    "NVIDIA L40S": L40S,
    "NVIDIA GeForce RTX 4090": RTX_4090,
    "NVIDIA GeForce RTX 5090": RTX_5090,
    "AMD Instinct MI300X": MI300X,
}
"""The whole devices of the table, by what torch.cuda.get_device_name() says of them."""
