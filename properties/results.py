"""From judgements to a record: one property's payload, and the claims of a run summed up, worst first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from properties.claims import Claim, Role, State, Strength, Verdict
from properties.evidence import Evidence, Observation
from properties.judging import Judgement, loose
from properties.needs import REASONS
from properties.report.record import REQUIRED
from properties.specification import Property

SCHEMA = 1
DESELECTED = "deselected"
"""Why a property that was not asked for did not run."""

PHASES: dict[tuple[str, str], State] = {
    ("setup", "passed"): State.RAN,
    ("setup", "failed"): State.ERROR,
    ("setup", "skipped"): State.NOT_RUN,
    ("call", "failed"): State.ERROR,
    ("call", "skipped"): State.NOT_RUN,
    ("teardown", "passed"): State.RAN,
    ("teardown", "failed"): State.ERROR,
}
"""What pytest's outcome of a phase means where the property left no judgement; anything that is not here is an error.

A call that passed is not here: whatever ran, it was not judged.
"""


def state_of(when: str, outcome: str, reason: str, expected_to_fail: bool) -> State:
    """The state that an outcome of pytest's stands for, without a judgement.

    An expected failure, a skip without a reason and an outcome nobody thought of are errors.
    """
    state = PHASES.get((when, outcome), State.ERROR)
    if expected_to_fail or (state is State.NOT_RUN and not reason):
        return State.ERROR
    return state


def number(value: float) -> float | int | str:
    """A number as JSON can hold it: text where it is not finite, an integer where it is one."""
    if type(value) is not float:
        return value
    if not math.isfinite(value):
        return str(value)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def payload(
    each: Property,
    claim: Claim,
    node: str,
    judgement: Judgement,
    needs: list[str],
    repro: str | None,
    failure: str | None,
) -> dict[str, Any]:
    """What one property adds to the record, as plain data."""
    seen = judgement.evidence
    counted = judgement.state is not State.NOT_RUN and (
        seen.passed or seen.pinned or judgement.discarded or seen.inside
    )
    entry = {key: value for key, value in each.facts().items() if key not in ("id", "needs")}
    entry |= {
        "node": node,
        "device": "cuda" if "cuda" in needs else "cpu",
        "state": str(judgement.state),
        "reason": judgement.reason,
        "agrees": judgement.agrees,
        "strength": None if judgement.strength is None else str(judgement.strength),
        "cases": _cases(seen, judgement.discarded) if counted else None,
        "scope": seen.scopes or None,
        "points": seen.points or None,
        "seconds": round(judgement.seconds, 4),
    }
    counterexample = None
    if claim.verdict is Verdict.REFUTED and each.note.role is Role.STATEMENT and judgement.agrees:
        counterexample = {
            "pinned": _case(judgement.pinned_case),
            "found": _case(judgement.found_case),
            "repro": repro,
        }
    outside = None
    if seen.may_fail_used:
        outside = {"failed": seen.outside_failed, "example": seen.outside_example}
    return {
        "id": claim.id,
        "property": entry,
        "needs": needs,
        "evidence": [each for label in seen.observations for each in _observations(seen, label)],
        "counterexample": counterexample,
        "outside": outside,
        "failure": failure,
    }


def _cases(seen: Evidence, discarded: int) -> dict[str, int]:
    return {
        "passed": seen.passed,
        "discarded": discarded,
        "distinct": len(seen.distinct),
        "pinned": seen.pinned,
        "inside": seen.inside,
        "outside": seen.outside,
    }


def _case(case: Mapping[str, object] | None) -> dict[str, str] | None:
    return None if case is None else {name: repr(value) for name, value in case.items()}


def _observations(seen: Evidence, label: str) -> list[dict[str, Any]]:
    worst = seen.worst[label]
    kept = [worst, *(each for each in seen.observations[label] if each is not worst)]
    return [_observation(each, loose(seen, label)) for each in kept]


def _observation(each: Observation, is_loose: bool) -> dict[str, Any]:
    return {
        "label": each.label,
        "rule": number(each.rule),
        "exact": number(each.exact),
        "bound": None if each.bound is None else number(each.bound),
        "error": number(each.error),
        "loose": is_loose,
        "unit": each.unit,
        "where": {str(key): _plain(value) for key, value in each.where.items()},
        "by": each.by,
    }


def _plain(value: object) -> float | int | str:
    return number(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)


def unfinished(facts: Mapping[str, Any], node: str, device: str, state: State, reason: str) -> dict[str, Any]:
    """The entry of a property that left no judgement."""
    entry = {key: value for key, value in facts.items() if key not in ("id", "needs")}
    return entry | {
        "node": node,
        "device": device,
        "state": str(state),
        "reason": reason,
        "agrees": None,
        "strength": None,
        "cases": None,
        "scope": None,
        "points": None,
        "seconds": 0.0,
    }


def assemble(
    catalogue: Mapping[str, Any],
    payloads: Mapping[str, Mapping[str, Any]],
    entries: Mapping[str, Mapping[str, Any]],
    required: Iterable[str],
) -> list[dict[str, Any]]:
    """Every claim of the catalogue, summed up from its properties.

    ``payloads`` and ``entries`` are keyed by node: what judged properties left, and the entry of each property that
    left nothing. ``required`` names the needs whose absence fails the run.
    """
    required = set(required)
    by_claim: dict[str, list[Mapping[str, Any]]] = {}
    # In the order of the specification, not in that in which properties happened to end.
    nodes = list(dict.fromkeys([*catalogue["selected"], *entries]))
    bases = {node.split("[")[0] for node in catalogue["selected"]}
    asked = {facts["id"] for facts in catalogue["properties"] if facts["node"] in bases}
    if not catalogue["deselected"] and all(facts["node"] in bases for facts in catalogue["properties"]):
        asked = {claim["id"] for claim in catalogue["claims"]}
    for facts in catalogue["properties"]:
        for node in _nodes(facts["node"], nodes):
            left = payloads.get(node)
            by_claim.setdefault(facts["id"], []).append(
                {"property": entries[node]} | {"needs": facts["needs"]}
                if left is None
                else {"needs": facts["needs"], **left}
            )
    awaited: dict[str, list[Mapping[str, Any]]] = {}
    for each in catalogue["awaited"]:
        awaited.setdefault(each["id"], []).append(each)
    return [
        _claim(
            claim,
            by_claim.get(claim["id"], []),
            awaited.get(claim["id"], []),
            required if claim["id"] in asked else set(),
        )
        for claim in catalogue["claims"]
    ]


def _nodes(base: str, nodes: Iterable[str]) -> list[str]:
    return [node for node in nodes if node == base or node.startswith(base + "[")]


def _claim(
    claim: Mapping[str, Any],
    parts: list[Mapping[str, Any]],
    awaited: list[Mapping[str, Any]],
    required: set[str],
) -> dict[str, Any]:
    properties = [part["property"] for part in parts]
    summary: dict[str, Any] = dict(claim) | {
        "state": None,
        "reason": None,
        "pending": [],
        "agrees": None,
        "strength": None,
        "properties": properties,
        "evidence": [each for part in parts for each in part.get("evidence", [])],
        "counterexample": next((part["counterexample"] for part in parts if part.get("counterexample")), None),
        "outside": next((part["outside"] for part in parts if part.get("outside")), None),
        "formula": None,
        "mutants": {"killed": [], "survived": []},
        "failure": "\n".join(part["failure"] for part in parts if part.get("failure")) or None,
    }
    summary["false_alarm"] = claim["false_alarm"]
    predictor = next((each["by"] for each in summary["evidence"] if each["by"]), None)
    if predictor is not None:
        summary["formula"] = {"function": predictor, "mathml": None}
    if claim["verdict"] == Verdict.CONTEXT:
        return summary
    waiting = [f"{REASONS[each['needs']]}: {each['what']}" for each in awaited]
    absent = [each["reason"] for each in properties if each["state"] == State.NOT_RUN]
    required_absent = [
        part["property"]["reason"]
        for part in parts
        if part["property"]["state"] == State.NOT_RUN
        and any(REASONS[need] in part["property"]["reason"] for need in required.intersection(part["needs"]))
    ] + [f"{REASONS[each['needs']]}: {each['what']}" for each in awaited if each["needs"] in required]
    errors = [each for each in properties if each["state"] == State.ERROR]
    contradicted = [each for each in properties if each["agrees"] is False]
    inconclusive = [each for each in properties if each["state"] == State.INCONCLUSIVE]
    ran = [each for each in properties if each["state"] == State.RAN]
    if errors:
        summary["state"], summary["reason"] = str(State.ERROR), errors[0]["reason"]
    elif contradicted:
        summary["state"], summary["agrees"] = str(State.RAN), False
    elif required_absent:
        summary["state"], summary["reason"] = str(State.NOT_RUN), REQUIRED + str(required_absent[0])
    elif inconclusive:
        summary["state"], summary["reason"] = str(State.INCONCLUSIVE), inconclusive[0]["reason"]
    elif ran:
        summary["state"], summary["agrees"] = str(State.RAN), True
        summary["strength"] = _strength(ran)
    else:
        summary["state"] = str(State.NOT_RUN)
        summary["reason"] = (absent or waiting or ["no property was selected"])[0]
    if summary["state"] != State.NOT_RUN:
        summary["pending"] = list(dict.fromkeys([*absent, *waiting]))
    elif waiting:
        summary["pending"] = [each for each in dict.fromkeys([*absent, *waiting]) if each != summary["reason"]]
    return summary


def _strength(ran: list[Mapping[str, Any]]) -> str | None:
    """That of the property that states the claim, or of its correction where the claim is refuted."""
    order = [Role.CLAIM, Role.CORRECTION, Role.STATEMENT, Role.ALSO]
    best = min(ran, key=lambda each: order.index(Role(each["role"])))
    return None if best["strength"] is None else str(Strength(best["strength"]))
