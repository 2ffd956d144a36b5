"""Running properties under mutants: which contradict, and which let a mutant live."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from _pytest.mark.structures import ParameterSet

from properties.claims import Claim, Role, State
from properties.hygiene import Snapshot
from properties.judging import judge
from properties.levels import Level
from properties.mutants.mutant import Mutant
from properties.specification import Property, Specification


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
    mutant: Mutant,
    each: Property,
    claim: Claim,
    level: Level,
    seed: int = 0,
    arguments: Mapping[str, object] | None = None,
) -> Trial:
    """Run one form of a property under a mutant, without shrinking."""
    started = time.perf_counter()
    before = Snapshot()
    with mutant.world():
        judgement = judge(each.function, each.note, claim, level=level, seed=seed, arguments=arguments, patient=False)
    before.restore()
    outcome, reason = "survived", judgement.reason or ""
    if judgement.agrees is False:
        outcome, reason = "killed", "".join(str(judgement.exception).splitlines()[:1])
    elif judgement.state in (State.ERROR, State.NOT_RUN):
        outcome = str(judgement.state)
    cases = judgement.evidence.passed + judgement.evidence.pinned
    seconds = time.perf_counter() - started
    return Trial(mutant.name, each.note.id, each.function.__name__, outcome, reason, cases, seconds)


def joined(forms: Sequence[Trial]) -> Trial:
    """What became of a property whose forms were tried: killed by any, else an error, survived, or not run."""
    order = ("killed", "error", "survived", "not-run")
    telling = min(forms, key=lambda form: order.index(form.outcome))
    return replace(telling, cases=sum(form.cases for form in forms), seconds=sum(form.seconds for form in forms))


def attempt(mutant: Mutant, each: Property, specification: Specification, level: Level, seed: int = 0) -> Trial:
    """Run one property under a mutant, form by form until one kills."""
    forms = []
    for given in arguments(each):
        forms.append(try_form(mutant, each, specification.claim(each.note), level, seed, given))
        if forms[-1].killed:
            break
    return joined(forms)


def trials(
    specification: Specification,
    mutants: Iterable[Mutant],
    prefixes: tuple[str, ...] = ("",),
    level: Level = Level.QUICK,
) -> Iterator[Trial]:
    """Each mutant against the properties it is made for; a property that fails without it is an error, not a kill."""
    unchanged = Mutant("none", "The world as it is.", (), nullcontext)
    sound: dict[str, Trial] = {}
    for mutant in mutants:
        for each in specification.properties:
            if not made_for(mutant, each) or not each.note.id.startswith(prefixes):
                continue
            if each.node not in sound:
                sound[each.node] = attempt(unchanged, each, specification, level)
            before = sound[each.node]
            if before.outcome in ("killed", "error"):
                yield replace(before, mutant=mutant.name, outcome="error", reason=f"without a mutant: {before.reason}")
            else:
                yield attempt(mutant, each, specification, level)


def unkilled(specification: Specification, tried: Iterable[Trial]) -> list[str]:
    """Properties that ran and that no mutant made for them killed, each with its claim."""
    tried = list(tried)
    dead = {(trial.claim, trial.function) for trial in tried if trial.killed}
    absent = {(trial.claim, trial.function) for trial in tried if trial.outcome == "not-run"}
    return [
        f"{each.note.id}: {each.function.__name__} ({spoken(each.note.role)})"
        for each in specification.properties
        if (each.note.id, each.function.__name__) not in dead | absent and not _elsewhere(each)
    ]


def _elsewhere(each: Property) -> bool:
    """Whether a property cannot run here at all, at the level mutants are tried at."""
    from properties.needs import missing

    return missing(each.note.needs) is not None or (
        each.note.cost is not None and each.note.cost.lowest > Level.DEFAULT
    )


def spoken(role: Role) -> str:
    """A role as a reader names it."""
    return "a further property" if role is Role.ALSO else f"the {role}"
