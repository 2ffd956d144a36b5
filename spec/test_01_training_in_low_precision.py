"""Number formats, continued: what training keeps in tensors, and what a lower precision does to it."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from properties.claims import also, context, costly, holds, holds_when, needs
from properties.evidence import every, in_band, may_fail, when, within_band
from properties.instruments import devices
from properties.instruments.clock import compare
from properties.needs import on_each_device
from properties.ratios import Band
from properties.refusals import refused
from properties.strategies import networks, workloads
from properties.strategies.networks import Chain, Footprint, Mlp, Precision, Regression, Training
from reference.hardware import Arithmetic

# ── what is a tensor ──


@holds("formats.tensor.holds-everything")
@given(training=networks.trainings())
@example(training=Training(Mlp((3, 4, 2)), "AdamW", 5))
@example(training=Training(Mlp((3, 4, 2)), "LBFGS", 5))
def test_all_that_a_training_step_works_with_is_tensors(training):
    """Parameters, gradients, activations, optimizer state and almost anything else can be stored as tensors.

    After one step of any optimizer every parameter, gradient, saved activation and moment is a torch.Tensor.
    What is not: hyperparameters, and the counters of LBFGS, which are Python numbers, one each for all
    parameters.
    """
    left = training.step()
    assert left.activations
    assert all(isinstance(each, Tensor) for each in left.everything())
    assert not any(isinstance(each, Tensor) for each in left.hyperparameters)
    assert all(isinstance(value, (Tensor, int, float)) for _, value in left.state)


@also("formats.tensor.holds-everything")
@given(text=st.binary().map(lambda codes: codes.decode("latin-1")))
@example(text="almost")
def test_text_is_stored_as_codes_and_not_as_text(text):
    """Almost: a tensor holds numbers. Text is refused, its codes are not; a generator's state is bytes
    already.
    """
    assert refused(TypeError, torch.tensor, text)
    codes = torch.tensor(list(map(ord, text)), dtype=torch.int32)
    assert "".join(map(chr, codes.tolist())) == text
    assert torch.get_rng_state().dtype == torch.uint8


# ── float16 ──


@holds_when(
    "formats.fp16.trains-faster",
    "On hardware with matrix units for it and for matrix-dominated work: at least 4x for a large matmul on an H100 with"
    " TF32 off. On a CPU without such units it can be far slower (measured: a hundredth of the float32 rate).",
    environment=True,
)
@on_each_device
def test_training_in_float16_is_much_faster_where_there_are_units_for_it(device):
    """Training in float16 runs much faster than in float32.

    Both passes through large matrices take at most a quarter of the time, TF32 off, or the claim is outside its
    condition and they do not.
    """
    full, half = (workloads.smaller_layers(device, numbers) for numbers in (Arithmetic.FP32, Arithmetic.FP16))
    seen = compare(full.passes().both(), half.passes().both(), Band(4, math.inf))
    faster = in_band(seen, unit="times as fast as float32", where=half)
    assert faster == when(devices.has_matrix_units(device))


@also("formats.fp16.trains-faster")
@needs("cuda")
def test_training_in_float16_is_faster_than_with_tf32():
    """With TF32 on, float32 is multiplied on matrix units too, at half the rate by the peaks.

    It stays further from its peak: XLA's table of products on an H100 has bfloat16 at 2.4 to 3.1 times its speed.
    """
    tf32, half = (workloads.smaller_layers("cuda", numbers) for numbers in (Arithmetic.TF32, Arithmetic.FP16))
    rule = devices.speedup("cuda", Arithmetic.FP16, Arithmetic.TF32)
    seen = compare(tf32.passes().both(), half.passes().both(), workloads.band_of_speeds(rule, above=1.8))
    within_band(seen, rule=rule, unit="times as fast as TF32", where=half)


@holds("formats.fp16.gradients-vanish")
@given(chain=networks.vanishing_chains)
@example(chain=Chain(128, (14, 12)))
@example(chain=Chain(128, (14, 24, 24, 24, 24, 23)))
def test_a_gradient_below_float16_is_lost_and_kept_by_the_wider_ranges(chain):
    """Small gradients or activations can be flushed to zero during float16 training.

    Every factor of the loss is a number of float16, and the gradient, in [2**-133, 2**-25], is their product:
    zero in float16, exact in float32, and in bfloat16 within half an ulp, subnormals included.
    """
    gradient = chain.gradient()
    assert chain.backward(torch.float16) == 0
    assert chain.backward(torch.float32) == gradient
    seen = chain.backward(torch.bfloat16)
    assert seen != 0
    assert abs(seen - gradient) <= max(gradient / 256, 2**-134)


@also("formats.fp16.gradients-vanish")
@given(chain=networks.recoverable_chains)
@example(chain=Chain(128, (14, 12)))
@example(chain=Chain(128, (14, 24, 1)))
def test_scaling_the_loss_brings_a_lost_gradient_back(chain):
    """The loss times 2**15 gives a gradient that float16 holds: divided by 2**15 it is the lost one.

    From 2**-39 up it is not zero; from 2**-29 up it has all its digits, below at least to 2**-40, half of
    float16's smallest number over the scale.
    """
    gradient = chain.gradient()
    unscaled = chain.backward(torch.float16, scale=2.0**15) / 2**15
    assert chain.backward(torch.float16) == 0
    assert unscaled != 0
    assert abs(unscaled - gradient) <= (0 if gradient >= 2**-29 else Fraction(1, 2**40))


@holds("formats.fp16.flush-causes-instability")
def test_adam_breaks_where_its_epsilon_is_flushed():
    """That can make training numerically unstable, with exploding or vanishing gradients.

    Adam divides by the root of its second moment plus 1e-8. In float16 the 1e-8 is zero, and so is the second
    moment of any gradient up to about 0.0055: the smallest gradients, zero among them, turn the weight into
    NaN, the others send it to minus infinity. In float32 and bfloat16 the same steps stay finite.
    """
    gradients = torch.arange(0x7C00, dtype=torch.int16).view(torch.float16)
    exact = gradients.double()
    for name in ("Adam", "AdamW"):
        weights = networks.stepped(name, gradients)
        first_flushed, second_flushed = 0.1 * exact <= 2**-25, 0.001 * exact**2 <= 2**-25
        right = (weights.isfinite() != second_flushed) & (weights.isnan() == first_flushed)
        every(f"{name} from all float16 gradients, none negative", right, gradients, size=2**15 - 2**10)
        assert not weights.isposinf().any()
        assert networks.stepped(name, gradients.float()).isfinite().all()
        assert networks.stepped(name, gradients.bfloat16()).isfinite().all()


# ── bfloat16 ──


@holds_when(
    "formats.bf16.precision-matters-little",
    "bfloat16 does the arithmetic, float32 keeps the weights, and the loss stays well above what rounding the"
    " outputs to bfloat16 leaves, as noise in the targets makes it. Weights kept in bfloat16 stop moving once"
    " an update is below half an ulp (at exactly half, even significands stop; below a power of two the step"
    " down is half as large)",
)
@costly(cases=5, because="trains six small regressions for each case")
@given(noisy=networks.regressions())
@example(noisy=Regression(4, 32, 0.1))
def test_bfloat16_arithmetic_costs_little_loss(noisy):
    """The lost precision hardly matters in deep learning, where range counts more.

    Small regressions, with noise and without, are trained three ways; the loss is to end within 5 % of
    float32's. Outputs of about one are rounded by up to 2**-9, which is a mean square of 2**-20 or so: inside are
    losses from 2**-10 up.
    """
    for task in (noisy, noisy.noiseless()):
        full = task.train(Precision.FLOAT32)
        for precision in (Precision.MIXED, Precision.BFLOAT16):
            close = 0.95 * full <= task.train(precision) <= 1.05 * full
            if when(precision is Precision.MIXED and full >= 2**-10):
                assert close
            else:
                may_fail(close)


@also("formats.bf16.precision-matters-little")
def test_a_bfloat16_weight_stops_at_half_an_ulp():
    """A step of SGD leaves a weight where it is if, and only if, the update is below half the gap it points
    into.

    At exactly half an even significand stays. The gap below a power of two is half as wide as the one above.
    Over all weights from 2**-111 to 2**127 and updates of 1/8 to 5/8 of an ulp, up and down.
    """
    codes = torch.arange(0x0800, 0x7F00, dtype=torch.int16)[:, None]
    eighths = torch.tensor([1, 2, 3, 4, 5, -1, -2, -3, -4, -5])
    weights = codes.view(torch.bfloat16).expand(-1, 10).contiguous()
    eighth = torch.exp2((codes >> 7) - 137.0)
    moved = networks.stepped("SGD", (-eighths * eighth).bfloat16(), weights)
    half = torch.where((codes % 128 == 0) & (eighths < 0), 2, 4)
    stays = (eighths.abs() < half) | ((eighths.abs() == half) & (codes % 2 == 0))
    right = (moved == weights) == stays
    every("all weights and updates", right.flatten(), weights.flatten(), size=238 * 128 * 10)


@also("formats.bf16.precision-matters-little")
@given(training=networks.trainings(Precision.MIXED))
@example(training=Training(Mlp((3, 4, 2)), "AdamW", 5, Precision.MIXED))
def test_autocast_multiplies_in_bfloat16_and_keeps_float32(training):
    """Under autocast matrix products give bfloat16; parameters, gradients and optimizer state stay
    float32.
    """
    left = training.step()
    assert {each.dtype for each in left.outputs} == {torch.bfloat16}
    kept = [*left.parameters, *left.gradients, *left.moments()]
    assert {each.dtype for each in kept} == {torch.float32}


# ── the choice ──


@holds("formats.choice.low-precision-unstable")
@given(
    format=st.sampled_from(("bfloat16", "float8_e4m3fn", "float8_e5m2")),
    part=st.integers(1, 128),
    count=st.integers(1, 60),
)
@example(format="bfloat16", part=16, count=60)
@example(format="bfloat16", part=33, count=1)
def test_steps_up_to_half_an_ulp_are_lost_however_many_there_are(format, part, count):
    """Training in FP8 or bfloat16 can be unstable.

    A weight of 1 that grows by steps of up to half an ulp, of bfloat16 2**-8, stays 1 for ever; a longer step
    moves it. The same steps in float32 add up exactly. ``part`` is the step in 64ths of an ulp.
    """
    dtype = getattr(torch, format)
    step = part / 64 * torch.finfo(dtype).eps
    low, full = torch.ones((), dtype=dtype), torch.ones(())
    for _ in range(count):
        low = (low.float() + step).to(dtype)
        full = full + step
    assert full.item() == 1 + count * step
    assert (low.item() == 1) == (part <= 32)


@holds_when(
    "formats.choice.low-precision-faster",
    "Memory: when the tensors themselves are kept in it; autocast keeps float32 weights and adds 16-bit copies"
    " of them, so that with few rows it takes more. Speed: on matrix units, bf16 about 8x to 16x a TF32-off"
    " fp32 matmul on an H100, FP8 about 1.5x to 2x bf16",
)
@costly(cases=50, because="a case takes milliseconds")
@given(case=st.one_of(networks.halved_footprints(), networks.mixed_footprints()))
@example(case=Footprint(Mlp((8, 16, 16, 8)), 1, Precision.BFLOAT16))
@example(case=Footprint(Mlp((8, 16, 16, 8)), 1, Precision.MIXED))
def test_a_format_of_half_the_bits_halves_the_bytes_of_training(case):
    """Lower precision speeds training up and lowers memory.

    Parameters, gradients and everything saved for the backward pass take exactly half the bytes in bfloat16
    and float16. Under autocast they can take more than in float32.
    """
    full, low = case.in_float32().bytes(), case.bytes()
    if when(case.precision is not Precision.MIXED):
        assert 2 * low == full
    else:
        may_fail(low < full)


@also("formats.choice.low-precision-faster")
@needs("cuda")
@pytest.mark.parametrize(
    ("fast", "slow"),
    [
        (Arithmetic.BF16, Arithmetic.FP32),
        (Arithmetic.TF32, Arithmetic.FP32),
        (Arithmetic.FP16, Arithmetic.BF16),
        (Arithmetic.FP8, Arithmetic.BF16),
    ],
)
def test_a_large_product_is_faster_in_lower_precision_as_the_peaks_say(fast, slow):
    """The same large product in two precisions, by turns: faster by about the ratio of the stated peaks.

    Not all of it, since power holds the faster one back.
    """
    rule = devices.speedup("cuda", fast, slow)
    product = workloads.square("cuda", fast)
    seen = compare(workloads.square("cuda", slow).work(), product.work(), workloads.band_of_speeds(rule))
    within_band(seen, rule=rule, unit=f"times as fast as {slow.value}", where=product)


context(
    "formats.choice.bf16-preferred",
    "People prefer bfloat16 to float16.",
    source="the document, section 1",
)

context(
    "formats.choice.mixed-precision",
    "Mixed-precision training is the best strategy.",
    source="the document, section 1",
)
