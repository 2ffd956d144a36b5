"""What is timed is what it says, and what is written for a GPU runs: on a processor, with a card that is made up."""

from __future__ import annotations

import inspect
import math
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import CodeType, FrameType, SimpleNamespace
from typing import Any

import pytest
import torch

from properties import needs, process
from properties.claims import State, body
from properties.hygiene import Snapshot, precisions_kept
from properties.instruments import clock, devices, launches
from properties.instruments.clock import compare, seconds_of, share
from properties.instruments.flops import count_flops
from properties.judging import Judgement, judge
from properties.levels import Level
from properties.mutants.trial import arguments
from properties.needs import of_form
from properties.ratios import Answer, Band, Ratio
from properties.specification import Property, Specification
from properties.strategies import workloads
from properties.strategies.steps import Transpose
from properties.strategies.transformers import Attention
from properties.strategies.workloads import (
    Clone,
    CopyAndCompute,
    ElementwiseProduct,
    Host,
    Layers,
    Multiplication,
    OneBlock,
    Pair,
    Upload,
    ViewOperation,
    in_precision,
    normal_numbers,
    taking_turns,
)
from properties.tests.pretend_card import card
from reference.hardware import H100_SXM, Arithmetic, Unknown

ROOT = Path(__file__).parents[2]


# ── what is timed ──


@pytest.mark.parametrize("arithmetic", Arithmetic)
def test_numbers_are_normal_and_none_is_zero(arithmetic: Arithmetic) -> None:
    numbers = normal_numbers((400, 500), arithmetic, "cpu").float()
    assert abs(numbers.mean()) < 0.02
    assert abs(numbers.std() - 1) < 0.02
    assert (numbers == 0).float().mean() < 0.01
    assert torch.equal(numbers, normal_numbers((400, 500), arithmetic, "cpu").float())
    assert not torch.equal(numbers, normal_numbers((400, 500), arithmetic, "cpu", seed=1).float())


def test_inputs_take_turns_and_fill_the_caches() -> None:
    following = taking_turns(lambda seed: seed, nbytes=100, device="cpu", cold=450)
    assert [following() for _ in range(6)] == [0, 2, 4, 6, 8, 0]
    following = taking_turns(lambda seed: seed, nbytes=1000, device="cpu", cold=450)
    assert [following() for _ in range(3)] == [0, 2, 0]


@pytest.mark.parametrize("arithmetic", Arithmetic)
def test_a_multiplication_is_the_product_of_its_sizes(arithmetic: Arithmetic) -> None:
    work = Multiplication(16, 32, 48, arithmetic).work()
    operands = work.prepare()
    product: Any = work.run(operands)
    assert product.shape == (16, 48)
    expected = operands[0].float() @ operands[1].float()
    assert torch.allclose(product.float(), expected, atol=0.5)
    assert Multiplication(16, 32, 48).flops == 2 * 16 * 32 * 48
    assert Multiplication(16, 32, 48).doubled("inner") == Multiplication(16, 64, 48)


def test_a_release_without_the_public_product_of_fp8_has_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    operands = Multiplication(16, 32, 48, Arithmetic.FP8)._operands(0)
    public: Any = workloads.multiply_fp8(operands)
    monkeypatch.delattr(torch.nn.functional, "scaled_mm", raising=False)
    private: Any = workloads.multiply_fp8(operands)
    assert torch.equal(public, private)


@pytest.mark.parametrize(
    ("work", "flops"), [(Multiplication(8, 4, 2), 128), (ElementwiseProduct(100), 100), (Clone(100), 0)]
)
def test_work_takes_the_flops_that_it_says(work: Multiplication | ElementwiseProduct | Clone, flops: int) -> None:
    timed = work.work()
    with count_flops() as counted:
        timed.run(timed.prepare())
    assert counted.matrix + counted.elementwise == work.flops == flops


def test_elementwise_work_reads_two_and_writes_one() -> None:
    work = ElementwiseProduct(64, Arithmetic.BF16)
    left, right, out = work.work().prepare()
    assert work.nbytes == sum(each.untyped_storage().nbytes() for each in (left, right, out)) == 6 * 64
    work.work().run((left, right, out))
    assert torch.equal(out, left * right)


