"""Worlds that are wrong are put right again, and only a contradiction is a kill."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from properties.claims import NOTE, MisuseError, holds, holds_when
from properties.evidence import may_fail, when
from properties.levels import Level
from properties.mutants import mutant as mutant_module
from properties.mutants import trial
from properties.mutants.mutant import Mutant, mutant, patched
from properties.specification import Inventory, Property, Specification


class Base:
    inherited = "as it was"

    @staticmethod
    def static() -> str:
        return "as it was"


class Derived(Base):
    pass


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> dict[str, Mutant]:
    empty: dict[str, Mutant] = {}
    monkeypatch.setattr(mutant_module, "REGISTRY", empty)
    return empty


def test_a_patched_attribute_is_put_back_also_on_error() -> None:
    owner = SimpleNamespace(value="as it was")
    with pytest.raises(ZeroDivisionError), patched(owner, "value", "changed") as original:
        assert (owner.value, original) == ("changed", "as it was")
        raise ZeroDivisionError
    assert owner.value == "as it was"


def test_an_inherited_attribute_is_inherited_again_afterwards() -> None:
    with patched(Derived, "inherited", "changed"):
        assert (Derived.inherited, Base.inherited) == ("changed", "as it was")
    assert "inherited" not in vars(Derived)
    Base.inherited = "later"
    try:
        assert Derived.inherited == "later"
    finally:
        Base.inherited = "as it was"


def test_a_static_method_is_one_again_afterwards() -> None:
    with patched(Base, "static", staticmethod(lambda: "changed")):
        assert Derived().static() == "changed"
    assert isinstance(vars(Base)["static"], staticmethod)
    assert Base().static() == "as it was"


def test_patches_within_patches_are_undone_in_turn() -> None:
    owner = SimpleNamespace(value=0)
    with patched(owner, "value", 1), patched(owner, "value", 2) as original:
        assert (owner.value, original) == (2, 1)
    assert owner.value == 0


def test_a_tensors_method_is_changed_and_put_back() -> None:
    before = torch.Tensor.numel
    with patched(torch.Tensor, "numel", lambda self: -1):
        assert torch.zeros(2, 3).numel() == -1
    assert torch.Tensor.numel is before
    assert torch.zeros(2, 3).numel() == 6


def test_an_attribute_that_is_not_there_cannot_be_patched() -> None:
    owner = SimpleNamespace()
    with pytest.raises(AttributeError), patched(owner, "value", 1):
        pass
    assert not hasattr(owner, "value")


def test_a_mutant_needs_a_name_of_its_own_and_a_sentence(registry: dict[str, Mutant]) -> None:
    @mutant("counts-wrong", breaks=("a.b",))
    def first() -> Iterator[None]:
        """Counting is
        wrong."""
        yield

    assert registry["counts-wrong"].sentence == "Counting is wrong."
    with pytest.raises(MisuseError, match="two mutants are named counts-wrong"):
        mutant("counts-wrong", breaks=("a.b",))(lambda: iter([None]))

    def silent() -> Iterator[None]:
        yield

    with pytest.raises(MisuseError, match="the mutant other does not say what is wrong"):
        mutant("other", breaks=("a.b",))(silent)


# ── trials ──────────────────────────────────────────────────────────────────

world = SimpleNamespace(offset=0)


@contextmanager
def shifted() -> Iterator[None]:
    with patched(world, "offset", 1):
        yield


SHIFTED = Mutant("shifted", "Everything is one more.", ("a.b",), shifted)


def specified(*functions: Callable[..., None]) -> Specification:
    """A specification of these properties alone."""
    properties = [Property(getattr(each, NOTE), each, f"spec/test_x.py::{each.__name__}") for each in functions]
    claims = {each.note.id: each.note.claim for each in properties if each.note.claim is not None}
    return Specification(Path(), Inventory(), claims, properties)


def tried(*functions: Callable[..., None]) -> list[trial.Trial]:
    return list(trial.trials(specified(*functions), [SHIFTED], level=Level.QUICK))


@holds("a.b")
@given(n=st.integers(0, 10**6))
def contradicted(n: int) -> None:
    """Nothing is added."""
    assert n + world.offset == n


@holds("a.b")
@given(n=st.integers(0, 10**6))
def indifferent(n: int) -> None:
    """Numbers are not negative."""
    assert n + world.offset >= 0


@holds("a.b")
@given(n=st.integers(0, 10**6))
def raising(n: int) -> None:
    """Nothing is added."""
    if world.offset:
        raise ValueError("something was added")
    assert n >= 0


@holds_when("a.b", "n is even")
@given(n=st.integers(0, 10**6))
@example(n=0)
@example(n=1)
def one_sided(n: int) -> None:
    """Numbers are even."""
    if when(world.offset or n % 2 == 0):
        assert n >= 0
    else:
        may_fail(False)


@holds("a.b")
@given(n=st.integers(0, 10**6))
def already_false(n: int) -> None:
    """Numbers are small."""
    assert n < 10


@holds("a.b")
@pytest.mark.parametrize("limit", [(2, 3), (0,)])
@pytest.mark.parametrize(("low", "high"), [(0, 1), pytest.param(0, 2, id="two")])
def parametrised(limit: tuple[int, ...], low: int, high: int) -> None:
    """Nothing is added."""
    assert world.offset <= len(limit) - 1 and low < high


def test_a_contradiction_kills() -> None:
    [result] = tried(contradicted)
    assert (result.outcome, result.killed, result.claim, result.function) == ("killed", True, "a.b", "contradicted")
    assert world.offset == 0


def test_a_property_that_does_not_notice_lets_the_mutant_live() -> None:
    assert [each.outcome for each in tried(indifferent)] == ["survived"]


@pytest.mark.parametrize("function", [raising, one_sided])
def test_an_error_and_a_one_sided_run_are_no_kill(function: Callable[..., None]) -> None:
    assert [each.outcome for each in tried(function)] == ["error"]
    assert world.offset == 0


def test_a_property_that_fails_without_the_mutant_kills_nothing() -> None:
    [result] = tried(already_false)
    assert (result.outcome, result.killed) == ("error", False)
    assert result.reason.startswith("without a mutant: ")


def test_each_form_of_a_parametrised_property_is_tried() -> None:
    forms = trial.arguments(specified(parametrised).properties[0])
    assert len(forms) == 4
    assert {"limit": (0,), "low": 0, "high": 2} in forms
    assert [each.outcome for each in tried(parametrised)] == ["killed"]


def test_a_property_that_no_mutant_kills_is_named() -> None:
    found = specified(contradicted, indifferent)
    results = list(trial.trials(found, [SHIFTED], level=Level.QUICK))
    assert trial.unkilled(found, results) == ["a.b: indifferent (the claim)"]


def test_a_kill_in_one_claim_is_none_for_the_function_of_that_name_in_another() -> None:
    def named(id: str) -> Callable[[], None]:
        @holds(id)
        def same_name() -> None:
            """Nothing is added."""
            assert id != "a.b" or world.offset == 0

        return same_name

    found = specified(named("a.b"), named("a.c"))
    results = list(trial.trials(found, [SHIFTED], level=Level.QUICK))
    assert trial.unkilled(found, results) == ["a.c: same_name (the claim)"]


def test_a_mutant_leaves_nothing_behind_where_the_property_leaks() -> None:
    @holds("a.b")
    def leaking() -> None:
        """It is so."""
        torch.set_default_dtype(torch.float64)
        assert world.offset == 0

    before = torch.get_default_dtype()
    tried(leaking)
    assert torch.get_default_dtype() is before
