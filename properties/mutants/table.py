"""What a run under mutants found: which properties notice which, and which mutants and properties notice nothing."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

from properties.mutants.mutant import Mutant
from properties.mutants.trial import Trial, joined

COARSE = 1 / 3
"""A mutant that more than this share of all claims notice is too coarse to count."""


@dataclass(frozen=True)
class Table:
    """The trials of a run, one a mutant and property, and the properties that ran without one."""

    trials: tuple[Trial, ...]
    ran: tuple[tuple[str, str], ...]
    """Claim and function of each property that ran and agreed without a mutant."""
    claims: int
    """How many claims the specification has that can be checked, whether they ran or not."""

    @classmethod
    def of(cls, payloads: Iterable[Mapping[str, Any]], claims: int) -> Table:
        """From what the properties of a run left, their parametrised forms taken together."""
        forms: list[Trial] = []
        ran: list[tuple[str, str]] = []
        for left in payloads:
            function = left["property"]["node"].partition("[")[0].rpartition("::")[2]
            if left["property"]["agrees"]:
                ran.append((left["id"], function))
            forms += [Trial(**each) for each in left.get("trials", [])]

        def key(each: Trial) -> tuple[str, str, str]:
            return each.claim, each.function, each.mutant

        grouped = groupby(sorted(forms, key=key), key)
        return cls(tuple(joined(list(each)) for _, each in grouped), tuple(dict.fromkeys(ran)), claims)

    @cached_property
    def noticed(self) -> dict[str, list[Trial]]:
        """The trials in which a property noticed, by mutant."""
        found: dict[str, list[Trial]] = {}
        for each in self.trials:
            if each.killed:
                found.setdefault(each.mutant, []).append(each)
        return found

    @cached_property
    def coarse(self) -> list[str]:
        """Mutants that too large a share of all claims notice; what a single claim notices never is too large."""
        noticing = {name: len({each.claim for each in trials}) for name, trials in self.noticed.items()}
        return sorted(name for name, claims in noticing.items() if claims > max(1, COARSE * self.claims))

    @cached_property
    def kills(self) -> list[Trial]:
        """The trials that count: a property noticed a mutant that is not too coarse."""
        return [each for each in self.trials if each.killed and each.mutant not in self.coarse]

    def unkilled(self) -> list[tuple[str, str]]:
        """Properties that ran and that no mutant made them fail."""
        dead = {(each.claim, each.function) for each in self.kills}
        return [each for each in self.ran if each not in dead]

    def by_ours_alone(self) -> list[str]:
        """Claims that only changes to our own oracles, strategies or instruments made fail."""
        wider = {each.claim for each in self.kills if not each.ours}
        return sorted({each.claim for each in self.kills} - wider)

    def alive(self) -> list[Trial]:
        """Trials in which a property ran and did not notice, or broke in another way."""
        return [each for each in self.trials if each.outcome in ("survived", "error")]

    def by_claim(self, id: str) -> dict[str, list[str]]:
        """The mutants that a claim's properties killed, and those that each of them let live."""
        killed = {each.mutant for each in self.kills if each.claim == id}
        survived = {each.mutant for each in self.trials if each.claim == id and each.outcome == "survived"}
        return {"killed": sorted(killed), "survived": sorted(survived - killed)}

    def idle(self) -> list[str]:
        """Mutants that were tried and that nothing noticed."""
        return sorted({each.mutant for each in self.trials if each.outcome != "not-run"} - self.noticed.keys())

    def only_witness(self) -> dict[str, tuple[str, str]]:
        """Mutants that exactly one property notices, with its claim and name."""
        alone = {name: trials[0] for name, trials in sorted(self.noticed.items()) if len(trials) == 1}
        return {name: (each.claim, each.function) for name, each in alone.items()}

    def never_alone(self) -> list[tuple[str, str]]:
        """Properties that ran and noticed no mutant that nothing else noticed."""
        witnesses = set(self.only_witness().values())
        return [each for each in self.ran if each not in witnesses]

    def counts(self, ids: Sequence[str]) -> list[int]:
        """Of these claims: those that ran, those killed, properties, trials, killed, survived, errors."""
        wanted = set(ids)
        trials = [each for each in self.trials if each.claim in wanted]
        outcomes = [each.outcome for each in trials]
        ran = [each for each in self.ran if each[0] in wanted]
        return [
            len({id for id, _ in ran}),
            len({each.claim for each in self.kills} & wanted),
            len(ran),
            len(trials) - outcomes.count("not-run"),
            outcomes.count("killed"),
            outcomes.count("survived"),
            outcomes.count("error"),
        ]

    def cases_to_the_kill(self) -> float:
        """The median number of cases that a kill took."""
        return statistics.median([each.cases + 1 for each in self.trials if each.killed] or [0])


HEAD = ("claims", "noticed", "properties", "trials", "killed", "survived", "error")


def lines(
    table: Table, chapters: Sequence[tuple[str, Sequence[str]]], mutants: Mapping[str, Mutant], all_: bool
) -> list[str]:
    """The table as text: a row a chapter, then what lives and what notices nothing."""
    width = max(len(title) for title, _ in chapters)
    told = [" " * width + "".join(f"  {name:>{len(name)}}" for name in HEAD)]
    for title, ids in chapters:
        counted = table.counts(ids)
        if counted[0]:
            cells = "".join(f"  {count or '-':>{len(name)}}" for name, count in zip(HEAD, counted, strict=True))
            told.append(f"{title:<{width}}{cells}")
    seconds = sum(each.seconds for each in table.trials)
    told.append(
        f"{len({each.mutant for each in table.trials})} mutants, {table.cases_to_the_kill():.0f} cases to the kill"
        f" at the median, {seconds:.0f} s in them"
    )
    if not all_:
        told += [
            f"lives: {each.mutant} under {each.claim}, {each.function}: {each.outcome} {each.reason}".rstrip()
            for each in table.alive()
        ]
    told += [f"nothing kills: {id}, {function}" for id, function in table.unkilled()]
    told += [f"nothing but our own code, changed, makes it fail: {id}" for id in table.by_ours_alone()]
    told += [f"nothing notices: {name}: {mutants[name].sentence}" for name in table.idle()]
    told += [f"too coarse to count: {name}, noticed by more than a third of all claims" for name in table.coarse]
    if all_:
        told += [f"alone in noticing {name}: {id}, {test}" for name, (id, test) in table.only_witness().items()]
        told += [f"notices only what others notice too: {id}, {function}" for id, function in table.never_alone()]
    return told