@pytest.mark.parametrize("input_gradient", [True, False])
def test_passes_take_the_flops_that_their_ratio_says(input_gradient: bool) -> None:
    layers = Layers(8, 4, 3, input_gradient)
    passes = layers.passes()
    assert flops_of(passes.backward()) == layers.ratio * flops_of(passes.forward())
    assert flops_of(passes.both()) == (1 + layers.ratio) * flops_of(passes.forward())


def flops_of(work: Any) -> int:
    """Matrix FLOPs of the part that is timed."""
    prepared = work.prepare()
    with count_flops() as counted:
        work.run(prepared)
    return counted.matrix + counted.recomputed.matrix


def test_a_composed_block_goes_back_with_twice_its_flops() -> None:
    block = OneBlock(2, 8, 16, 2, Attention.COMPOSED)
    passes = block.passes()
    assert flops_of(passes.backward()) == 2 * flops_of(passes.forward())
    assert block.ratio == 2
    assert (block.band.low, block.band.high) == pytest.approx((1.7, 2.3))


def test_a_fused_block_takes_half_of_attention_more() -> None:
    short, long = (OneBlock(1, context, 64, 4, Attention.FUSED) for context in (8, 4096))
    assert 2 < short.ratio < long.ratio < 2.5
    assert (long.band.low, long.band.high) == pytest.approx((long.ratio - 0.3, 2 * long.ratio - 1.7))
    assert short.passes().forward().run(None) is not None


def test_the_rule_of_a_pair_is_the_ratio_of_its_flops() -> None:
    pairs = workloads.pairs("cpu")
    assert [pair.rule for pair in pairs] == [1, 2, 1, 0]
    assert [pair.bound_by_arithmetic for pair in pairs] == [True, True, False, False]
    assert all(pair.band.low <= pair.rule <= pair.band.high for pair in pairs)
    assert isinstance(pairs[0], Pair)


def test_work_on_a_card_has_the_devices_clock_and_what_the_host_asks_for_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with card(monkeypatch):
        assert workloads.square("cuda").work().timer is clock.timer_of("cuda")
        assert Clone(100, "cuda").work().timer is clock.timer_of("cuda")
        view, copy = ViewOperation(Transpose(0, 1), 100, "cuda"), Clone(100, "cuda")
        assert view.work().timer is copy.awaited().timer is workloads.host_clock("cuda") is not clock.THREAD
        assert seconds_of(copy.awaited()) > 0
    assert Clone(100).awaited().timer is ViewOperation(Transpose(0, 1), 100).work().timer is clock.THREAD


def test_tf32_is_switched_where_float32_is_multiplied_on_a_card_and_nowhere_else() -> None:
    seen: list[bool] = []

    def look(_: Any) -> None:
        seen.append(torch.backends.cuda.matmul.allow_tf32)

    with precisions_kept():
        for arithmetic in (Arithmetic.TF32, Arithmetic.FP32):
            in_precision(arithmetic, "cuda", look)(None)
    assert seen == [True, False]
    assert in_precision(Arithmetic.TF32, "cpu", look) is in_precision(Arithmetic.BF16, "cuda", look) is look


@pytest.mark.parametrize(
    ("rule", "low", "high"), [(1.0, 0.8, 1.25), (2.0, 1.15, 2.7), (7.4, 2.96, 9.99), (14.8, 5.92, 19.98)]
)
def test_a_faster_arithmetic_is_faster_by_a_part_of_its_peak_at_least(rule: float, low: float, high: float) -> None:
    band = workloads.band_of_speeds(rule)
    assert (band.low, band.high) == pytest.approx((low, high))


def test_the_slower_arithmetic_may_be_said_to_stay_further_from_its_peak() -> None:
    band = workloads.band_of_speeds(2.0, above=1.8)
    assert (band.low, band.high) == pytest.approx((1.15, 3.6))


def test_a_copy_from_the_host_arrives_and_its_call_waits_for_an_idle_device(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[int] = []
    with card(monkeypatch):
        monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: waited.append(1))
        for memory in Host:
            for work in (Upload(4, memory).awaited(), Upload(4, memory).call()):
                pair = work.prepare()
                work.run(pair)
                assert torch.equal(*pair)
                assert pair[1].numel() == 2**10
        assert len(waited) == 6
        together, in_turn = CopyAndCompute(Upload(4, Host.PINNED)).works()
        for work in (together, in_turn):
            pair = work.prepare()
            pair[0].zero_()
            work.run(pair)
            assert torch.equal(*pair)


