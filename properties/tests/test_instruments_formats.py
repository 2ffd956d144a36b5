"""The instrument of number formats against the reference codec, and against releases that are not installed."""

import numpy as np
import pytest
import torch

from properties.instruments import formats
from properties.instruments.formats import Reach, e4m3_overflow, reach_of
from reference.floats import FORMATS, Overflow


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
