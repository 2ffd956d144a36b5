"""Running properties under mutants: which contradict, and which let a mutant live."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from _pytest.mark.structures import ParameterSet

from properties.claims import Claim, State
from properties.hygiene import Snapshot
from properties.judging import judge
from properties.levels import Level
from properties.mutants.mutant import Mutant
from properties.specification import Property


@dataclass(frozen=True)
class Trial:
    """What became of one property under one mutant."""

    mutant: str
    claim: str
    function: str
    outcome: str
    """\"killed\", "survived", "not-run" where the property needs what is not here, or "error" with its reason."""
    reason: str
    cases: int
    seconds: float
    ours: bool = False
    """Whether the mutant changed nothing but our own code."""

    @property
    def killed(self) -> bool:
        """Whether the property noticed."""
        return self.outcome == "killed"


def arguments(each: Property) -> list[dict[str, object]]:
    """The arguments of each parametrised form of a property; one empty set where it is not parametrised."""
    sets: list[dict[str, object]] = [{}]
    for mark in getattr(each.function, "pytestmark", []):
        if mark.name != "parametrize":
            continue
        named = mark.args[0]
        names = [name.strip() for name in named.split(",")] if isinstance(named, str) else list(named)
        grown = []
        for values in mark.args[1]:
            if isinstance(values, ParameterSet):
                row = tuple(values.values)
            else:
                row = (values,) if isinstance(named, str) and len(names) == 1 else tuple(values)
            grown += [{**before, **dict(zip(names, row, strict=True))} for before in sets]
        sets = grown
    return sets


def made_for(mutant: Mutant, each: Property) -> bool:
    """Whether a property must notice a mutant."""
    return each.note.id in mutant.breaks and (not mutant.properties or each.function.__name__ in mutant.properties)


def try_form(
    mutant: Mutant, each: Property, claim: Claim, level: Level, arguments: Mapping[str, object] | None = None
) -> Trial:
    """Run one form of a property under a mutant, without shrinking."""
    started = time.perf_counter()
    before = Snapshot()
    with mutant.world():
        judgement = judge(each.function, each.note, claim, level=level, seed=0, arguments=arguments, patient=False)
        ours = mutant.is_ours()
    before.restore()
    outcome, reason = "survived", judgement.reason or ""
    if judgement.agrees is False:
        outcome, reason = "killed", "".join(str(judgement.exception).splitlines()[:1])
    elif judgement.state in (State.ERROR, State.NOT_RUN):
        outcome = str(judgement.state)
    cases = judgement.evidence.passed + judgement.evidence.pinned
    seconds = time.perf_counter() - started
    return Trial(mutant.name, each.note.id, each.function.__name__, outcome, reason, cases, seconds, ours)


def joined(forms: Sequence[Trial]) -> Trial:
    """What became of a property whose forms were tried: killed by any, else an error, survived, or not run."""
    order = ("killed", "error", "survived", "not-run")
    telling = min(forms, key=lambda form: order.index(form.outcome))
    return replace(telling, cases=sum(form.cases for form in forms), seconds=sum(form.seconds for form in forms))
