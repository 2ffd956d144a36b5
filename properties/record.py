"""Writing what a run found: one record an environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from properties.claims import State
from properties.report.record import Record, partial_path, save
from properties.results import DESELECTED, SCHEMA, assemble, state_of, unfinished

if TYPE_CHECKING:
    from properties.plugin import Run


UNFINISHED = "the run ended before it was through"


def sum_up(run: Run) -> list[dict[str, Any]]:
    """Every claim of the specification, with what became of it in this run."""
    assert run.catalogue is not None
    entries = _entries(run)
    return assemble(run.catalogue, run.payloads, entries, run.config.getoption("--require"))


def _entries(run: Run) -> dict[str, dict[str, Any]]:
    """The entry of each property that left no judgement, by node."""
    assert run.catalogue is not None
    facts = {each["node"]: each for each in run.catalogue["properties"]}
    entries: dict[str, dict[str, Any]] = {}
    reported = run.node_states
    for node in run.catalogue["selected"]:
        if node in run.payloads:
            continue
        base, _, form = node.partition("[")
        device = "cuda" if "cuda" in [*facts[base]["needs"], *form.rstrip("]").split("-")] else "cpu"
        state, reason = State.NOT_RUN, UNFINISHED
        if node in reported:
            when, outcome, told, expected = reported[node]
            state = state_of(when, outcome, told, expected)
            reason = told or f"{when} {outcome}, and nothing says why"
            if state is State.RAN:
                state, reason = State.NOT_RUN, UNFINISHED
        entries[node] = unfinished(facts[node.split("[")[0]], node, device, state, reason)
    selected = {node.split("[")[0] for node in run.catalogue["selected"]}
    for node, fact in facts.items():
        if node not in selected:
            entries[node] = unfinished(fact, node, "cpu", State.NOT_RUN, DESELECTED)
    return entries


def unfinished_count(run: Run) -> int:
    """Selected properties that left no judgement and were not skipped for a reason."""
    assert run.catalogue is not None
    return sum(
        node not in run.payloads and run.node_states.get(node, ("", "", "", False))[:2] != ("setup", "skipped")
        for node in run.catalogue["selected"]
    )


def whole(run: Run) -> Record:
    """The record of this run, as plain data; saving it validates it."""
    import time

    reason = run.partial_reason(unfinished_count(run))
    environment: Mapping[str, Any] = run.environment
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "environment": {
            **environment,
            "at": run.now(),
            "level": run.level.title,
            "seed": run.seed,
            "partial": reason is not None,
            "partial_reason": reason,
            "seconds": round(time.time() - run.started, 2),
            "cases": cases(run.claims),
        },
        "claims": run.claims,
    }
    return cast(Record, record)


def cases(claims: list[dict[str, Any]]) -> int:
    """Generated cases that really ran and passed, pinned ones and points of finite scopes besides."""
    return sum(
        sum((each["cases"] or {}).get(kind, 0) for kind in ("passed", "pinned")) + (each["points"] or 0)
        for claim in claims
        for each in claim["properties"]
    )


def write(run: Run) -> Path:
    """Write the record and return where it stands; RecordError where that fails."""
    record = whole(run)
    asked = run.config.getoption("--results")
    if asked:
        path = Path(asked)
    else:
        path = run.root / "build" / "results" / f"{run.environment['name']}.json"
        if record["environment"]["partial"]:
            path = partial_path(path)
    save(record, path)
    return path
