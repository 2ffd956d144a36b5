"""Several records as one view, claim by claim and worst first, with each environment's own word beside it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from properties.report.record import REQUIRED, ClaimRecord, EnvironmentRecord, MutantsRecord, Record


class Standing(IntEnum):
    """What became of a claim: the smaller of two is the worse, and a merged claim has the worst."""

    ERROR = 0
    CONTRADICTED = 1
    REQUIRED = 2
    INCONCLUSIVE = 3
    RAN = 4
    NOT_RUN = 5


def standing(claim: ClaimRecord) -> Standing | None:
    """Where a claim stands in one record; None for context, which is never judged."""
    match claim["state"]:
        case None:
            return None
        case "error":
            return Standing.ERROR
        case "inconclusive":
            return Standing.INCONCLUSIVE
        case "ran":
            return Standing.RAN if claim["agrees"] else Standing.CONTRADICTED
        case "not-run":
            required = (claim["reason"] or "").startswith(REQUIRED)
            return Standing.REQUIRED if required else Standing.NOT_RUN


def worst(standings: Iterable[Standing | None]) -> Standing | None:
    """The worst of those that were judged; None where none was."""
    return min((each for each in standings if each is not None), default=None)


@dataclass(frozen=True)
class Sighting:
    """One environment's word on a claim; stale where a property has changed since."""

    environment: EnvironmentRecord
    claim: ClaimRecord
    standing: Standing | None
    stale: bool


@dataclass(frozen=True)
class MergedClaim:
    """A claim as the newest record words it, and what all of them say of it, by name of the environment."""

    claim: ClaimRecord
    sightings: tuple[Sighting, ...]
    mutants: MutantsRecord
    """The mutants that today's properties noticed in any run, and those that they noticed in none."""

    @property
    def standing(self) -> Standing | None:
        """The worst of all environments; None for context."""
        return None if self.claim["verdict"] == "context" else worst(each.standing for each in self.sightings)

    def seen_in(self, environment: str) -> Sighting | None:
        """What one environment says of it, by the environment's name; None where its record has not the claim."""
        return next((each for each in self.sightings if each.environment["name"] == environment), None)

    @property
    def stale(self) -> bool:
        """Whether only older forms of the claim's properties say what the merged standing says."""
        return self.shown.stale

    @property
    def shown(self) -> Sighting:
        """The sighting to tell in full: one with the merged standing, a fresh one first, then the newest."""
        deciding = [each for each in self.sightings if each.standing is self.standing] or list(self.sightings)
        return max(deciding, key=lambda each: (not each.stale, each.environment["at"], each.environment["name"]))

    @property
    def pending(self) -> tuple[str, ...]:
        """What is pending in every environment that judged the claim, and so is answered by none."""
        judged = [each.claim for each in self.sightings if each.standing is not Standing.NOT_RUN]
        first, *others = judged or [each.claim for each in self.sightings]
        return tuple(what for what in first["pending"] if all(what in other["pending"] for other in others))


@dataclass(frozen=True)
class Merged:
    """One view of several records, in the document's order."""

    environments: tuple[EnvironmentRecord, ...]
    claims: tuple[MergedClaim, ...]


def choose(records: Iterable[Record]) -> tuple[Record, ...]:
    """One record for each environment: the newest whole one, or the newest where none is whole."""
    best: dict[str, Record] = {}
    for record in records:
        name = record["environment"]["name"]
        if name not in best or _rank(record) > _rank(best[name]):
            best[name] = record
    return tuple(best[name] for name in sorted(best))


def current(records: Iterable[Record]) -> tuple[Record, ...]:
    """Those that ``choose`` keeps, without any in which every property has been written otherwise since."""
    chosen = choose(records)
    seen = [each for claim in merge(chosen).claims for each in claim.sightings if each.claim["properties"]]
    fresh, stale = ({each.environment["name"] for each in seen if each.stale is aged} for aged in (False, True))
    return tuple(record for record in chosen if record["environment"]["name"] not in stale - fresh)


def merge(records: Iterable[Record], tried: Iterable[Record] = ()) -> Merged:
    """One view of the records that ``choose`` keeps. It reads the records, and never edits one.

    ``tried`` are records of which only the mutants are told: most runs try none, and what an older one found of the
    same properties still holds.

    A sighting is stale where one of its properties has another source in the newest record that has the
    property, or is no longer among the claim's properties in a newer whole record.
    """
    chosen = choose(records)
    newest_first = sorted(chosen, key=_age, reverse=True)
    sources = _newest_sources(newest_first)
    by_id = [(record["environment"], {claim["id"]: claim for claim in record["claims"]}) for record in newest_first]
    tries = [{claim["id"]: claim for claim in record["claims"]} for record in (*chosen, *tried)]
    merged = []
    for id in _in_document_order(newest_first):
        sightings: list[Sighting] = []
        current: frozenset[str] | None = None
        for environment, claims in by_id:
            if id not in claims:
                continue
            claim = claims[id]
            sightings.append(Sighting(environment, claim, standing(claim), _stale(claim, sources, current)))
            if current is None and not environment["partial"]:
                current = frozenset(each["node"] for each in claim["properties"])
        newest = sightings[0].claim
        sightings.sort(key=lambda each: each.environment["name"])
        met = [claims[id] for claims in tries if id in claims and not _stale(claims[id], sources, current)]
        merged.append(MergedClaim(newest, tuple(sightings), _mutants(met)))
    return Merged(tuple(record["environment"] for record in chosen), tuple(merged))


def _mutants(claims: Iterable[ClaimRecord]) -> MutantsRecord:
    told = [claim["mutants"] for claim in claims]
    killed = {name for each in told for name in each["killed"]}
    survived = {name for each in told for name in each["survived"]}
    return {"killed": sorted(killed), "survived": sorted(survived - killed)}


def _age(record: Record) -> tuple[str, str]:
    """A total order of records by their time, so that no result depends on the order they are given in."""
    return record["environment"]["at"], json.dumps(record, sort_keys=True)


def _rank(record: Record) -> tuple[bool, tuple[str, str]]:
    return not record["environment"]["partial"], _age(record)


def _in_document_order(newest_first: Sequence[Record]) -> list[str]:
    """Every id by section; within one as the newest record has them, then those that only older ones know."""
    sections: dict[str, str] = {}
    for record in newest_first:
        for claim in record["claims"]:
            sections.setdefault(claim["id"], claim["section"])
    return sorted(sections, key=lambda id: int(sections[id]))


def _newest_sources(newest_first: Sequence[Record]) -> dict[str, str]:
    sources: dict[str, str] = {}
    for record in newest_first:
        for claim in record["claims"]:
            for each in claim["properties"]:
                sources.setdefault(each["node"], each["source_sha256"])
    return sources


def _stale(claim: ClaimRecord, sources: dict[str, str], current: frozenset[str] | None) -> bool:
    """Whether a property has changed since: ``current`` are the claim's properties in a newer record."""
    return any(
        each["source_sha256"] != sources.get(each["node"]) or (current is not None and each["node"] not in current)
        for each in claim["properties"]
    )
