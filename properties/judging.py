"""From a property and what it saw to a judgement: the rules by which each verdict earns its name."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.errors import HypothesisException
from hypothesis.internal.entropy import deterministic_PRNG
from hypothesis.statistics import collector

from properties.assertions import watch
from properties.claims import Claim, Note, Role, State, Strength, Verdict, body
from properties.distinct import fingerprint
from properties.evidence import LOOSE, Evidence, Inconclusive, collecting
from properties.levels import Level
from properties.needs import missing, of_form

SECOND_LOOKS = 3
"""How often a property that met one side of its condition only, or drew too little that is new, is run with another
seed before that is an error."""
SMALL_DOMAIN = 32
"""A generated domain exhausted below this many cases is an example, unless it is all that the claim is about."""
TOLD = 2000
"""Characters that are kept of what an exception says."""


class HungError(BaseException):
    """A property was ended by its time limit. Not an Exception, so that no search takes it for a finding."""


class Contradiction(AssertionError):
    """The run shows something else than the verdict says."""


class UnearnedError(Exception):
    """The property ran without finding anything, and without doing what its verdict asks of it."""


@dataclass
class Judgement:
    """What one run says of one property."""

    state: State
    agrees: bool | None = None
    strength: Strength | None = None
    reason: str | None = None
    evidence: Evidence = field(default_factory=Evidence)
    discarded: int = 0
    pinned_case: Mapping[str, object] | None = None
    found_case: Mapping[str, object] | None = None
    exception: BaseException | None = None
    seconds: float = 0.0


def judge(
    function: Callable[..., None],
    note: Note,
    claim: Claim,
    *,
    level: Level,
    seed: int,
    arguments: Mapping[str, Any] | None = None,
    patient: bool = True,
) -> Judgement:
    """Run one property and judge it.

    ``arguments`` are those that do not come from ``@given``. With ``patient`` false a failing case is not shrunk.
    KeyboardInterrupt passes through; everything else that a property raises becomes part of the judgement.
    """
    started = time.perf_counter()
    absent = missing(of_form(note.needs, arguments or {}))
    if absent is not None:
        return Judgement(State.NOT_RUN, reason=absent)
    if note.cost is not None and level < note.cost.lowest:
        return Judgement(State.NOT_RUN, reason=f"runs from the {note.cost.lowest.title} level: {note.cost.because}")
    run = _Run(function, note, claim, level, seed, dict(arguments or {}), patient)
    judgement = Judgement(State.ERROR, evidence=run.evidence)
    try:
        if note.role is Role.STATEMENT:
            run.falsify(judgement)
        else:
            run.examine(judgement)
    except KeyboardInterrupt:
        raise
    except Contradiction as contradiction:
        _contradicted(judgement, contradiction)
    except UnearnedError as unearned:
        judgement.reason, judgement.exception = str(unearned), unearned
    except BaseException as raised:
        outcome, reason = _outcome(raised), _told(raised)
        if outcome is State.RAN and note.role is Role.STATEMENT:
            outcome = State.ERROR  # not what the statement was to be falsified by
        elif outcome is State.RAN and run.generated and run.evidence.failing is None:
            outcome = State.ERROR  # an assertion broke while a case was drawn, not in the property
        elif outcome in (State.NOT_RUN, State.INCONCLUSIVE):
            reason = said(raised).strip()[:TOLD] or reason
            failed = [kind.__name__ for kind in run.evidence.raised if not issubclass(kind, Inconclusive)]
            if failed:
                outcome, reason = State.ERROR, f"a case failed ({', '.join(failed)}) before another one said: {reason}"
        if outcome is State.RAN:
            _contradicted(judgement, raised)
        else:
            judgement.state, judgement.reason, judgement.exception = outcome, reason, raised
            judgement.found_case = run.evidence.failing
    judgement.discarded = run.discarded
    judgement.seconds = time.perf_counter() - started
    return judgement


def _contradicted(judgement: Judgement, raised: BaseException) -> None:
    judgement.state, judgement.agrees, judgement.exception = State.RAN, False, raised
    judgement.reason = None
    if judgement.found_case is None and judgement.evidence.failing is not None:
        judgement.found_case = judgement.evidence.failing


OUTCOMES: tuple[tuple[type[BaseException], State], ...] = (
    (HypothesisException, State.ERROR),
    (pytest.xfail.Exception, State.ERROR),
    (pytest.fail.Exception, State.RAN),
    (AssertionError, State.RAN),
    (Inconclusive, State.INCONCLUSIVE),
    (pytest.skip.Exception, State.NOT_RUN),
)
"""What an exception out of a property means, the first that fits; whatever is not here is an error."""


def _outcome(raised: BaseException) -> State:
    """The state that an exception stands for; a skip and a noisy measurement must say why."""
    state = next((state for kind, state in OUTCOMES if isinstance(raised, kind)), State.ERROR)
    return State.ERROR if state is not State.RAN and not said(raised).strip() else state


def said(raised: BaseException) -> str:
    """What an exception says, however it is made."""
    try:
        return str(raised)
    except Exception as failure:
        return f"(what it says cannot be read: {type(failure).__name__})"


def _told(raised: BaseException) -> str:
    text = " ".join(said(raised)[: 2 * TOLD].split())[:TOLD]
    return f"{type(raised).__name__}: {text}" if text else type(raised).__name__


class _Run:
    """One property under judgement."""

    def __init__(
        self,
        function: Callable[..., None],
        note: Note,
        claim: Claim,
        level: Level,
        seed: int,
        arguments: dict[str, Any],
        patient: bool,
    ) -> None:
        self.function = function
        self.note = note
        self.claim = claim
        self.level = level
        self.seed = seed
        self.arguments = arguments
        self.cases = note.cases(level)
        self.patient = patient
        self.generated = hasattr(function, "hypothesis")
        self.evidence = Evidence(seeds_count=note.seeds_count)
        self.statistics: dict[str, Any] = {}
        self.discarded = 0
        self.watch = watch(function)

    def examine(self, judgement: Judgement) -> None:
        """A property that has to pass."""
        phases = [Phase.explicit, Phase.generate]
        self._call([*phases, Phase.shrink] if self.patient else phases, self.evidence)
        for _ in range(SECOND_LOOKS):
            if not (self._misses_a_side() or self._repeats_itself()):
                break
            self.seed += 1
            self._call([Phase.generate, Phase.shrink] if self.patient else [Phase.generate], self.evidence)
        strength = self._strength()
        if not self.watch.reached:
            raise UnearnedError("no case came to an assertion: nothing was checked")
        self._sides()
        self._observations()
        judgement.state, judgement.agrees, judgement.strength = State.RAN, True, strength

    def falsify(self, judgement: Judgement) -> None:
        """A statement that has to be falsified: by its pinned example, then by a search that shrinks."""
        if not self.generated:
            with collecting(self.evidence):
                self._must_fail(self._limited(self.function), {})
            judgement.pinned_case = {}
        else:
            for pinned in self._pinned_examples():
                with collecting(self.evidence), deterministic_PRNG():  # generators managed, as in every generated case
                    self._must_fail(self._limited(body(self.function)), pinned)
                self.evidence.pinned += 1
                judgement.pinned_case = judgement.pinned_case or pinned
            judgement.found_case = self._search()
        judgement.strength = Strength.EXAMPLE
        judgement.state, judgement.agrees = State.RAN, True

    def _must_fail(self, function: Callable[..., None], arguments: Mapping[str, Any]) -> None:
        try:
            function(**self.arguments, **arguments)
        except self.note.falsified_by:
            return
        self.evidence.failing = dict(arguments)
        arguments = {**self.arguments, **arguments}
        case = ", ".join(f"{name}={value!r}" for name, value in arguments.items()) or "as written"
        raise Contradiction(f"the statement was to be false and is not: {case}")

    def _search(self) -> Mapping[str, object]:
        evidence = Evidence(seeds_count=True)
        self.seed = 0
        falsifiers = self.note.falsified_by
        try:
            self._call([Phase.generate, Phase.shrink] if self.patient else [Phase.generate], evidence)
        except falsifiers as raised:
            if isinstance(raised, HypothesisException):
                raise
        self.evidence.passed, self.evidence.distinct = evidence.passed, evidence.distinct
        if evidence.failing is None:
            raise UnearnedError(
                f"the pinned example falsifies the statement, but a search of {evidence.passed} cases found no other;"
                " let its strategy reach one"
            )
        found = {name: value for name, value in evidence.failing.items() if name not in self.arguments}
        fingerprint(found, seeds_count=True)
        return found

    def _pinned_examples(self) -> list[dict[str, object]]:
        pinned = []
        names = [name for name in _parameters(self.function) if name not in self.arguments]
        for example in reversed(getattr(self.function, "hypothesis_explicit_examples", [])):
            positional = dict(zip(names[-len(example.args) :], example.args, strict=True)) if example.args else {}
            pinned.append({**positional, **example.kwargs})
        return pinned

    def _call(self, phases: list[Phase], evidence: Evidence) -> None:
        if not self.generated:
            with collecting(evidence), self.watch.looking():
                self._limited(self.function)(**self.arguments)
                evidence.fold()
            return
        handle: Any = self.function
        original = handle.hypothesis.inner_test
        if Phase.explicit in phases:
            evidence.pinned_to_come = len(getattr(handle, "hypothesis_explicit_examples", []))
        counted = evidence.counting(self._watched(self._limited(original), evidence))
        for name in ("__name__", "__qualname__", "__module__", "__doc__", "__wrapped__"):
            setattr(counted, name, getattr(original, name, None) if name != "__wrapped__" else original)
        counted.__dict__.update(original.__dict__)
        before = handle._hypothesis_internal_use_settings, handle._hypothesis_internal_use_seed
        handle._hypothesis_internal_use_settings = settings(
            settings.get_profile(self.level.title),
            verbosity=settings.get_profile(settings.get_current_profile_name()).verbosity,
            max_examples=self.cases,
            phases=phases,
            suppress_health_check=before[0].suppress_health_check,
        )
        handle._hypothesis_internal_use_seed = self.seed
        handle.hypothesis.inner_test = counted
        try:
            with collecting(evidence), statistics_to(self.statistics):
                handle(**self.arguments)
        finally:
            self._count_discarded()
            handle.hypothesis.inner_test = original
            handle._hypothesis_internal_use_settings, handle._hypothesis_internal_use_seed = before

    def _watched(self, inner: Callable[..., None], evidence: Evidence) -> Callable[..., None]:
        """``inner``, watched until a generated case reaches an assertion."""

        def case(*args: object, **kwargs: object) -> None:
            if self.watch.reached or evidence.pinned_to_come:
                inner(*args, **kwargs)
            else:
                with self.watch.looking():
                    inner(*args, **kwargs)

        return case

    @staticmethod
    def _limited(inner: Callable[..., None]) -> Callable[..., None]:
        """``inner``, with the time limit's exception turned into one that no search catches and repeats."""

        def case(*args: object, **kwargs: object) -> None:
            try:
                inner(*args, **kwargs)
            except BaseException as raised:
                if type(raised).__name__ == "Failed" and str(raised).startswith("Timeout"):
                    raise HungError(str(raised)) from None
                raise

        return case

    def _count_discarded(self) -> None:
        # An overrun is no case that a filter threw away: Hypothesis gives up by itself on one that grows too long.
        cases = self.statistics.get("generate-phase", {}).get("test-cases", [])
        self.discarded += sum(case["status"] == "invalid" for case in cases)
        self.statistics.pop("generate-phase", None)

    def _strength(self) -> Strength:
        seen = self.evidence
        if not self.generated:
            if seen.points:
                return Strength.EXHAUSTIVE
            return Strength.MEASURED if seen.repeats else Strength.EXAMPLE
        distinct = len(seen.distinct)
        if self.discarded > seen.passed:
            raise UnearnedError(f"{self.discarded} of {self.discarded + seen.passed} drawn cases were thrown away")
        if self._repeats_itself():
            raise UnearnedError(f"{distinct} distinct cases were accepted, of {self.cases} asked for")
        exhausted_early = self._has_all() and distinct < SMALL_DOMAIN
        return Strength.EXAMPLE if exhausted_early else Strength.SAMPLED

    def _has_all(self) -> bool:
        """Whether Hypothesis has drawn everything that there is to draw."""
        return bool(self.evidence.distinct) and self.statistics.get("stopped-because") == "nothing left to do"

    def _repeats_itself(self) -> bool:
        """Whether more than half of what a generated property asked for was drawn before, though there is more to draw.

        Hypothesis draws neighbours of earlier cases in runs, and equal ones among them: by chance that can be most of a
        hundred. Looking again with another seed says nothing about the claim, and only draws more.
        """
        return self.generated and not self._has_all() and len(self.evidence.distinct) * 2 < self.cases

    def _misses_a_side(self) -> bool:
        """Whether chance kept a generated property from a side, or from an outside case that fails.

        A hundred cases can miss a side that one in five reaches. As above, looking again is no more than drawing more.
        """
        seen = self.evidence
        if not self.generated or not seen.when_used or self.note.environment_is_condition:
            return False
        return not (seen.inside and seen.outside) or (seen.may_fail_used and not seen.outside_failed)

    def _sides(self) -> None:
        seen, note = self.evidence, self.note
        if note.environment_is_condition:
            return
        if not seen.when_used:
            if note.role is Role.CLAIM and self.claim.verdict is Verdict.HOLDS_WHEN:
                raise UnearnedError("a holds-when property must say on which side each case is: call when()")
            return
        if self.claim.verdict is Verdict.HOLDS:
            raise UnearnedError("a property that asks when() has a condition: its claim holds-when, or is two claims")
        if not seen.inside or not seen.outside:
            side = "inside" if not seen.inside else "outside"
            raise UnearnedError(f"no case was {side} the condition")
        if self.generated and note.role is Role.CLAIM and len(seen.pinned_sides) < 2:
            side = "inside" if True not in seen.pinned_sides else "outside"
            raise UnearnedError(f"no pinned example is {side} the condition: add an @example there")
        if seen.may_fail_used and not seen.outside_failed:
            raise Contradiction(f"none of {seen.outside} cases outside the condition fails: it is too narrow")

    def _observations(self) -> None:
        is_claim = self.note.role is Role.CLAIM and self.claim.verdict is Verdict.APPROXIMATES
        if is_claim and not any(seen.bound is not None for seen in self.evidence.worst.values()):
            raise UnearnedError("an approximation must be held to a bound: call observe()")


def statistics_to(gathered: dict[str, Any]) -> AbstractContextManager[None]:
    """Have Hypothesis's statistics of what runs within put into ``gathered``."""
    variable: Any = collector
    manager: AbstractContextManager[None] = variable.with_value(gathered.update)
    return manager


def loose(seen: Evidence, label: str) -> bool:
    """Whether no observation of a label came within a factor of ten of its bound."""
    return label in seen.closest and seen.closest[label] * LOOSE < 1.0


def _parameters(function: Callable[..., None]) -> list[str]:
    code = body(function).__code__
    return list(code.co_varnames[: code.co_argcount])


def innermost(raised: BaseException, file: str) -> traceback.FrameSummary | None:
    """The last frame of a traceback that lies in ``file``."""
    frames = [frame for frame in traceback.extract_tb(raised.__traceback__) if frame.filename == file]
    return frames[-1] if frames else None