# ── the device at hand ──


def test_a_processor_has_no_peak_and_says_so() -> None:
    assert isinstance(devices.at_hand("cpu"), Unknown)
    with pytest.raises(pytest.skip.Exception, match=r"the peaks of .* are unknown: it is not in the table"):
        devices.peak("cpu", Arithmetic.FP32)


def test_a_card_is_known_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with card(monkeypatch):
        assert devices.known("cuda") is H100_SXM
        assert devices.peak("cuda", Arithmetic.BF16) == 9894 * 10**11
        assert devices.speedup("cuda", Arithmetic.FP8, Arithmetic.BF16) == pytest.approx(2.0, rel=1e-3)
        assert devices.has_matrix_units("cuda")


def test_a_card_whose_float16_is_not_far_ahead_is_no_judge_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    near = {arithmetic: replace(rate, dense=Fraction(2)) for arithmetic, rate in H100_SXM.rates.items()}
    monkeypatch.setattr(devices, "known", lambda device: replace(H100_SXM, rates=near))
    with pytest.raises(
        pytest.skip.Exception, match="needs a card with a float16 peak of 8 times float32's, not 1.0 times"
    ):
        devices.has_matrix_units("cuda")


@pytest.mark.parametrize(
    ("backend", "variables"),
    [
        ("cudaMallocAsync", {}),
        ("native", {"PYTORCH_ALLOC_CONF": "roundup_power2_divisions:4"}),
        ("native", {"PYTORCH_CUDA_ALLOC_CONF": "roundup_power2_divisions:4"}),
        ("native", {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}),
    ],
)
def test_an_allocator_with_other_blocks_is_a_reason(
    monkeypatch: pytest.MonkeyPatch, backend: str, variables: dict[str, str]
) -> None:
    with card(monkeypatch):
        devices.require_blocks()
        monkeypatch.setattr(torch.cuda, "get_allocator_backend", lambda: backend)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(pytest.skip.Exception, match="needs torch's own allocator for CUDA"):
            launches.taken(lambda: None)


def test_a_peak_that_nobody_states_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "known", lambda device: replace(H100_SXM, rates={}))
    with pytest.raises(pytest.skip.Exception, match="a peak of H100 is unknown: no peak is stated for FP8, dense"):
        devices.peak("cuda", Arithmetic.FP8)


@pytest.mark.parametrize(("arithmetic", "enough"), [(Arithmetic.FP8, (8, 9)), (Arithmetic.BF16, (8, 0))])
def test_a_card_that_is_too_old_is_a_reason(
    monkeypatch: pytest.MonkeyPatch, arithmetic: Arithmetic, enough: tuple[int, int]
) -> None:
    with card(monkeypatch, capability=enough):
        devices.require(arithmetic, "cuda")
    reason = f"needs compute capability {enough[0]}.{enough[1]} for {arithmetic.value}"
    with card(monkeypatch, capability=(7, 5)), pytest.raises(pytest.skip.Exception, match=reason):
        Multiplication(16, 16, 16, arithmetic, "cuda").work()
    devices.require(Arithmetic.BF16, "cpu")


def test_a_release_without_fp8_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch, "float8_e4m3fn")
    with pytest.raises(pytest.skip.Exception, match="needs a release of torch with FP8"):
        devices.require(Arithmetic.FP8, "cpu")


def test_a_card_that_is_too_full_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    with card(monkeypatch, free=3 * devices.MEBI):
        devices.require_room(3 * devices.MEBI, "cuda")
        for full in (
            Clone(10**6, "cuda"),
            ElementwiseProduct(2**20, device="cuda"),
            ViewOperation(Transpose(0, 1), 10**6, "cuda"),
        ):
            with pytest.raises(pytest.skip.Exception, match=r"needs \d+ MiB on the device, of which 3 MiB are free"):
                full.awaited() if isinstance(full, Clone) else full.work()
        for passes in (Layers(1000, 1000, 2, device="cuda"), OneBlock(8, 64, 64, 2, Attention.COMPOSED, device="cuda")):
            with pytest.raises(pytest.skip.Exception, match="MiB are free"):
                passes.passes()
    devices.require_room(2**60, "cpu")


