"""The record of one run in one environment: its shape, and how it is read, checked and written."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, NotRequired, TypedDict, cast

from properties.report.whole_file import write_whole

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

SCHEMA = 1
SCHEMA_FILE = Path(__file__).with_name("schema.json")
TIME = "%Y-%m-%dT%H:%M:%SZ"
"""How a record writes a UTC time."""
REQUIRED = "required here: "
"""How the reason of a claim begins that a run was told to require and that did not run."""

StateName = Literal["ran", "not-run", "error", "inconclusive"]
StrengthName = Literal["exhaustive", "sampled", "measured", "example"]
Case = dict[str, str | int | float | bool | None]


class EnvironmentRecord(TypedDict):
    """Where, when and how a run happened."""

    name: str
    device: Literal["cpu", "cuda"]
    device_name: str
    driver: NotRequired[str | None]
    platform: str
    python: str
    torch: str
    numpy: str
    hypothesis: str
    einops: str
    jaxtyping: str
    cores: int
    commit: str | None
    dirty: bool | None
    at: str
    level: Literal["quick", "default", "thorough", "exhaustive"]
    seed: int
    partial: bool
    partial_reason: str | None
    seconds: float
    cases: int


class CasesRecord(TypedDict):
    """The cases of one property, counted."""

    passed: int
    discarded: int
    distinct: int
    pinned: int
    inside: int
    outside: int


class PropertyRecord(TypedDict):
    """One property of a claim, and what this run says of it."""

    node: str
    file: str
    line: int
    role: Literal["claim", "also", "statement", "correction"]
    says: str
    device: Literal["cpu", "cuda"]
    state: StateName
    reason: str | None
    agrees: bool | None
    strength: StrengthName | None
    cases: CasesRecord | None
    scope: list[str] | None
    points: int | None
    seconds: float
    source_sha256: str
    source: str


class EvidenceRecord(TypedDict):
    """A number that a rule predicts beside the exact one; infinities and NaN are strings."""

    label: str
    rule: float | str
    exact: float | str
    bound: float | str | None
    error: float | str
    loose: bool
    unit: str
    where: dict[str, str | int | float]
    by: str | None


class CounterexampleRecord(TypedDict):
    """The case that was written down, the case that a search found, and Python that shows it."""

    pinned: Case | None
    found: Case | None
    repro: str | None


class OutsideRecord(TypedDict):
    """How many cases outside the condition were shown to fail, and one of them."""

    failed: int
    example: str | None


class FormulaRecord(TypedDict):
    """The closed form that predicts, by name and as mathematics."""

    function: str
    mathml: str | None


class MutantsRecord(TypedDict):
    """Which mutants the claim noticed, and which it did not."""

    killed: list[str]
    survived: list[str]


class ClaimRecord(TypedDict):
    """One claim, and what this run says of it; a context claim has neither state nor agreement."""

    id: str
    section: str
    origin: Literal["document", "companion"]
    says: str
    says_zh: str
    verdict: Literal["holds", "holds-when", "approximates", "refuted", "context"]
    instead: str | None
    instead_zh: str | None
    source: str | None
    state: StateName | None
    reason: str | None
    pending: list[str]
    agrees: bool | None
    strength: StrengthName | None
    properties: list[PropertyRecord]
    evidence: list[EvidenceRecord]
    counterexample: CounterexampleRecord | None
    outside: OutsideRecord | None
    formula: FormulaRecord | None
    related: list[str]
    false_alarm: float | None
    mutants: MutantsRecord
    failure: str | None


class Record(TypedDict):
    """What one run found in one environment."""

    schema: int
    environment: EnvironmentRecord
    claims: list[ClaimRecord]


class RecordError(Exception):
    """A record that cannot be read, used or written; the message is one line: where, what, and what to do."""


def partial_path(path: Path) -> Path:
    """Where a run that is not a whole one writes, beside ``path``: ``NAME--partial.json``."""
    return path.with_name(f"{path.stem}--partial{path.suffix}")


def content(path: Path) -> bytes:
    """A record's JSON as it was written; one that is kept is compressed, and its name ends in ``.gz``."""
    written = path.read_bytes()
    return gzip.decompress(written) if path.suffix == ".gz" else written


