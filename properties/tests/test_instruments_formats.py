"""The instrument of number formats against the reference codec, and against releases that are not installed."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from properties.instruments import formats
from properties.instruments.formats import Reach, e4m3_overflow, reach_of, stops_at_float32
from properties.judging import judge
from properties.levels import Level
from properties.mutants import formats as worlds
from properties.mutants.trial import arguments
from properties.specification import Specification
from properties.tests.conftest import named
from reference.floats import FLOAT16, FORMATS, Overflow


@pytest.mark.parametrize("name", list(FORMATS))
def test_a_format_is_measured_as_the_codec_has_it(name: str) -> None:
    form = FORMATS[name]
    expected = Reach(form.largest, form.eps, form.smallest_normal, form.smallest_subnormal)
    assert reach_of(formats.dtype_of(name)) == expected


def test_widths_come_from_ieee_formats_only() -> None:
    assert reach_of(torch.float8_e5m2).widths == (5, 2)
    with pytest.raises(ValueError, match="no IEEE-style format"):
        reach_of(torch.float8_e4m3fn).widths  # noqa: B018


@pytest.mark.parametrize(
    ("release", "rule"),
    [
        ("2.6.0+cpu", Overflow.NAN),
        ("2.11.1", Overflow.NAN),
        ("2.12.0", Overflow.SATURATE),
        ("2.13.0+cu130", Overflow.SATURATE),
    ],
)
def test_the_rule_of_a_known_release_is_known(release: str, rule: Overflow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "to", None)
    assert e4m3_overflow(release) is rule


@pytest.mark.parametrize("release", ["2.12.0.dev20260401+cpu", "2.12.0a0+gitabc", "3.0.0", "unheard of"])
def test_an_unknown_release_is_asked(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = torch.Tensor.to
    for answer, rule in ((float("nan"), Overflow.NAN), (448.0, Overflow.SATURATE)):
        monkeypatch.setattr(torch.Tensor, "to", lambda x, dtype, answer=answer: real(torch.tensor([answer]), dtype))
        assert e4m3_overflow(release) is rule


def test_codes_go_in_and_come_out_unchanged() -> None:
    for name in FORMATS:
        form = FORMATS[name]
        codes = np.arange(0, form.code_count, max(1, form.code_count // 251), dtype=np.uint64).astype(form.code_dtype)
        x = formats.from_codes(codes, formats.dtype_of(name))
        assert formats.format_of(x.dtype) is form
        assert np.array_equal(formats.codes_of(x), codes)
        assert np.array_equal(formats.codes_of(x[::2]), codes[::2])


def test_the_default_dtype_comes_back_after_an_error() -> None:
    before = torch.get_default_dtype()
    with pytest.raises(KeyError), formats.default_dtype(torch.float64):
        assert torch.get_default_dtype() == torch.float64
        raise KeyError
    assert torch.get_default_dtype() == before


# ── a processor with a float16 of its own ──


def rounded_once(x: Any, dtype: torch.dtype) -> Any:
    """A float64 or an integer as float16 in one rounding."""
    if dtype != torch.float16 or x.dtype not in (torch.float64, torch.int64):
        return None
    codes = [FLOAT16.encode(number) for number in x.flatten().tolist()]
    return formats.from_codes(np.array(codes, dtype=np.uint16), dtype).reshape(x.shape)


def test_a_processor_with_its_own_float16_is_asked_and_no_other() -> None:
    for machine in ("aarch64", "arm64", "x86_64", "AMD64"):
        assert stops_at_float32(torch.float16, machine=machine)
    with worlds._converting(rounded_once):
        assert not stops_at_float32(torch.float16, machine="arm64")
        assert stops_at_float32(torch.float16, machine="x86_64")
        assert stops_at_float32(torch.float16, "cuda", machine="aarch64")
        assert stops_at_float32(torch.bfloat16, machine="arm64")
    assert not stops_at_float32(torch.float32)


AWAY_FROM_FLOAT32 = (
    "test_a_whole_number_is_exact_as_far_as_the_mantissa_reaches",
    "test_what_is_below_the_smallest_float16_becomes_zero",
    "test_float16_overflows_from_65520",
    "test_a_float64_is_rounded_once",
    "test_two_roundings_lose_what_is_just_above_an_even_midpoint",
)


@pytest.mark.parametrize("function", AWAY_FROM_FLOAT32)
def test_what_is_said_of_float16_holds_where_it_is_rounded_once(
    function: str, found: Specification, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = named(found, function)
    forms = [given for given in arguments(each) if given.get("device") != "cuda"]
    assert forms
    asked = partial(stops_at_float32, machine="arm64")
    monkeypatch.setattr(formats, "stops_at_float32", asked)
    monkeypatch.setitem(each.function.__globals__, "stops_at_float32", asked)
    for given in forms:
        with worlds._converting(rounded_once):
            judged = judge(each.function, each.note, found.claim(each.note), level=Level.QUICK, seed=0, arguments=given)
        assert judged.agrees, (given, judged.reason, judged.exception)
