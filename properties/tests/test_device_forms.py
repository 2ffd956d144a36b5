"""A property for each device, measurements that say nothing, and what a run says where there is no GPU."""

from __future__ import annotations

from typing import Any

import pytest

from properties import needs
from properties.needs import of_form
from properties.summary import inconclusive, reasons, too_noisy
from properties.tests.conftest import Here

IDS = ("a.forms", "a.timed", "a.noisy", "a.off")
FORMS = '''
    from properties.evidence import in_band, within_band
    from properties.needs import on_each_device
    from properties.ratios import Band, Ratio

    BAND = Band(1.7, 2.3)


    @holds("a.forms")
    @on_each_device
    @given(n=st.integers(1, 10**9))
    @example(n=1)
    def test_forms(n, device):
        """Numbers are themselves on every device."""
        assert torch.tensor(n, device=device).item() == n


    @approximates("a.timed", "a band")
    def test_timed():
        """It takes twice as long."""
        within_band(Ratio.of([2.1] * 34, BAND), rule=2, unit="times as long", label="time")


    @approximates("a.noisy", "a band")
    def test_noisy():
        """It takes twice as long too."""
        within_band(Ratio.of([1.0, 3.0] * 17, BAND), rule=2, label="time")


    @holds_when("a.off", "it is on")
    def test_sides():
        """It takes twice as long if it is on."""
        for ratio in (2.0, 3.0):
            assert in_band(Ratio.of([ratio] * 34, BAND)) == when(ratio == 2)
'''


@pytest.fixture
def forms(here: Here, monkeypatch: pytest.MonkeyPatch) -> Here:
    monkeypatch.setattr(needs, "present", lambda need: need != "cuda")
    here.inventory(*IDS)
    here.module(FORMS)
    return here


def test_the_form_for_a_gpu_is_not_run_without_one_and_the_other_is(forms: Here) -> None:
    ended = forms.here()
    assert ended.status == 0, ended.output
    claims = {claim["id"]: claim for claim in forms.records()["whole"]["claims"]}
    told = [
        (each["node"][-6:], each["device"], each["state"], each["reason"]) for each in claims["a.forms"]["properties"]
    ]
    assert told == [("s[cpu]", "cpu", "ran", None), ("[cuda]", "cuda", "not-run", "needs a CUDA device")]
    assert (claims["a.forms"]["state"], claims["a.forms"]["pending"]) == ("ran", ["needs a CUDA device"])
    assert "not run: 1 property: needs a CUDA device\n" in ended.output


def test_a_measured_claim_says_so_and_one_too_noisy_to_say_warns_and_fails_nothing(forms: Here) -> None:
    ended = forms.here()
    assert ended.status == 0, ended.output
    claims = {claim["id"]: claim for claim in forms.records()["whole"]["claims"]}
    assert [(claims[id]["state"], claims[id]["strength"]) for id in IDS[1:]] == [
        ("ran", "measured"),
        ("inconclusive", None),
        ("ran", "measured"),
    ]
    [seen] = claims["a.timed"]["evidence"]
    assert (seen["rule"], seen["exact"], seen["unit"]) == (2, 2.1, "times as long")
    assert seen["where"] == {"interval": "2.1 to 2.1", "pairs": 34, "band": "1.7 to 2.3"}
    told = ended.output.partition("inconclusive: too noisy to say")[2]
    assert "a.noisy: test_noisy: time: 2, between 1 and 3 by 34 pairs, is inconclusive for a band of 1.7 to 2.3" in told


def test_the_properties_for_a_gpu_are_marked_and_a_run_of_them_alone_explains_itself(forms: Here) -> None:
    ended = forms.here("-m", "gpu")
    assert ended.status == 0
    assert "1 skipped, 4 deselected" in ended.output
    assert "not run: 1 property: needs a CUDA device\n" in ended.output
    required = forms.here("-m", "gpu", "--require", "cuda")
    assert required.status == 1
    assert "a.forms: not-run; required here: needs a CUDA device" in required.output


def test_a_form_that_never_came_to_its_turn_still_has_its_device(forms: Here) -> None:
    forms.module(FORMS.replace("def test_forms(n, device):", "def test_forms(n, device, absent):"))
    forms.here()
    [claim] = [each for record in forms.records().values() for each in record["claims"] if each["id"] == "a.forms"]
    assert [(each["device"], each["state"]) for each in claim["properties"]] == [("cpu", "error"), ("cuda", "error")]


def test_a_form_needs_what_its_device_is() -> None:
    assert of_form([], {"device": "cpu"}) == of_form([], {}) == []
    assert of_form(["linux"], {"device": "cuda:0"}) == ["linux", "cuda"]
    assert of_form(["cuda"], {"device": "cuda"}) == ["cuda"]


def claims(measured: int, unclear: int) -> list[dict[str, Any]]:
    each = [{"state": "ran", "strength": "measured", "reason": None}] * measured
    each += [{"state": "inconclusive", "strength": None, "reason": "noisy"}] * unclear
    each += [{"state": "not-run", "strength": None, "reason": reason} for reason in ("deselected", "needs Linux")]
    return [{"id": "a.b", "properties": each}, {"id": "a.said", "properties": []}]


def test_more_than_a_tenth_of_noise_is_too_much_on_a_gpu_and_never_on_a_processor() -> None:
    assert too_noisy(claims(8, 1), "cuda")
    assert not too_noisy(claims(9, 1), "cuda")
    assert not too_noisy(claims(0, 0), "cuda")
    assert not too_noisy(claims(0, 9), "cpu")
    assert len(inconclusive(claims(3, 2))) == 2
    assert reasons(claims(1, 1)) == {"needs Linux": 1}


@pytest.mark.parametrize(("kind", "status"), [("cpu", 0), ("cuda", 1)])
def test_noise_fails_a_run_on_a_gpu(forms: Here, monkeypatch: pytest.MonkeyPatch, kind: str, status: int) -> None:
    from properties import environment

    monkeypatch.setattr(environment, "device", lambda: (kind, "a device"))
    ended = forms.here()
    assert ended.status == status
    assert ("more than a tenth of the measurements" in ended.output) == bool(status)