def test_a_card_that_workers_share_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "present", lambda need: need == "cuda")
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "1")
    assert needs.missing(["cuda"]) is None
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "2")
    assert needs.missing([]) is None
    assert needs.missing(["cuda"]) == "needs a CUDA device to itself: run without -n"
    assert needs.missing(["cuda", "linux"]) == "needs Linux"


def test_memory_is_pinned_for_an_accelerator_but_mps(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not devices.pins_memory()
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    assert devices.pins_memory()
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("mps"))
    with pytest.raises(pytest.skip.Exception, match="when it is to pin memory for MPS differs by release"):
        devices.pins_memory()


def test_a_processor_with_matrix_units_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "processor_flags", lambda: frozenset({"avx512f"}))
    assert not devices.has_matrix_units("cpu")
    monkeypatch.setattr(devices, "processor_flags", lambda: frozenset({"amx_fp16", "amx_bf16"}))
    with pytest.raises(pytest.skip.Exception, match="has amx_fp16, and how fast torch is with it is not known"):
        devices.has_matrix_units("cpu")


def test_a_processors_flags_are_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = tmp_path / "cpuinfo"
    told.write_text("processor\t: 0\nflags\t\t: fpu avx2 amx_fp16\nFeatures\t: asimd sme\nbugs\t: sme_bug\n")
    monkeypatch.setattr(devices, "Path", lambda _: told)
    assert devices.processor_flags() == {"fpu", "avx2", "amx_fp16", "asimd", "sme"}
    monkeypatch.setattr(devices, "Path", lambda _: tmp_path / "absent")
    assert devices.processor_flags() == frozenset()


# ── what a card is seen to do ──


def test_what_a_card_launches_is_what_the_profiler_saw_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def event(name: str, kind: str) -> SimpleNamespace:
        return SimpleNamespace(name=name, device_type=SimpleNamespace(name=kind))

    @contextmanager
    def profile(activities: Sequence[Any]) -> Iterator[Any]:
        assert len(activities) == 2
        yield SimpleNamespace(events=lambda: [event("aten::clone", "CPU"), event("Memcpy DtoD", "CUDA")])

    done: list[int] = []
    with card(monkeypatch):
        monkeypatch.setattr(launches, "profile", profile)
        assert launches.launched(lambda: done.append(1)) == ["Memcpy DtoD"]
    assert len(done) == 2


def test_a_profiler_that_sees_nothing_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    with card(monkeypatch):
        launches.require_sight()
        monkeypatch.setattr(launches, "launched", lambda operation: [])
        with pytest.raises(pytest.skip.Exception, match="needs a driver that lets torch's profiler see"):
            launches.require_sight()


WATCHED_PROFILER = """
import torch
from properties.hygiene import Snapshot
from properties.instruments import launches

torch.cuda.synchronize = lambda: None
before = Snapshot()
assert launches.launched(lambda: torch.ones(1)) == []
print(before.restore())
"""


def test_the_profiler_leaves_nothing_behind_in_a_process_that_has_not_used_it() -> None:
    """torch imports its compiler's settings for it, and these set a variable of the environment."""
    told = subprocess.run([sys.executable, "-c", WATCHED_PROFILER], cwd=ROOT, capture_output=True, text=True)
    assert (told.returncode, told.stdout) == (0, "[]\n"), told.stderr


def test_what_an_operation_takes_is_its_highest_over_before(monkeypatch: pytest.MonkeyPatch) -> None:
    with card(monkeypatch):
        monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device=None: 500)
        monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device=None: 800)
        assert launches.taken(lambda: None) == 300


# ── every property for a GPU ──


@pytest.fixture(scope="module", autouse=True)
def prepared() -> None:
    process.prepare()


def for_a_gpu(found: Specification, chapters: tuple[str, ...]) -> Iterator[tuple[Property, dict[str, object]]]:
    """The properties, or forms of properties, that need a CUDA device."""
    for each in found.properties:
        for given in arguments(each):
            if "cuda" in of_form(each.note.needs, given) and each.node.startswith(chapters):
                yield each, given


def judged(each: Property, given: dict[str, object], found: Specification) -> Judgement:
    """A property for a GPU, judged at the quick level; it has to leave the process as it was."""
    before = Snapshot()
    judgement = judge(each.function, each.note, found.claim(each.note), level=Level.QUICK, seed=0, arguments=given)
    assert before.restore() == [], each.node
    return judgement


