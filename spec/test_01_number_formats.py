"""Number formats: what the elements of a tensor can hold, what room they take, and how numbers get into them."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from properties.claims import also, approximates, context, corrects, costly, holds, holds_when, needs, refuted
from properties.evidence import every, may_fail, observe, when
from properties.instruments.formats import (
    allocated_on_cuda,
    arriving,
    codes_of,
    default_dtype,
    dtype_of,
    every_code,
    format_of,
    fp8_overflow,
    from_codes,
    is_beyond,
    name_of,
    numbers_of,
    reach_of,
    readings_of,
    stops_at_float32,
    sweep_float32,
)
from properties.needs import on_each_device
from properties.refusals import refused
from properties.strategies.creation import (
    Made,
    Network,
    NumPyData,
    NumPyRoute,
    NumPyScalar,
    PythonData,
    Resized,
    Route,
    Stored,
    Viewed,
    checked_routes,
    float_creations,
    made,
    networks,
    numpy_data,
    other_creations,
    partial_storages,
    placeable_data,
    python_data,
    refused_data,
    routes,
    storages_of,
    unchecked_routes,
    whole_storages,
)
from properties.strategies.formats import (
    Pattern,
    Placement,
    beyond_the_range_of,
    bit_patterns,
    codes_at_field_ends,
    conversions,
    in_range_of,
    inner_codes,
    magnitudes_between,
    nans,
    near_codes,
    numbers,
    pattern_of,
    patterns,
    placements,
    signs,
    subnormals,
    torch_dtypes,
    whole_conversions,
)
from properties.strategies.layouts import Layout
from properties.strategies.steps import Expand, Select
from reference.dtypes import storage_bytes
from reference.floats import (
    BFLOAT16,
    FLOAT8_E4M3FN,
    FLOAT8_E5M2,
    FLOAT16,
    FLOAT32,
    FORMATS,
    FloatFormat,
    Overflow,
    Specials,
    first_codes,
    round_off_low_bits,
    same_value,
    same_values,
    worst_relative_error,
)
from reference.token_files import wrapped

# ── tensors of numbers ──


@refuted(
    "formats.tensor.floats-on-gpu",
    instead="A new tensor lives on the default device, the CPU unless told otherwise, and its dtype follows its"
    " data: integers and booleans stay integers and booleans.",
)
@given(data=python_data)
@example(data=PythonData((1,), depth=0))
@example(data=PythonData((0.5,)))
def test_a_tensor_holds_floats_on_the_gpu(data):
    """A tensor stores floating-point numbers on the GPU."""
    x = data.build()
    assert x.is_floating_point()
    assert x.is_cuda


@corrects("formats.tensor.floats-on-gpu")
@given(data=st.one_of(python_data, made, numpy_data))
@example(data=PythonData((True, 2)))
@example(data=Made("full of an integer", (3,)))
@example(data=NumPyScalar("float64"))
@example(data=NumPyData("float64", (2,), NumPyRoute.TENSOR))
@example(data=NumPyData("float64", (2,), NumPyRoute.AS_TENSOR))
@example(data=NumPyData("float64", (2,), NumPyRoute.ASARRAY))
@example(data=NumPyData("float64", (2,), NumPyRoute.FROM_NUMPY))
def test_a_new_tensor_takes_the_dtype_of_its_data(data):
    """A new tensor lies on the CPU and takes the dtype that its data have.

    Booleans stay booleans, Python integers become int64, Python floats the default dtype, complex numbers its complex
    counterpart; of mixed numbers the strongest decides. NumPy arrays and scalars keep their dtype, np.float64 too,
    although it is a Python float.
    """
    x = data.build()
    assert name_of(x.dtype) == data.dtype(default="float32")
    assert x.device == torch.device("cpu")


@corrects("formats.tensor.floats-on-gpu")
@given(data=placeable_data, device=st.sampled_from(["cpu", "meta"]))
def test_a_new_tensor_lies_on_the_default_device(data, device):
    """Where a new tensor lies is for the default device to say."""
    with torch.device(device):
        assert data.build().device.type == device


@corrects("formats.tensor.floats-on-gpu")
@given(data=refused_data)
@example(data=NumPyData(">f4"))
@example(data=NumPyData("longdouble"))
@example(data=NumPyScalar("uint64"))
def test_numbers_that_torch_has_no_dtype_for_are_refused(data):
    """Arrays in a foreign byte order, of long doubles, objects, strings, dates or records raise; none is converted.

    So does a scalar of uint64, although an array of them is taken.
    """
    assert refused((TypeError, ValueError), data.build)


@corrects("formats.tensor.floats-on-gpu")
@on_each_device
@given(conversion=in_range_of("int32", "int64", "int16", "int8", "uint8"), placement=placements)
@example(conversion=(torch.int32, 300.0), placement=Placement())
@example(conversion=(torch.int32, -1.9), placement=Placement((64,)))
@example(conversion=(torch.int64, 1.75), placement=Placement())
@example(conversion=(torch.int16, -1.75), placement=Placement())
@example(conversion=(torch.int8, 1.75), placement=Placement())
@example(conversion=(torch.uint8, 1.75), placement=Placement())
def test_an_integer_keeps_the_whole_part_of_a_float(conversion, placement, device):
    """A float that becomes an integer of its range is cut towards zero, wherever it stands."""
    dtype, value = conversion
    x = placement.of(torch.tensor([value], device=device))
    assert (x.to(dtype) == math.trunc(value)).all()
    methods = {torch.int64: x.long, torch.int32: x.int, torch.int16: x.short, torch.int8: x.char, torch.uint8: x.byte}
    assert (x.type(dtype) == math.trunc(value)).all() and (methods[dtype]() == math.trunc(value)).all()
    assert int(x.flatten()[0]) == math.trunc(value)


@corrects("formats.tensor.floats-on-gpu")
@on_each_device
@given(
    whole=st.one_of(st.integers(-300, 300), st.integers(-(2**63), 2**63 - 1)),
    dtype=st.sampled_from([torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64]),
    placement=placements,
)
@example(whole=300, dtype=torch.uint8, placement=Placement())
@example(whole=-1, dtype=torch.uint8, placement=Placement((64,)))
@example(whole=200, dtype=torch.int8, placement=Placement((64,)))
def test_an_integer_keeps_its_lowest_bits_in_a_narrower_type(whole, dtype, placement, device):
    """An integer that becomes a narrower one wraps around: 300 is 44 in uint8. As a boolean all but 0 is True."""
    x = placement.of(torch.tensor([whole], device=device))
    held = wrapped(whole, 8 * dtype.itemsize, dtype.is_signed)
    assert x.to(dtype).long().unique().tolist() == x.type(dtype).long().unique().tolist() == [held]
    assert (x.byte() == wrapped(whole, 8, False)).all() and (x.short() == wrapped(whole, 16, True)).all()
    assert (x.bool() == (whole != 0)).all()


@corrects("formats.tensor.floats-on-gpu")
@given(
    pattern=patterns("float16"), dtype=st.sampled_from([torch.int32, torch.int64, torch.uint8]), placement=placements
)
@example(pattern=pattern_of(math.nan, "float32"), dtype=torch.int32, placement=Placement((64,)))
@example(pattern=pattern_of(math.inf, "float32"), dtype=torch.int64, placement=Placement((64,)))
def test_an_integer_out_of_a_float_is_the_same_wherever_it_stands(pattern, dtype, placement):
    """What no integer can hold becomes one nobody should count on, but the same one alone and among others.

    That is true of these three dtypes. For uint32 it is not: there NaN and numbers out of range give one thing in short
    tensors and another in long ones. As a boolean NaN is True, like all but zero.
    """
    x = pattern.build()
    assert (placement.of(x).to(dtype) == x.to(dtype)).all()
    assert (placement.of(x).to(torch.bool) == (pattern.value != 0)).all()


@holds_when(
    "formats.fp32.is-default",
    "For floating-point factories and Python floats, while torch.get_default_dtype() is untouched. NumPy arrays"
    " and NumPy scalars keep float64 (np.float64 too, though it is a Python float); integers become int64, also in"
    " full(shape, 1); scalar_tensor(1) is a float.",
)
@given(
    case=st.one_of(
        st.tuples(float_creations, st.just("float32")),
        st.tuples(other_creations, st.just("float32")),
        st.tuples(float_creations, st.sampled_from(["float64", "bfloat16", "float16"])),
    )
)
@example(case=(Made("zeros", (2, 3)), "float32"))
@example(case=(Made("scalar_tensor of an integer", ()), "float32"))
@example(case=(NumPyData("float64"), "float32"))
@example(case=(Made("full of an integer", (2, 3)), "float32"))
@example(case=(PythonData((0.5,)), "float64"))
def test_float32_is_the_default(case):
    """float32 is the default storage format."""
    creation, default = case
    with default_dtype(dtype_of(default)):
        stored = name_of(creation.build().dtype)
    assert stored == creation.dtype(default)
    if when(creation.of_floats and default == "float32"):
        assert stored == "float32"
    else:
        may_fail(stored == "float32")


@holds("formats.fp32.fields")
@given(pattern=bit_patterns("float32"))
@example(pattern=Pattern("float32", 0x7F800001))
@example(pattern=Pattern("float32", 0x80000000))
@example(pattern=Pattern("float32", 1))
def test_a_float32_has_one_eight_and_23_bits(pattern):
    """float32 is 1 sign bit, 8 exponent bits and 23 mantissa bits, four bytes in all.

    A codec that knows nothing but these widths reads every pattern as torch and NumPy do, and what is stored keeps its
    pattern, the payload of a NaN included.
    """
    x = pattern.build()
    assert x.element_size() == x.untyped_storage().nbytes() == 4
    assert same_value(x.item(), FloatFormat(8, 23).decode(pattern.bits))
    assert same_value(float(x.numpy()[0]), FloatFormat(8, 23).decode(pattern.bits))
    assert x.clone().view(torch.int32).item() == int(np.uint32(pattern.bits).view(np.int32))


@also("formats.fp32.fields")
@on_each_device
def test_every_exponent_reads_as_the_codec_says(device):
    """Every sign and exponent, with the mantissas at either end and in the middle, is read as the widths say."""
    codes = codes_at_field_ends(FLOAT32)
    x = from_codes(codes, torch.float32, device)
    read = same_values(readings_of(x), FLOAT32.decode_array(codes)).all(axis=0) & (codes_of(x.clone()) == codes)
    every("2 signs, 256 exponents, 8 mantissas", read, codes, size=2 * 256 * 8)


@also("formats.fp32.fields")
@on_each_device
@given(pattern=st.one_of(nans(), numbers("bfloat16")), placement=placements)
@example(pattern=pattern_of(math.nan, "float32"), placement=Placement((2,)))
@example(pattern=pattern_of(-0.0, "float32"), placement=Placement((2,)))
def test_a_nan_equals_nothing_and_zeros_of_both_signs_are_equal(pattern, placement, device):
    """A tensor that holds a NaN does not equal its copy; every other does, and 0.0 equals -0.0."""
    x = placement.of(pattern.build().to(device))
    assert torch.equal(x, x.clone()) == x.equal(x.clone()) == bool((x == x).all()) == (not pattern.is_nan)
    assert torch.equal(x, -x) == x.equal(-x) == (pattern.value == 0)
    assert pattern.is_nan or (x.signbit() != (-x).signbit()).all()


@also("formats.fp32.fields")
@given(pattern=st.one_of(nans(), numbers("bfloat16")), placement=placements)
@example(pattern=pattern_of(math.nan, "float32"), placement=Placement((2,)))
def test_on_a_cpu_a_nan_does_not_equal_itself(pattern, placement):
    """Nor does a tensor that holds one equal a view of itself; every other does.

    On a GPU, by torch's source, torch.equal does not look where both are the same memory, and says that they are equal.
    """
    x = placement.of(pattern.build())
    assert torch.equal(x, x) == torch.equal(x, x.view(x.shape)) == x.equal(x) == (not pattern.is_nan)


@holds_when(
    "formats.fields.exponent-sets-range",
    "For IEEE-style encodings. One more exponent bit squares the largest finite value (times 2 / (2 - 2**-m)) and"
    " takes the smallest normal to its square over 4; one more mantissa bit halves eps and moves max by less than"
    " 2. Formats that give up infinities break it: widths (4, 3) reach 240 as IEEE, 448 as E4M3FN.",
)
@given(
    exponent_bits=st.integers(2, 10),
    mantissa_bits=st.integers(1, 30),
    specials=st.one_of(st.just(Specials.IEEE), st.sampled_from([Specials.FN, Specials.FNUZ, Specials.NONE])),
)
@example(exponent_bits=4, mantissa_bits=3, specials=Specials.IEEE)
@example(exponent_bits=4, mantissa_bits=3, specials=Specials.FN)
def test_the_exponent_sets_the_range_and_the_mantissa_the_precision(exponent_bits, mantissa_bits, specials):
    """The exponent width sets the range of a format; the mantissa width sets its precision."""
    form = FloatFormat(exponent_bits, mantissa_bits, specials)
    wider = FloatFormat(exponent_bits + 1, mantissa_bits, specials)
    finer = FloatFormat(exponent_bits, mantissa_bits + 1, specials)
    squares = wider.largest == form.largest**2 * 2 / (2 - form.eps)
    squares &= wider.smallest_normal == form.smallest_normal**2 / 4
    halves = finer.eps == form.eps / 2 and form.largest < finer.largest < 2 * form.largest
    assert (squares and halves) == when(specials is Specials.IEEE)


@also("formats.fields.exponent-sets-range")
@pytest.mark.parametrize("name", list(FORMATS))
def test_torch_formats_reach_as_far_and_as_finely_as_their_widths_say(name):
    """Each floating-point dtype stores numbers as far out and as finely as its widths say, and torch.finfo says so.

    torch.finfo calls the eps of float8_e5m2fnuz 0.125; what it stores is 0.25 apart, like all numbers with two mantissa
    bits.
    """
    dtype, form = dtype_of(name), FORMATS[name]
    assert (reach_of(dtype).largest, reach_of(dtype).eps) == (form.largest, form.eps)
    said = torch.finfo(dtype)
    assert (said.bits, said.max, said.min) == (form.bits, form.largest, -form.largest)
    assert said.smallest_normal == said.tiny == form.smallest_normal
    assert said.eps == form.eps or name == "float8_e5m2fnuz"


@also("formats.fields.exponent-sets-range")
@on_each_device
@given(conversion=whole_conversions("float16", "bfloat16", "float32", "float64"), placement=placements)
@example(conversion=(torch.float32, 2**24 + 1), placement=Placement())
@example(conversion=(torch.float32, 2**24 + 3), placement=Placement((64,)))
@example(conversion=(torch.float64, 2**53 + 1), placement=Placement())
@example(conversion=(torch.float16, 2049), placement=Placement())
@example(conversion=(torch.bfloat16, 259), placement=Placement((64,)))
def test_a_whole_number_is_exact_as_far_as_the_mantissa_reaches(conversion, placement, device):
    """m mantissa bits hold every integer up to 2**(m + 1): 2**24 in float32, 2048 in float16, 256 in bfloat16.

    A larger one becomes the nearest number, halfway the even one; on the way into 16 bits it is a float32 first.
    """
    dtype, whole = conversion
    form = format_of(dtype)
    x = placement.of(torch.tensor([whole], device=device))
    stored = x.to(dtype)
    methods = {torch.float16: x.half, torch.bfloat16: x.bfloat16, torch.float32: x.float, torch.float64: x.double}
    expected = form.encode(arriving(Fraction(whole), dtype, device))
    assert (codes_of(stored) == expected).all() and (codes_of(methods[dtype]()) == expected).all()
    assert abs(whole) > 2 ** (form.mantissa_bits + 1) or (stored == whole).all()


@holds_when(
    "formats.bytes.numel-times-itemsize",
    "For a tensor that covers every element of its storage exactly once. A slice has more storage behind it, an"
    " expanded tensor less, and so has a tensor after resize_; packed quantised types break it.",
)
@given(case=st.one_of(whole_storages, partial_storages))
@example(case=Stored(torch.float32, (4, 8)))
@example(case=Stored(torch.float8_e4m3fn, (2**16, 2**16), "meta"))
@example(case=Viewed(Layout((4, 8), (Select(0, 1),))))
@example(case=Viewed(Layout((4, 1), (Expand((4, 8)),))))
@example(case=Resized(9, 4))
def test_bytes_are_elements_times_itemsize(case):
    """A tensor takes its number of elements times the bytes of one element."""
    x = case.build()
    assert x.nbytes == x.numel() * x.itemsize == x.numel() * x.element_size()
    assert x.untyped_storage().nbytes() == case.nbytes
    equal = x.untyped_storage().nbytes() == x.numel() * x.itemsize
    if when(case.covers_storage_once):
        assert equal
    else:
        may_fail(equal)


@also("formats.bytes.numel-times-itemsize")
def test_every_dtype_takes_the_bytes_of_the_table():
    """A new tensor of any dtype and shape takes the bytes that the reference table gives for it.

    quint4x2 and quint2x4 put two and four elements into a byte and fill up the last byte of each row.
    """
    shapes = [(), (0,), (1,), (7,), (2, 3), (3, 2), (5, 0), (2, 3, 5)]
    cases = [Stored(dtype, shape) for shape in shapes for dtype in torch_dtypes()]
    taken = [case.build().untyped_storage().nbytes() for case in cases]
    due = [storage_bytes(name_of(case.dtype), case.shape) for case in cases]
    dtypes = {each for each in vars(torch).values() if isinstance(each, torch.dtype)}
    every("every dtype and eight shapes", np.equal(taken, due), cases, size=len(dtypes) * len(shapes))


@holds("formats.bytes.zeros-4x8")
def test_zeros_of_4_by_8_take_128_bytes():
    """torch.zeros(4, 8) in float32 takes 128 bytes."""
    x = torch.zeros(4, 8, dtype=torch.float32)
    assert x.numel() * x.element_size() == x.nbytes == x.untyped_storage().nbytes() == 128


context(
    "formats.fp32.names",
    "float32 is also called FP32, single precision, and in deep learning full precision.",
    source="the document, section 1",
)

context(
    "formats.fp32.sufficient",
    "float32 has enough range and precision for most deep learning, at the price of memory.",
    source="the document, section 1",
)

# ── float16 ──

context("formats.fp16.names", "float16 is called half precision.", source="the document, section 1")


@holds("formats.fp16.halves-memory")
@given(case=storages_of(torch.float32))
def test_a_float16_takes_two_bytes(case):
    """float16 takes two bytes an element, half of float32."""
    wide = case.build()
    half = wide.half()
    assert (wide.itemsize, half.itemsize) == (4, 2)
    assert wide.untyped_storage().nbytes() == 2 * half.untyped_storage().nbytes() == 4 * wide.numel()


@also("formats.fp16.halves-memory")
@given(network=networks)
@example(network=Network((3, 2)))
def test_half_a_network_takes_half_the_bytes(network):
    """half() halves the bytes of every floating-point parameter and buffer; a count of batches stays an int64."""
    wide, half = network.build().state_dict(), network.build().half().state_dict()
    for name, x in wide.items():
        shrinks = 2 if x.is_floating_point() else 1
        assert x.untyped_storage().nbytes() == shrinks * half[name].untyped_storage().nbytes()
    assert {name for name, x in half.items() if x.dtype != torch.float16} == network.counters


@also("formats.fp16.halves-memory")
@needs("cuda")
@costly(cases=32, because="waits for the device in every case")
@given(blocks=st.integers(1, 512))
def test_float16_takes_half_the_memory_of_a_gpu(blocks):
    """On a GPU the allocator hands out half as much for float16, in blocks of 512 bytes."""
    before = allocated_on_cuda()
    wide = torch.zeros(256 * blocks, device="cuda")
    with_wide = allocated_on_cuda()
    half = wide.half()
    with_half = allocated_on_cuda()
    assert with_wide - before == 2 * (with_half - with_wide) == 4 * wide.numel() == 4 * half.numel()


@refuted(
    "formats.fp16.every-field-halves",
    instead="float16 has 5 exponent bits and 10 mantissa bits; half of 8 and 23 would be 4 and 11.5. Only the total"
    " width halves.",
)
def test_float16_halves_every_field():
    """float16 keeps the sign bit and halves the exponent and the mantissa of float32.

    Not even with half of 23 taken as 11.
    """
    wide, half = (reach_of(dtype).widths for dtype in (torch.float32, torch.float16))
    assert half == (wide[0] / 2, wide[1] // 2)


@corrects("formats.fp16.every-field-halves")
def test_float16_has_five_and_ten_bits():
    """float16 has 5 exponent bits and 10 mantissa bits where float32 has 8 and 23.

    The widths follow from what the formats can store: the largest finite number and the distance from 1 to the next.
    Either has a sign, so only the whole width halves: 16 of 32.
    """
    assert reach_of(torch.float32).widths == (8, 23)
    assert reach_of(torch.float16).widths == (5, 10)
    assert all(torch.tensor([-1.0, -0.0], dtype=dtype).signbit().all() for dtype in (torch.float32, torch.float16))


@holds("formats.fp16.flushes-1e-8")
@given(magnitude=magnitudes_between(0, 2**-25), sign=signs, route=routes)
@example(magnitude=1e-8, sign=1, route=Route.TENSOR)
@example(magnitude=2.0**-25, sign=-1, route=Route.TO)
def test_float16_flushes_1e_8(magnitude, sign, route):
    """1e-8 stored as float16 is exactly zero.

    So is every magnitude up to 2**-25, by whatever route it comes. The sign stays.
    """
    stored = route.store(sign * magnitude, torch.float16)
    assert stored == 0
    assert stored.signbit() == (sign < 0)


@also("formats.fp16.flushes-1e-8")
@on_each_device
@given(magnitude=magnitudes_between(0, 2**-25, "float32"), sign=signs, placement=placements)
@example(magnitude=2.0**-25, sign=1, placement=Placement((64,)))
def test_float16_flushes_float32_tensors_of_every_layout(magnitude, sign, placement, device):
    """A float32 up to 2**-25 becomes zero alone and among others, strided and expanded."""
    x = placement.of(torch.tensor([sign * magnitude], device=device))
    assert (x.half() == 0).all()


@holds_when(
    "formats.fp16.flush-reason",
    "Only at or below half of the smallest subnormal, 2**-25, once rounded to float32: magnitudes in (2**-25,"
    " 2**-24) are below the smallest too, yet round up to it. A float64 just above 2**-25 becomes 2**-25 on the way"
    " and is flushed, except on ARM processors, which go no such way.",
)
@given(magnitude=st.one_of(magnitudes_between(0, 2**-25), magnitudes_between(2**-25 + 2**-48, 2**-24)), route=routes)
@example(magnitude=1e-8, route=Route.TENSOR)
@example(magnitude=2**-25 + 2**-60, route=Route.TO)
@example(magnitude=1.5 * 2**-25, route=Route.TENSOR)
@example(magnitude=2**-25 + 2**-48, route=Route.TO)
def test_what_is_below_the_smallest_float16_becomes_zero(magnitude, route):
    """It becomes zero because it is below the smallest positive float16."""
    stored = route.store(magnitude, torch.float16).item()
    assert (stored == 0) == when(arriving(magnitude, torch.float16) <= FLOAT16.smallest_subnormal / 2)
    assert stored in (0, FLOAT16.smallest_subnormal)


@also("formats.fp16.flush-reason")
@on_each_device
def test_every_float16_starts_at_the_float32_that_rounding_says(device):
    """Between every two neighbouring float16s the change comes at their midpoint, which goes to the even one.

    The last two float32s that round down and the first two that round up, of both signs, for all 31,744 places.
    """
    starts = first_codes(FLOAT16, FLOAT32)[1:]
    around = np.concatenate([starts, starts - 1, starts + 1, starts - 2]).astype(np.uint32)
    codes = np.concatenate([around, around | np.uint32(FLOAT32.sign_code)])
    x = from_codes(codes, torch.float32, device)
    agrees = codes_of(x.half()) == FLOAT16.encode_array(FLOAT32.decode_array(codes))
    every("four float32s around every float16 midpoint", agrees, codes, size=2 * 4 * (FLOAT16.infinity_code))


@also("formats.fp16.flush-reason")
@costly(cases=1, because="converts all 2**32 float32 patterns", lowest="exhaustive")
def test_all_float32_patterns_become_the_float16_that_rounding_says():
    """Every one of the 2**32 float32 patterns rounds to float16 as the codec says."""
    swept = sweep_float32(torch.float16)
    every("all float32 patterns, by upper half", swept.as_expected, swept.upper_halves, size=2**16)


# ── bfloat16 ──


@holds("formats.bf16.avoids-over-and-underflow")
@on_each_device
@given(
    magnitude=st.one_of(
        magnitudes_between(65520, BFLOAT16.largest, "float32"),
        magnitudes_between(2**-134 + 2**-149, 2**-25, "float32"),
    ),
    sign=signs,
)
@example(magnitude=65520.0, sign=1)
@example(magnitude=2.0**-25, sign=-1)
def test_bfloat16_holds_what_float16_cannot(magnitude, sign, device):
    """bfloat16 largely avoids the over- and underflow that float16's narrow range causes.

    A float32 from 65520 up is infinite in float16 and one of up to 2**-25 is zero there; in bfloat16 and float32 both
    are neither.
    """
    x = torch.tensor([sign * magnitude], device=device)
    assert x.half().item() == sign * (math.inf if magnitude > 1 else 0)
    assert all(0 < abs(x.to(dtype).item()) < math.inf for dtype in (torch.bfloat16, torch.float32))


@also("formats.bf16.avoids-over-and-underflow")
@given(magnitude=magnitudes_between(65472, 65552), sign=signs, route=unchecked_routes)
@example(magnitude=65519.99, sign=1, route=Route.TENSOR)
@example(magnitude=65520.0, sign=1, route=Route.TO)
@example(magnitude=65520 - 2.0**-30, sign=-1, route=Route.TO)
def test_float16_overflows_from_65520(magnitude, sign, route):
    """What is 65520 or more in float32 becomes infinite in float16, everything below at most 65504.

    A float64 just below 65520 is rounded to it on the way, where it is a float32 first, and overflows.
    """
    stored = abs(route.store(sign * magnitude, torch.float16).item())
    assert stored == math.inf if arriving(magnitude, torch.float16) >= 65520 else stored <= 65504


@also("formats.bf16.avoids-over-and-underflow")
@given(
    magnitude=st.one_of(magnitudes_between(FLOAT32.largest / 2, 2**129), st.just(math.inf)),
    sign=signs,
    route=checked_routes,
)
@example(magnitude=1e39, sign=1, route=Route.FULL)
@example(magnitude=float(FLOAT32.largest), sign=1, route=Route.FILL)
@example(magnitude=math.nextafter(float(FLOAT32.largest), math.inf), sign=-1, route=Route.ITEM_ASSIGNMENT)
@example(magnitude=math.inf, sign=1, route=Route.FULL)
def test_some_routes_into_float32_refuse_what_it_cannot_hold(magnitude, sign, route):
    """full, fill_ and item assignment raise for a finite number beyond the largest float32; torch.tensor does not.

    It rounds: what is less than half a unit beyond becomes the largest float32, and only the rest becomes infinite. The
    checked routes refuse the former too, and let an infinity through.
    """
    value, largest = sign * magnitude, FLOAT32.largest
    refuses = refused(RuntimeError, route.store, value, torch.float32)
    assert refuses == (magnitude > largest and math.isfinite(magnitude))
    assert torch.tensor([value]).isinf() == (magnitude >= FLOAT32.overflow_limit)


@holds("formats.fp32.survives-1e-8")
@given(magnitude=magnitudes_between(2**-149, FLOAT32.largest), sign=signs, route=routes)
@example(magnitude=1e-8, sign=1, route=Route.TENSOR)
@example(magnitude=2.0**-149, sign=-1, route=Route.TO)
def test_float32_keeps_1e_8(magnitude, sign, route):
    """float32 has more exponent bits and does not underflow at that magnitude.

    1e-8, like every magnitude from 2**-149 up, is not zero, and off by half a unit in the last place at most.
    """
    stored = route.store(sign * magnitude, torch.float32).item()
    assert stored != 0
    assert abs(Fraction(stored) - Fraction(sign * magnitude)) <= FLOAT32.ulp(magnitude) / 2


@also("formats.fp32.survives-1e-8")
@on_each_device
@given(pattern=subnormals("float32"), placement=placements)
@example(pattern=Pattern("float32", 1), placement=Placement((64,)))
def test_float32_computes_with_subnormals(pattern, placement, device):
    """A float32 below 2**-126 is not zero in arithmetic either, unless torch.set_flush_denormal says so."""
    x = placement.of(pattern.build().to(device))
    assert (x * 1 == pattern.value).all()
    assert (x != 0).all()
    assert (x + x == 2 * pattern.value).all()


context(
    "formats.bf16.origin",
    "bfloat16 came from Google Brain in 2018 and is also abbreviated bfp16.",
    source="the document, section 1",
    instead="The usual abbreviation is bf16; hardware with it shipped before 2018 (TPU v2, 2017).",
)


@holds("formats.bf16.two-bytes")
@given(case=storages_of(torch.float32))
def test_a_bfloat16_takes_two_bytes(case):
    """bfloat16 takes the same two bytes as float16."""
    wide = case.build()
    half, brain = wide.half(), wide.bfloat16()
    assert half.itemsize == brain.itemsize == 2
    assert half.untyped_storage().nbytes() == brain.untyped_storage().nbytes() == 2 * wide.numel()


@also("formats.bf16.two-bytes")
@given(network=networks)
@example(network=Network((3, 2)))
def test_a_network_takes_the_same_bytes_in_both_16_bit_formats(network):
    """Every parameter and buffer of a network takes the same bytes in bfloat16 as in float16."""
    half, brain = network.build().half().state_dict(), network.build().bfloat16().state_dict()
    for name, x in half.items():
        assert x.untyped_storage().nbytes() == brain[name].untyped_storage().nbytes()
        assert brain[name].dtype == (torch.int64 if name in network.counters else torch.bfloat16)


@holds("formats.bf16.three-bits-moved")
@on_each_device
@pytest.mark.parametrize(("name", "exponent_bits", "mantissa_bits"), [("float16", 5, 10), ("bfloat16", 5 + 3, 10 - 3)])
def test_bfloat16_moves_three_bits(name, exponent_bits, mantissa_bits, device):
    """bfloat16 moves three of float16's mantissa bits to the exponent.

    All 65,536 patterns of either are read as a format of these widths: 1/5/10 and 1/8/7.
    """
    codes, form = FORMATS[name].all_codes(), FloatFormat(exponent_bits, mantissa_bits)
    agree = same_values(readings_of(every_code(dtype_of(name), device)), form.decode_array(codes)).all(axis=0)
    every(f"all 65,536 patterns of {name}", agree, codes, size=2**16)


@also("formats.bf16.three-bits-moved")
def test_both_16_bit_formats_show_their_widths():
    """The largest finite number and the eps of the two, found by storing, differ as three moved bits make them."""
    exponent_bits, mantissa_bits = reach_of(torch.float16).widths
    assert reach_of(torch.bfloat16).widths == (exponent_bits + 3, mantissa_bits - 3)


@also("formats.bf16.three-bits-moved")
@on_each_device
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_a_16_bit_number_survives_the_way_through_float32(name, device):
    """All 65,536 patterns of either come back from float32 unchanged, a NaN as some NaN."""
    x = every_code(dtype_of(name), device)
    back = x.float().to(x.dtype)
    unchanged = (codes_of(back) == codes_of(x)) | (np.isnan(numbers_of(back)) & np.isnan(numbers_of(x)))
    every(f"all 65,536 patterns of {name}, there and back", unchanged, codes_of(x), size=2**16)


@approximates(
    "formats.bf16.range-of-fp32",
    "The same smallest normal number exactly; largest finite value within 0.4 %; the smallest subnormal is 2**-133"
    " against 2**-149.",
)
def test_bfloat16_reaches_about_as_far_as_float32():
    """bfloat16 has about the dynamic range of float32.

    Its largest number is missing the lowest 16 of 24 ones: less than 2**-8 of float32's largest.
    """
    brain, wide = reach_of(torch.bfloat16), reach_of(torch.float32)
    observe(rule=brain.largest, exact=wide.largest, bound=Fraction(1, 2**8), label="largest finite number")
    observe(rule=brain.smallest_normal, exact=wide.smallest_normal, bound=0, label="smallest normal number")
    observe(rule=brain.smallest, exact=wide.smallest, label="smallest number above zero")
    assert (brain.largest, wide.largest) == (BFLOAT16.largest, FLOAT32.largest)
    assert (brain.smallest, wide.smallest) == (Fraction(1, 2**133), Fraction(1, 2**149))


@also("formats.bf16.range-of-fp32")
@on_each_device
@given(pattern=near_codes("bfloat16"), placement=placements)
@example(pattern=Pattern("float32", 0x7F7F7FFF), placement=Placement())
@example(pattern=Pattern("float32", 0x7F7F8000), placement=Placement((64,)))
def test_finite_float32s_are_finite_in_bfloat16_up_to_the_last_half_unit(pattern, placement, device):
    """A finite float32 stays finite, except in the last half unit below infinity."""
    stored = placement.of(pattern.build().to(device)).bfloat16()
    assert (stored.isfinite() == (abs(pattern.value) < BFLOAT16.overflow_limit)).all()


@holds_when(
    "formats.bf16.is-truncated-fp32",
    "For every number and infinity; a NaN's payload and sign are not kept (on x86, 0x7f800001 becomes 0xffff).",
)
@on_each_device
@given(pattern=st.one_of(numbers("bfloat16"), nans()), placement=placements)
@example(pattern=Pattern("float32", 0x3F808000), placement=Placement())
@example(pattern=Pattern("float32", 0x3F818000), placement=Placement((64,)))
@example(pattern=Pattern("float32", 0x7F800000), placement=Placement())
@example(pattern=Pattern("float32", 0x7F800001), placement=Placement((64,)))
def test_bfloat16_is_the_upper_half_of_float32(pattern, placement, device):
    """A bfloat16 is the upper half of a float32, so conversion is rounding off 16 bits.

    To nearest, ties to even, in integers. Widening puts 16 zeros back.
    """
    stored = placement.of(pattern.build().to(device)).bfloat16()
    rounded = codes_of(stored) == round_off_low_bits(np.uint32([pattern.bits]), dropped=16)
    if when(not pattern.is_nan):
        assert rounded.all()
        assert (codes_of(stored.float()) == codes_of(stored).astype(np.uint32) << np.uint32(16)).all()
    else:
        assert stored.isnan().all()
        may_fail(rounded.all())


@also("formats.bf16.is-truncated-fp32")
@on_each_device
@given(whole=st.integers(-(2**20), 2**20), placement=placements)
@example(whole=2, placement=Placement((64,)))
@example(whole=-1, placement=Placement())
def test_torch_rounds_halves_to_the_even_whole_number_too(whole, placement, device):
    """torch.round, like every conversion, takes a half to the even neighbour, with digits before the point too.

    Of two neighbouring whole numbers, and of two neighbouring tens; -0.5 becomes -0.0.
    """
    half, five = (placement.of(torch.tensor([tie], device=device)) for tie in (whole + 0.5, 10.0 * whole + 5))
    even = whole + whole % 2
    assert (torch.round(half) == even).all() and (half.round() == even).all()
    assert (torch.round(five, decimals=-1) == 10 * even).all()
    assert (torch.round(half).signbit() == (whole < 0)).all()


@also("formats.bf16.is-truncated-fp32")
@costly(cases=1, because="converts all 2**32 float32 patterns", lowest="exhaustive")
def test_all_float32_patterns_become_their_rounded_upper_half():
    """Every one of the 2**32 float32 patterns becomes its upper half, rounded; a NaN becomes some NaN."""
    swept = sweep_float32(torch.bfloat16)
    every("all float32 patterns, by upper half", swept.as_expected, swept.upper_halves, size=2**16)


@holds("formats.bf16.loses-precision")
@on_each_device
@given(conversion=conversions("float16", "bfloat16", source="float32", numbers=inner_codes), placement=placements)
@example(conversion=(torch.bfloat16, pattern_of(1 + 2.0**-8, "float32")), placement=Placement())
@example(conversion=(torch.float16, pattern_of(1 + 2.0**-11, "float32")), placement=Placement((64,)))
def test_a_rounding_error_is_half_a_unit_at_most(conversion, placement, device):
    """The range is paid for with precision.

    A rounding error is at most half a unit in the last place: 2**-8 of the binade in bfloat16, 2**-11 in float16. So
    for normal numbers it is at most u / (1 + u) of the number: 1/257 and 1/2049.
    """
    dtype, pattern = conversion
    form, exact = format_of(dtype), Fraction(pattern.exact)
    stored = placement.of(pattern.build().to(device)).to(dtype).double().unique().item()
    error = abs(Fraction(stored) - exact)
    assert error <= form.ulp(exact) / 2
    assert error <= worst_relative_error(form.half_ulp) * abs(exact) or abs(exact) < form.smallest_normal


@also("formats.bf16.loses-precision")
@on_each_device
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_the_worst_error_is_made_just_above_a_power_of_two(name, device):
    """The largest relative error, u / (1 + u), is made at (1 + u) times each power of two, and nowhere else.

    Seen at all midpoints between normal numbers and at the float32s beside them.
    """
    form, first_normal = FORMATS[name], 1 << FORMATS[name].mantissa_bits
    codes = np.arange(first_normal, form.largest_code, dtype=np.uint64)
    ties = ((form.magnitude_array(codes) + form.magnitude_array(codes + 1)) / 2).astype(np.float32)
    x = np.stack([ties, np.nextafter(ties, np.float32(0)), np.nextafter(ties, np.float32(math.inf))])
    errors = np.abs(numbers_of(torch.from_numpy(x).to(device).to(dtype_of(name))) - x)
    scaled = errors * (1 / float(form.half_ulp) + 1)
    is_worst = (codes % first_normal == 0) * np.array([[True], [False], [False]])
    normals = form.largest_code - first_normal
    every(
        f"midpoints of normal {name}s and their neighbours",
        ((scaled <= x) & ((scaled == x) == is_worst)).ravel(),
        x.ravel(),
        size=3 * normals,
    )


@also("formats.bf16.loses-precision")
def test_bfloat16_reaches_farther_and_is_coarser_than_float16():
    """The format of the two that reaches farther is the coarser one, by eight times."""
    half, brain = reach_of(torch.float16), reach_of(torch.bfloat16)
    assert brain.largest > half.largest**7
    assert brain.eps == 8 * half.eps == Fraction(1, 128)


@holds("formats.bf16.keeps-1e-8")
@given(magnitude=magnitudes_between(2**-134 + 2**-149, BFLOAT16.largest), sign=signs, route=routes)
@example(magnitude=1e-8, sign=1, route=Route.TENSOR)
@example(magnitude=2**-134 + 2**-149, sign=-1, route=Route.TO)
def test_bfloat16_keeps_1e_8(magnitude, sign, route):
    """1e-8 stored as bfloat16 is not zero. (The document's code line asks for float16 here.)

    Nor is any float32 above 2**-134. It is off by half a unit in the last place at most: 2**-134 among the subnormals.
    The error is that of the float32 which a Python float becomes first.
    """
    stored = route.store(sign * magnitude, torch.bfloat16).item()
    in_float32 = FLOAT32.decode(FLOAT32.encode(magnitude))
    assert stored != 0
    assert abs(Fraction(stored) - sign * in_float32) <= BFLOAT16.ulp(in_float32) / 2


@also("formats.bf16.keeps-1e-8")
@given(magnitude=magnitudes_between(2**-135, 2**-133), route=routes)
@example(magnitude=2.0**-134, route=Route.TENSOR)
@example(magnitude=2**-134 + 2**-150, route=Route.TO)
def test_bfloat16_flushes_up_to_two_to_the_minus_134(magnitude, route):
    """What is 2**-134 or less in float32 becomes zero in bfloat16, and nothing else does.

    A float64 just above is rounded to it on the way: up to 2**-134 + 2**-150 it is flushed as well.
    """
    stored = route.store(magnitude, torch.bfloat16)
    assert (stored == 0) == (magnitude <= 2**-134 + 2**-150)


@refuted(
    "formats.bf16.keeps-1e-8-code",
    instead="With dtype=torch.bfloat16 it passes; as printed the value is zero.",
)
def test_the_printed_line_keeps_1e_8():
    """The code line as printed, with dtype=torch.float16, passes its assertion that the value is not zero."""
    x = torch.tensor([1e-8], dtype=torch.float16)
    assert x != 0


@corrects("formats.bf16.keeps-1e-8-code")
def test_the_line_meant_keeps_1e_8():
    """With dtype=torch.bfloat16 the line passes; as printed the value is zero."""
    x = torch.tensor([1e-8], dtype=torch.bfloat16)
    assert x != 0
    assert torch.tensor([1e-8], dtype=torch.float16) == 0


# ── FP8 ──

context(
    "formats.fp8.origin",
    "FP8 was proposed in 2022 and H100 supports it.",
    source="the document, section 1",
)

context(
    "formats.fp8.two-formats",
    "FP8 comes as E4M3 and E5M2; a paper gives the details.",
    source="the document, section 1",
    instead="torch also has fnuz variants, e8m0 (a scale) and a packed float4.",
)


@holds("formats.fp8.e4m3-range")
@on_each_device
def test_e4m3_ends_at_448(device):
    """FP8 E4M3 covers [-448, 448].

    All 256 patterns are read as the codec says, in every way into every wider format: 448 is the largest finite number,
    there is no infinity, and one NaN for each sign.
    """
    codes = FLOAT8_E4M3FN.all_codes()
    ways = readings_of(every_code(torch.float8_e4m3fn, device))
    every("all 256 patterns", same_values(ways, FLOAT8_E4M3FN.decode_array(codes)).all(axis=0), codes, size=2**8)
    read = ways[0]
    assert (np.nanmin(read), np.nanmax(read)) == (-448, 448)
    assert codes[np.isnan(read)].tolist() == [0x7F, 0xFF]
    assert reach_of(torch.float8_e4m3fn).largest == 448


@holds("formats.fp8.e5m2-range")
@on_each_device
def test_e5m2_ends_at_57344(device):
    """FP8 E5M2 covers [-57344, 57344].

    All 256 patterns are read as the codec says, in every way into every wider format, with an infinity and three NaNs
    for each sign, as IEEE has them.
    """
    codes = FLOAT8_E5M2.all_codes()
    ways = readings_of(every_code(torch.float8_e5m2, device))
    every("all 256 patterns", same_values(ways, FLOAT8_E5M2.decode_array(codes)).all(axis=0), codes, size=2**8)
    read = ways[0]
    finite = read[np.isfinite(read)]
    assert (finite.min(), finite.max()) == (-57344, 57344)
    assert codes[~np.isfinite(read)].tolist() == [0x7C, 0x7D, 0x7E, 0x7F, 0xFC, 0xFD, 0xFE, 0xFF]
    assert reach_of(torch.float8_e5m2).largest == 57344


@holds_when(
    "formats.fp8.overflow",
    "For E4M3 from torch 2.12 on, where even infinity becomes 448; before that values above 464 give NaN, as they"
    " still do in ml_dtypes, which is no oracle here. E5M2 rounds to infinity from 61440 in every release.",
)
@on_each_device
@costly(cases=50, because="a case takes milliseconds")
@given(conversion=beyond_the_range_of("float8_e4m3fn", "float8_e5m2"), sign=signs, placement=placements)
@example(conversion=(torch.float8_e4m3fn, 464.0), sign=1, placement=Placement())
@example(conversion=(torch.float8_e4m3fn, 465.0), sign=-1, placement=Placement((64,)))
@example(conversion=(torch.float8_e5m2, 61439.0), sign=1, placement=Placement((64,)))
@example(conversion=(torch.float8_e5m2, 61440.0), sign=1, placement=Placement())
def test_numbers_beyond_fp8_become_its_largest(conversion, sign, placement, device):
    """Converting a finite value beyond an FP8 format's range gives its largest finite value.

    Whatever it becomes, it becomes by one rule for every number, alone and among others: that of the installed release.
    A release nobody has looked at is asked about one number, and the answer has to be the rule for all.
    """
    dtype, magnitude = conversion
    form, rule = format_of(dtype), fp8_overflow(dtype, device)
    stored = numbers_of(placement.of(torch.tensor([sign * magnitude], device=device)).to(dtype))
    rounds_back = form.round_magnitude(Fraction(magnitude)) == form.largest_code
    assert (stored == sign * form.largest).all() == when(rounds_back or rule is Overflow.SATURATE)
    assert same_values(stored, form.decode_array(form.encode_array(np.array([sign * magnitude]), rule))).all()


@also("formats.fp8.overflow")
@on_each_device
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_every_fp8_starts_at_the_float32_that_rounding_says(name, device):
    """Between two neighbouring FP8 numbers the change comes at their midpoint, which goes to the even one.

    The four float32s around each midpoint, the edge of overflow among them, infinities and NaNs, of both signs.
    """
    form, dtype = FORMATS[name], dtype_of(name)
    starts = first_codes(form, FLOAT32)[1:]
    specials = np.array([FLOAT32.infinity_code, FLOAT32.nan_code, FLOAT32.largest_code, 0], dtype=np.uint64)
    around = np.concatenate([starts, starts - 1, starts + 1, starts - 2, specials]).astype(np.uint32)
    codes = np.concatenate([around, around | np.uint32(FLOAT32.sign_code)])
    stored = codes_of(from_codes(codes, torch.float32, device).to(dtype))
    expected = form.encode_array(FLOAT32.decode_array(codes), fp8_overflow(dtype, device))
    agrees = same_values(form.decode_array(stored), form.decode_array(expected))
    every(f"four float32s around every {name} midpoint", agrees, codes, size=8 * (form.largest_code + 2))


@also("formats.fp8.overflow")
@on_each_device
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("source", ["float16", "bfloat16"])
def test_every_16_bit_number_becomes_the_fp8_that_rounding_says(name, source, device):
    """All 65,536 patterns of both 16-bit formats convert to FP8 by the same rules as a float32."""
    form, x = FORMATS[name], every_code(dtype_of(source), device)
    stored = codes_of(x.to(dtype_of(name)))
    expected = form.encode_array(FORMATS[source].decode_array(codes_of(x)), fp8_overflow(dtype_of(name), device))
    agrees = same_values(form.decode_array(stored), form.decode_array(expected))
    every(f"all 65,536 patterns of {source}, to {name}", agrees, codes_of(x), size=2**16)


@also("formats.fp8.overflow")
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
@costly(cases=1, because="converts all 2**32 float32 patterns", lowest="exhaustive")
def test_all_float32_patterns_become_the_fp8_that_rounding_says(name):
    """Every one of the 2**32 float32 patterns converts to FP8 as the codec and the release's overflow rule say."""
    swept = sweep_float32(dtype_of(name), fp8_overflow(dtype_of(name)))
    every("all float32 patterns, by upper half", swept.as_expected, swept.upper_halves, size=2**16)


# ── roundings, and the choice of a format ──


@refuted(
    "formats.fp64-to-fp16.rounds-twice",
    instead="torch goes through float32, so it rounds twice: 1 + 2**-11 + 2**-40 becomes 1.0, where a single"
    " rounding (NumPy's) gives 1.0009765625. Python floats take the same road. As torch is built for ARM processors,"
    " float16 alone is rounded once there.",
)
@given(conversion=conversions("float16", "bfloat16"))
@example(conversion=(torch.bfloat16, pattern_of(1 + 2**-8 + 2**-40)))
def test_a_float64_is_rounded_once(conversion):
    """Converting float64 to float16 or bfloat16 rounds once, to nearest even."""
    dtype, pattern = conversion
    assert codes_of(pattern.build().to(dtype)) == format_of(dtype).encode(pattern.exact)


@corrects("formats.fp64-to-fp16.rounds-twice")
@given(conversion=conversions("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", numbers=inner_codes), route=routes)
@example(conversion=(torch.float16, pattern_of(1 + 2**-11 + 2**-40)), route=Route.TENSOR)
@example(conversion=(torch.float16, pattern_of(1 + 2**-11 + 2**-40)), route=Route.METHOD)
@example(conversion=(torch.bfloat16, pattern_of(1 + 2**-8 + 2**-40)), route=Route.ITEM_ASSIGNMENT)
@example(conversion=(torch.float8_e4m3fn, pattern_of(1 + 2**-4 + 2**-40)), route=Route.FILL)
def test_a_float64_is_rounded_to_float32_first(conversion, route):
    """A float64 or Python float goes through float32 on every road into a narrower format, and is rounded twice.

    On ARM, where float16 is the processor's own, not on the way into that.
    """
    dtype, pattern = conversion
    stored = route.store(pattern.value, dtype)
    assert codes_of(stored) == format_of(dtype).encode(arriving(pattern.exact, dtype))


@corrects("formats.fp64-to-fp16.rounds-twice")
def test_every_route_rounds_alike():
    """Every route takes the same numbers to the same ones: ties, what a tie hides behind, subnormals and minus zero."""
    numbers = [0.0, -0.0, 3.0, 1e-8, 2.0**-25, 2.0**-24 * 1.5, 2.0**-126 * 0.75, 2.0**-149, 2.0**-134 + 2.0**-150]
    numbers += [
        1 + 2.0**-bits + extra for bits in (3, 4, 8, 11, 24) for extra in (0, 2.0**-40, -(2.0**-40), 2.0**-bits)
    ]
    names = ["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
    cases = [(route, name, number) for route in Route for name in names for number in numbers]
    stored = [codes_of(route.store(number, dtype_of(name))).item() for route, name, number in cases]
    due = [FORMATS[name].encode(arriving(number, dtype_of(name))) for name in names for number in numbers]
    every(
        "every route into five formats",
        np.equal(stored, due * len(Route)),
        cases,
        size=len(Route) * len(names) * len(numbers),
    )


@corrects("formats.fp64-to-fp16.rounds-twice")
@given(pattern=near_codes("float16", "float64"))
@example(pattern=pattern_of(1 + 2**-11 + 2**-40))
def test_numpy_rounds_a_float64_once(pattern):
    """NumPy rounds a Python float to float16 once: 1 + 2**-11 + 2**-40 becomes 1.0009765625."""
    with np.errstate(over="ignore", under="ignore"):
        assert np.float16(pattern.value).view(np.uint16) == FLOAT16.encode(pattern.exact)


@corrects("formats.fp64-to-fp16.rounds-twice")
@on_each_device
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_two_roundings_lose_what_is_just_above_an_even_midpoint(name, device):
    """Just above a midpoint a single rounding goes up; two of them land on the midpoint, and go to the even number.

    So at every second midpoint of a format the result is one number too low, where it is rounded twice.
    """
    form = FORMATS[name]
    codes = np.arange(form.largest_code, dtype=np.uint64)
    ties = (form.magnitude_array(codes) + form.magnitude_array(codes + 1)) / 2
    stored = codes_of(torch.from_numpy(np.nextafter(ties, np.inf)).to(device).to(dtype_of(name)))
    too_low = stored == form.encode_array(np.nextafter(ties, np.inf)) - 1
    due = (codes % 2 == 0) & stops_at_float32(dtype_of(name), device)
    every(f"just above every {name} midpoint", too_low == due, codes, size=form.largest_code)


@holds("formats.choice.fp32-most-precise")
def test_float32_is_the_most_precise_the_widest_and_the_largest():
    """Of these formats float32 has the highest precision and range and needs the most memory.

    float64 is not one of them: it goes beyond float32 in all three.
    """
    others = [torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2]
    every("the other four", [is_beyond(torch.float32, other) for other in others], others, size=4)
    assert is_beyond(torch.float64, torch.float32)
