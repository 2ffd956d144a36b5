"""What the decorators note of a property, and the misuse that they refuse, naming file and line."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from properties.claims import (
    NOTE,
    Awaited,
    Claim,
    MisuseError,
    Note,
    Role,
    Verdict,
    also,
    awaits,
    context,
    corrects,
    costly,
    holds,
    holds_when,
    needs,
    refuted,
)
from properties.levels import Level


def note(function: Callable[..., None]) -> Note:
    found: Note = getattr(function, NOTE)
    return found


def here() -> int:
    """The line that calls this."""
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno


def test_the_first_paragraph_of_the_docstring_is_the_statement_and_the_place_is_the_propertys_own() -> None:
    line = here() + 2

    @holds("a.b", related=("a.c",), false_alarm=1e-9)
    @given(n=st.integers())
    @example(n=1)
    def property(n: int) -> None:
        """Numbers are
        whole.

        Why: they are integers.
        """

    claim = note(property).claim
    assert claim is not None
    assert (claim.id, claim.verdict, claim.says) == ("a.b", Verdict.HOLDS, "Numbers are whole.")
    assert (claim.related, claim.false_alarm) == (("a.c",), 1e-9)
    assert (claim.file, claim.line) == (__file__, line)


def test_each_decorator_gives_its_role() -> None:
    def property() -> None:
        """It is so."""

    def bound(decorate: Callable[[Callable[[], None]], Callable[[], None]]) -> tuple[Role, bool]:
        def again() -> None:
            """It is so."""

        found = note(decorate(again))
        return found.role, found.claim is not None

    assert bound(holds("a.b")) == (Role.CLAIM, True)
    assert bound(holds_when("a.b", "c")) == (Role.CLAIM, True)
    assert bound(refuted("a.b", instead="c")) == (Role.STATEMENT, True)
    assert bound(corrects("a.b")) == (Role.CORRECTION, False)
    assert bound(also("a.b")) == (Role.ALSO, False)


def test_needs_and_cost_stand_below_the_claim_and_reach_its_note() -> None:
    @holds("a.b")
    @needs("cuda")
    @needs("linux")
    @costly(20, because="it waits", lowest="thorough")
    @given(n=st.integers())
    def property(n: int) -> None:
        """It is so."""

    found = note(property)
    assert found.needs == ["linux", "cuda"]
    assert found.cost is not None
    assert (found.cost.cases, found.cost.because, found.cost.lowest) == (20, "it waits", Level.THOROUGH)


@pytest.mark.parametrize("decorate", [needs("cuda"), costly(3, because="it waits")], ids=["needs", "costly"])
def test_needs_and_cost_above_the_claim_are_refused(decorate: Callable[[Callable[[], None]], object]) -> None:
    """There the claim would not hear of them, and the property would run where it must not."""

    @holds("a.b")
    def property() -> None:
        """It is so."""

    with pytest.raises(MisuseError, match=rf"{re.escape(__file__)}:\d+: @(needs|costly) stands above .* to a\.b"):
        decorate(property)


def test_a_property_of_two_claims_is_refused() -> None:
    with pytest.raises(MisuseError, match=rf"{re.escape(__file__)}:\d+: property is bound to a\.b and to a\.c"):

        @holds("a.c")
        @holds("a.b")
        def property() -> None:
            """It is so."""


@pytest.mark.parametrize("decorate", [holds("a.b"), also("a.b"), corrects("a.b"), refuted("a.b", instead="c")])
def test_a_property_without_a_docstring_is_refused(decorate: Callable[[Callable[[], None]], object]) -> None:
    def property() -> None:
        assert True

    with pytest.raises(MisuseError, match=rf"{re.escape(__file__)}:\d+: property has no docstring"):
        decorate(property)


@pytest.mark.parametrize("anything", [Exception, BaseException])
def test_a_statement_that_any_mistake_would_falsify_is_refused(anything: type[BaseException]) -> None:
    with pytest.raises(MisuseError, match=rf"{re.escape(__file__)}:\d+: property would be falsified by any"):

        @refuted("a.b", instead="c", falsified_by=anything)
        def property() -> None:
            """It is so."""


def test_an_unknown_level_of_cost_is_refused() -> None:
    with pytest.raises(ValueError, match="no level 'night'"):
        costly(3, because="it waits", lowest="night")(lambda: None)


def test_context_and_what_is_awaited_are_declared_in_their_module_with_their_place() -> None:
    module: dict[str, object] = {"context": context, "awaits": awaits}
    source = (
        "\ncontext('a.b', 'It is said.', source='the document, section 1')\n"
        "awaits('a.c', needs='cuda', what='timing', verdict='holds-when', says='It is fast.', instead='on a GPU')\n"
    )
    exec(compile(source, "spec/test_x.py", "exec"), module)
    assert module["assay_declared"] == [
        Claim("a.b", Verdict.CONTEXT, "It is said.", None, "spec/test_x.py", 2, source="the document, section 1"),
        Claim("a.c", Verdict.HOLDS_WHEN, "It is fast.", "on a GPU", "spec/test_x.py", 3),
        Awaited("a.c", "cuda", "timing", "spec/test_x.py", 3),
    ]