def inside(ratios: Sequence[float], band: Band) -> Ratio:
    """As if the machine were as predicted."""
    middle = band.low + 1 if math.isinf(band.high) else (band.low + band.high) / 2
    return Ratio(middle, middle, middle, len(ratios), band)


def lines(code: CodeType) -> set[int]:
    """Lines that a function can run."""
    return {line for _, _, line in code.co_lines() if line is not None and line > code.co_firstlineno} | {
        line for inner in code.co_consts if isinstance(inner, CodeType) for line in lines(inner)
    }


@contextmanager
def lines_run(code: CodeType, run: set[int]) -> Iterator[None]:
    """Note the lines of a function that are run within."""

    def watch(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != code.co_filename:
            return None
        run.add(frame.f_lineno)
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        yield
    finally:
        sys.settrace(before)


TIMED = (
    "spec/test_01_training",
    "spec/test_02_views",
    "spec/test_03",
    "spec/test_04",
    "spec/test_05_pl",
    "spec/test_05_tr",
    "spec/test_10_pinned",
)


def test_what_is_timed_on_a_gpu_runs_from_end_to_end(found: Specification, monkeypatch: pytest.MonkeyPatch) -> None:
    possible, ran = 0, 0
    monkeypatch.setattr(Ratio, "of", staticmethod(inside))
    timed = [(each, given) for each, given in for_a_gpu(found, TIMED) if not hasattr(each.function, "hypothesis")]
    assert len(timed) >= 25
    seen: dict[CodeType, set[int]] = {}
    for each, given in timed:
        if isinstance(block := given.get("block"), OneBlock):
            given = {**given, "block": replace(block, batch=1, context=8, width=16, heads=2)}
        code = inspect.unwrap(body(each.function)).__code__
        with monkeypatch.context() as patch, card(patch), lines_run(code, seen.setdefault(code, set())):
            judgement = judged(each, given, found)
        assert judgement.state is State.RAN, (each.node, given, judgement.reason, judgement.exception)
    for code, run in seen.items():
        within = lines(code)
        possible, ran = possible + len(within), ran + len(within & run)
    assert ran >= 0.95 * possible


FORMS = ("spec/test_01_number", "spec/test_02")


def test_every_form_for_a_gpu_of_formats_and_layouts_holds_where_the_card_is_a_processor(
    found: Specification, monkeypatch: pytest.MonkeyPatch
) -> None:
    forms = [(each, given) for each, given in for_a_gpu(found, FORMS) if "device" in given]
    forms = [(each, given) for each, given in forms if hasattr(each.function, "hypothesis") or "fp8" in each.node]
    assert len(forms) >= 30
    for each, given in forms:
        with monkeypatch.context() as patch, card(patch):
            judgement = judged(each, given, found)
        assert judgement.agrees, (each.node, judgement.reason, judgement.exception)


WITHOUT_CASES = (
    "spec/test_02_views.py::test_a_view_launches_no_kernel",
    "spec/test_10_training_memory.py::test_a_card_has",
)
OWN = ("spec/test_01_number", "spec/test_07", "spec/test_10_pinned", *WITHOUT_CASES)


def test_what_a_card_has_of_its_own_holds_for_one_that_is_made_up(
    found: Specification, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = [
        (each, given)
        for each, given in for_a_gpu(found, OWN)
        if "device" not in given and (hasattr(each.function, "hypothesis") or each.node.startswith(WITHOUT_CASES))
    ]
    assert len(own) >= 9
    for each, given in own:
        with monkeypatch.context() as patch, card(patch):
            judgement = judged(each, given, found)
        assert judgement.agrees, (each.node, judgement.reason, judgement.exception)


def test_a_made_up_card_times_as_a_real_one_would(monkeypatch: pytest.MonkeyPatch) -> None:
    with card(monkeypatch):
        product = workloads.square("cuda")
        twice = compare(product.doubled("rows").work(), product.work(), Band(1.0, 4.0))
        assert twice.pairs
        assert share(product.flops / 10**20, product.work(), Band(0, 1)).answer is Answer.INSIDE


def test_enough_of_what_needs_a_gpu_is_no_form_of_formats_and_layouts(found: Specification) -> None:
    nodes = [each.node for each, _ in for_a_gpu(found, ("spec/",))]
    assert len(nodes) >= 45
    assert sum(not node.startswith(FORMS) for node in nodes) >= 15
