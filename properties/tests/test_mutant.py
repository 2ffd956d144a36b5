"""Worlds that are wrong are put right again, and only a contradiction is a kill."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from properties import hygiene
from properties.claims import NOTE, MisuseError, holds, holds_when
from properties.evidence import may_fail, when
from properties.levels import Level
from properties.mutants import mutant as mutant_module
from properties.mutants import trial
from properties.mutants.mutant import Mutant, mutant, patched
from properties.specification import Property
from reference import floats


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


# ── every world there is ────────────────────────────────────────────────────

PACKAGES = ("torch", "numpy", "jaxtyping", "einops", "subprocess", "properties", "reference")


def everything() -> dict[tuple[str, str], Any]:
    """What every module of the packages that worlds change has, and what their classes have."""
    modules = [each for name, each in list(sys.modules.items()) if name.split(".")[0] in PACKAGES]
    owners: dict[int, Any] = {id(each): each for each in modules if type(each) is ModuleType}
    for module in list(owners.values()):
        owners |= {id(each): each for each in vars(module).values() if issubclass(type(each), type)}
    return {
        (f"{getattr(owner, '__module__', '')}.{owner.__name__}", name): value
        for owner in owners.values()
        for name, value in list(vars(owner).items())
    }


def test_every_world_is_as_it_was_after_an_error_in_it() -> None:
    worlds = mutant_module.load().values()
    for each in worlds:  # what they import is imported
        with each.world():
            pass
    before, state = everything(), hygiene.Snapshot()
    for each in worlds:
        with pytest.raises(ZeroDivisionError), each.world():
            raise ZeroDivisionError
        assert state.restore() == [], each.name
    after = everything()
    counts = ("torch.utils.hooks.RemovableHandle", "next_id")  # of the hooks that there ever were
    assert {place for place, value in before.items() if after.get(place) is not value} <= {counts}
    assert torch.ones(2).add(1).tolist() == [2, 2]


@pytest.mark.parametrize(
    ("owner", "name", "changes", "ours"),
    [
        (floats, "FORMATS", "", True),
        (floats.FloatFormat, "bias", "", True),
        (torch.Tensor, "numel", "", False),
        (np, "dot", "", False),
        (floats, "FORMATS", "arithmetic", False),
    ],
)
def test_a_world_is_ours_where_nothing_but_our_code_is_replaced(
    owner: Any, name: str, changes: str, ours: bool
) -> None:
    each = Mutant("x", "Something is wrong.", (), lambda: patched(owner, name, None), changes=changes)
    with each.world():
        assert each.is_ours() == ours
        with patched(torch, "zeros", None):
            assert not each.is_ours()
    assert not each.is_ours()


# ── trials ──────────────────────────────────────────────────────────────────

world = SimpleNamespace(offset=0)


@contextmanager
def shifted() -> Iterator[None]:
    with patched(world, "offset", 1):
        yield


SHIFTED = Mutant("shifted", "Everything is one more.", ("a.b",), shifted)


def as_property(function: Callable[..., None]) -> Property:
    return Property(getattr(function, NOTE), function, f"spec/test_x.py::{function.__name__}")


def tried(function: Callable[..., None]) -> trial.Trial:
    each = as_property(function)
    assert each.note.claim is not None
    forms = trial.arguments(each)
    return trial.joined([trial.try_form(SHIFTED, each, each.note.claim, Level.QUICK, given) for given in forms])


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
@pytest.mark.parametrize("limit", [(2, 3), (0,)])
@pytest.mark.parametrize(("low", "high"), [(0, 1), pytest.param(0, 2, id="two")])
def parametrised(limit: tuple[int, ...], low: int, high: int) -> None:
    """Nothing is added."""
    assert world.offset <= len(limit) - 1 and low < high


def test_a_contradiction_kills() -> None:
    result = tried(contradicted)
    assert (result.outcome, result.killed, result.claim, result.function) == ("killed", True, "a.b", "contradicted")
    assert (result.mutant, result.cases, result.ours) == ("shifted", 0, False)
    assert world.offset == 0


def test_a_property_that_does_not_notice_lets_the_mutant_live() -> None:
    assert tried(indifferent).outcome == "survived"


@pytest.mark.parametrize("function", [raising, one_sided])
def test_an_error_and_a_one_sided_run_are_no_kill(function: Callable[..., None]) -> None:
    assert tried(function).outcome == "error"
    assert world.offset == 0


def test_each_form_of_a_parametrised_property_is_tried() -> None:
    forms = trial.arguments(as_property(parametrised))
    assert len(forms) == 4
    assert {"limit": (0,), "low": 0, "high": 2} in forms
    assert tried(parametrised).outcome == "killed"


def test_a_mutant_is_made_for_the_claims_it_breaks_or_for_the_properties_it_names() -> None:
    each = as_property(contradicted)
    assert trial.made_for(SHIFTED, each)
    assert not trial.made_for(Mutant("x", "Wrong.", ("a.c",), shifted), each)
    assert not trial.made_for(Mutant("x", "Wrong.", ("a.b",), shifted, ("indifferent",)), each)


def test_a_mutant_leaves_nothing_behind_where_the_property_leaks() -> None:
    @holds("a.b")
    def leaking() -> None:
        """It is so."""
        torch.set_default_dtype(torch.float64)
        assert world.offset == 0

    before = torch.get_default_dtype()
    tried(leaking)
    assert torch.get_default_dtype() is before