def load(path: Path) -> Record:
    """The record in a file; RecordError where there is none, or none that this version can use."""
    try:
        text = content(path).decode("utf-8")
    except FileNotFoundError:
        raise RecordError(f"{path}: there is no such file; run pytest to write a record") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise RecordError(f"{path}: breaks off or is not compressed ({error}); run pytest to write it again") from None
    except UnicodeDecodeError as error:
        raise RecordError(f"{path}: not a record, byte {error.start} is not UTF-8; name a record's JSON file") from None
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror}); name a record's JSON file") from None
    try:
        told = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise RecordError(
            f"{path}:{error.lineno}: the JSON breaks off or is broken at column {error.colno} ({error.msg});"
            " run pytest to write the record again"
        ) from None
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path}: not a record, {error}; run pytest to write the record again") from None
    return validate(told, str(path))


def save(record: Record, path: Path) -> None:
    """Write a record, whole, creating folders; RecordError leaves an older record as it was."""
    validate(record, str(path))
    # Generated text may hold a lone surrogate, which has no UTF-8; its backslash form is JSON's own escape.
    text = json.dumps(record, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
    try:
        write_whole(path, text.encode("utf-8", errors="backslashreplace"))
    except OSError as error:
        raise RecordError(
            f"{path}: the record could not be written ({error.strerror}), and what stood there stays;"
            " make room, or name another file with --results=PATH"
        ) from None


def validate(record: object, where: str = "record") -> Record:
    """``record`` itself, if it is one of this schema; else RecordError, which begins with ``where``."""
    version = record.get("schema") if isinstance(record, dict) else None
    if not isinstance(version, int) or isinstance(version, bool):
        raise RecordError(f"{where}: not a record of Assay, it has no schema number; name a file that pytest wrote")
    if version != SCHEMA:
        raise RecordError(
            f"{where}: a record of schema {version}, and this version reads schema {SCHEMA};"
            " read it with the version that wrote it, or run pytest again"
        )
    error = _first_error(record, where)
    if error is not None:
        place = _place(record, error.absolute_path)
        raise RecordError(
            f"{where}: {place}: {_shortened(error.message, error.instance)}; run pytest to write it again"
        )
    return _consistent(cast(Record, record), where)


def _first_error(record: Any, where: str) -> ValidationError | None:
    """What is wrong with a record, the deepest and most telling thing first."""
    try:
        from jsonschema.exceptions import best_match
    except ModuleNotFoundError:
        raise RecordError(f"{where}: checking a record needs jsonschema; pip install jsonschema") from None
    first: ValidationError | None = best_match(_validator().iter_errors(record))
    return first


@cache
def _validator() -> Validator:
    """The schema's validator, for which infinities and NaN are no numbers."""
    from jsonschema import Draft202012Validator, validators

    finite = Draft202012Validator.TYPE_CHECKER.redefine("number", _is_finite_number)
    extend: Any = validators.extend
    strict: type[Validator] = extend(Draft202012Validator, type_checker=finite)
    return strict(json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))


def _is_finite_number(checker: object, value: object) -> bool:
    """Whether a value is a number that a float can hold."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"it holds {name}, which JSON lacks")


def _consistent(record: Record, where: str) -> Record:
    """What a schema cannot say: the date is one of the calendar, and no claim stands there twice."""
    at = record["environment"]["at"]
    try:
        datetime.strptime(at, TIME)
    except ValueError:
        raise RecordError(f"{where}: environment.at: {at!r} is no date; run pytest to write it again") from None
    counts = Counter(claim["id"] for claim in record["claims"])
    for id, count in counts.items():
        if count > 1:
            raise RecordError(f"{where}: {id} is recorded {count} times; run pytest to write it again")
    return record


def _place(record: Any, path: Iterable[str | int]) -> str:
    """Where in a record, with the claim's id: ``formats.bytes.zeros-4x8: properties[0].line``."""
    steps = list(path)
    told = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).lstrip(".")
    if len(steps) < 2 or steps[0] != "claims":
        return told or "the record"
    claim = record["claims"][steps[1]]
    name = claim.get("id") if isinstance(claim, dict) else None
    if not isinstance(name, str):
        return told
    field = told.removeprefix(f"claims[{steps[1]}]").lstrip(".")
    return " ".join(f"{name}: {field}".rstrip(": ").split())


def _shortened(message: str, instance: object) -> str:
    """A validator's message on one line, with the value it quotes cut to what a line holds."""
    quoted = repr(instance)
    if len(quoted) > 60:
        message = message.replace(quoted, f"{quoted[:40]}...{quoted[-10:]}")
    line = " ".join(message.split())
    return line if len(line) <= 240 else f"{line[:237]}..."
