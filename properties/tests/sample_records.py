"""Records made up for the tests of the report: valid ones in which nothing that may be said is left out."""

from __future__ import annotations

import copy
from typing import Any

from properties.report.merge import Standing
from properties.report.record import REQUIRED, Record, validate

PROPERTY = {
    "node": "spec/test_01_number_formats.py::test_bytes_are_elements_times_itemsize",
    "file": "spec/test_01_number_formats.py",
    "line": 12,
    "role": "claim",
    "says": "A tensor takes its number of elements times the bytes of one element.",
    "device": "cpu",
    "state": "ran",
    "reason": None,
    "agrees": True,
    "strength": "sampled",
    "cases": {"passed": 100, "discarded": 3, "distinct": 98, "pinned": 2, "inside": 40, "outside": 60},
    "scope": ["all 256 codes"],
    "points": 256,
    "seconds": 0.2,
    "source_sha256": "0" * 64,
    "source": "def test_bytes():\n    assert 1 < 2\n",
}
EVIDENCE: dict[str, Any] = {
    "label": "bytes",
    "rule": 128,
    "exact": 128.5,
    "bound": 0.01,
    "error": 0.0039,
    "loose": False,
    "unit": "B",
    "where": {"shape": "(4, 8)", "itemsize": 4},
    "by": "storage_bytes",
}
CLAIM = {
    "id": "formats.bytes.numel-times-itemsize",
    "section": "1",
    "origin": "document",
    "says": "A tensor takes its number of elements times the bytes of one element.",
    "says_zh": "张量占用的内存等于元素个数乘以单个元素的字节数。",
    "verdict": "holds-when",
    "instead": "it covers its storage once",
    "instead_zh": "恰好覆盖存储一次",
    "source": None,
    "state": "ran",
    "reason": None,
    "pending": ["needs a CUDA device"],
    "agrees": True,
    "strength": "sampled",
    "properties": [PROPERTY],
    "evidence": [EVIDENCE],
    "counterexample": {
        "pinned": {"size": 3},
        "found": {"size": "(1,)"},
        "repro": "import torch\nassert 1 < 2\n",
    },
    "outside": {"failed": 7, "example": "layout=torch.zeros(3)[1:]"},
    "formula": {"function": "storage_bytes", "mathml": "<math><mi>n</mi></math>"},
    "related": ["formats.bytes.zeros-4x8"],
    "false_alarm": 1e-9,
    "mutants": {"killed": ["eager-copy"], "survived": ["slow-copy"]},
    "failure": "formats.bytes.numel-times-itemsize: contradicted",
}
CONTEXT = {
    **CLAIM,
    "id": "formats.fp16.names",
    "says": "float16 is called half precision.",
    "verdict": "context",
    "source": "the document, section 1",
    "state": None,
    "pending": [],
    "agrees": None,
    "strength": None,
    "properties": [],
    "evidence": [],
    "counterexample": None,
    "outside": None,
    "formula": None,
    "false_alarm": None,
    "failure": None,
}
ENVIRONMENT = {
    "name": "cpu-linux-x86_64-py3.11-torch2.13.0",
    "device": "cpu",
    "device_name": "a processor",
    "driver": None,
    "platform": "Linux",
    "python": "3.11.2",
    "torch": "2.13.0",
    "numpy": "2.4.6",
    "hypothesis": "6.170.17",
    "einops": "0.8.1",
    "jaxtyping": "0.3.3",
    "cores": 2,
    "commit": "0123456789abcdef",
    "dirty": False,
    "at": "2026-12-01T12:00:00Z",
    "level": "default",
    "seed": 0,
    "partial": False,
    "partial_reason": None,
    "seconds": 14.5,
    "cases": 6400,
}


def sample() -> dict[str, Any]:
    """A valid record in which nothing that may be said is left out."""
    return copy.deepcopy({"schema": 1, "environment": ENVIRONMENT, "claims": [CLAIM, CONTEXT]})


def record(claims: list[dict[str, Any]], **environment: Any) -> Record:
    """A valid record of these claims."""
    made = {"schema": 1, "environment": {**ENVIRONMENT, **environment}, "claims": claims}
    return validate(copy.deepcopy(made))


def judged(id: str, state: str, agrees: bool | None, reason: str | None, sha: str = "0" * 64) -> dict[str, Any]:
    """A claim in a state, with one property in the same state."""
    outcome = {"state": state, "agrees": agrees, "reason": reason}
    made = {**PROPERTY, **outcome, "node": f"spec/test_x.py::{id}", "source_sha256": sha}
    return {**CLAIM, **outcome, "id": id, "properties": [made]}


RAN = ("ran", True, None)
OUTCOMES = {
    Standing.ERROR: ("error", None, "no case was inside the condition"),
    Standing.CONTRADICTED: ("ran", False, None),
    Standing.REQUIRED: ("not-run", None, f"{REQUIRED}needs a CUDA device"),
    Standing.INCONCLUSIVE: ("inconclusive", None, "the interval straddles 2.5"),
    Standing.RAN: RAN,
    Standing.NOT_RUN: ("not-run", None, "needs a CUDA device"),
}


def full_record(**environment: Any) -> Record:
    """A record with a claim of every verdict and every standing."""
    claims = [judged(f"formats.state.{each.name.lower().replace('_', '-')}", *OUTCOMES[each]) for each in Standing]
    for verdict in ("holds", "holds-when", "approximates", "refuted"):
        claims.append({**CLAIM, "id": f"formats.verdict.{verdict}", "verdict": verdict})
    return record([*claims, CONTEXT], **environment)
