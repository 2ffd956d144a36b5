"""The pytest plugin: options, the specification's collection, running and judging its properties, and the record.

Only items under ``spec/`` are claims; all other tests run as pytest runs them.
"""

from __future__ import annotations

import difflib
import gc
import hashlib
import json
import os
import random
import signal
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import pytest
from _pytest._code.code import TerminalRepr
from hypothesis import core

from properties import levels, specification
from properties.claims import NOTE, Claim, MisuseError, Note, Role
from properties.judging import HungError, Judgement, judge
from properties.levels import Level
from properties.needs import REASONS
from properties.specification import FOLDER, Inventory, Property, Specification

if TYPE_CHECKING:
    from properties.mutants.table import Table

PAYLOAD = pytest.StashKey[dict[str, Any]]()
RUN = pytest.StashKey["Run"]()


class ClaimFailure(Exception):
    """Carries the block of text that a contradiction or an error prints."""


class ToldBelow(TerminalRepr):
    """A failure whose text the summary prints: one line among pytest's own failures, the whole text everywhere else."""

    def __init__(self, block: str) -> None:
        self.block = block

    def __str__(self) -> str:
        return self.block

    def toterminal(self, tw: Any) -> None:
        """Write the line that stands for the text."""
        tw.line(self.block.splitlines()[0])
        tw.line("told in full below, under 'unexpected'")


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the options of the claim layer."""
    if pluginmanager.is_blocked("cacheprovider"):  # pyproject.toml says where the cache lies all the same
        parser.addini("cache_dir", "where the cache would lie")
    group = parser.getgroup("assay", "Assay: the claims under spec/")
    group.addoption(
        "--level",
        default="default",
        metavar="LEVEL",
        help="how hard to look for counterexamples: quick (25 cases a property, while editing), default (100), thorough"
        " (2000, minutes), exhaustive (100, and whole domains such as all 2**32 float32 patterns)",
    )
    group.addoption(
        "--claim",
        action="append",
        default=[],
        metavar="ID-OR-PREFIX",
        help="run only this claim, or all whose id starts so: --claim tensors.view.dtype, --claim formats.fp16;"
        " may be given several times",
    )
    group.addoption(
        "--results",
        metavar="PATH",
        help="write the record to this file instead of build/results/<environment>.json; write it as --results=PATH",
    )
    group.addoption(
        "--mutants",
        action="store_true",
        help="after each property, run it again under every mutant made for it: a deliberate change to torch, NumPy or"
        " another library under which it must fail. A property that no mutant fails, and a mutant that lives, fail the"
        " run",
    )
    group.addoption(
        "--all-mutants",
        action="store_true",
        help="the same with every mutant for every property, for the whole matrix; takes hours, and only reports",
    )
    group.addoption(
        "--require",
        action="append",
        default=[],
        metavar="NEED",
        help=f"fail where a property was not run for want of this: {', '.join(REASONS)}. Without it, what cannot be"
        " judged here is listed as not run; on a machine that is there for its GPU, --require cuda makes a broken"
        " driver red",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Check the options, load the level, and settle the run's seed."""
    try:
        level = Level.named(config.getoption("--level"))
    except ValueError as unknown:
        raise pytest.UsageError(f"--level: {unknown}") from None
    for need in config.getoption("--require"):
        if need not in REASONS:
            raise pytest.UsageError(f"--require: nothing is known of {need!r}: use one of {', '.join(REASONS)}")
    levels.register_profiles(config.rootpath / "build" / "hypothesis")
    levels.load(level)
    config.addinivalue_line("markers", "gpu: judged on a CUDA device only")
    run = Run(config, level)
    engine: Any = core
    engine.global_force_seed = run.seed  # for tests that are no claims: a property has a seed of its own
    config.stash[RUN] = run
    config.pluginmanager.register(run, "assay-run")
    for chapter in run.inventory.chapters:
        config.addinivalue_line("markers", f"{chapter.marker}: chapter {chapter.section}, {chapter.title}")


def _run_seed(config: pytest.Config) -> int:
    """The seed of this run: what --hypothesis-seed says, 0 under CI, drawn otherwise."""
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        return int(worker["assay_seed"])
    asked = config.getoption("--hypothesis-seed", default=None)
    if asked is not None:
        try:
            return int(asked)
        except ValueError:
            return int.from_bytes(hashlib.sha256(str(asked).encode()).digest()[:4], "big")
    if os.environ.get("CI", "").lower() not in ("", "0", "false"):
        return 0
    return random.SystemRandom().randrange(2**32)


def property_seed(run_seed: int, node: str) -> int:
    """The seed of one property, from the run's seed and its node id."""
    return int.from_bytes(hashlib.sha256(f"{run_seed}:{node}".encode()).digest()[:8], "big")


class Run:
    """One pytest run over the specification, in one process or as a controller or worker of several."""

    def __init__(self, config: pytest.Config, level: Level) -> None:
        self.config = config
        self.level = level
        self.seed = _run_seed(config)
        self.root = config.rootpath
        self.started = time.time()
        self.inventory = Inventory()
        self.specification: Specification | None = None
        self.environment: dict[str, Any] = {}
        self.catalogue: dict[str, Any] | None = None
        self.catalogue_sent = False
        self.payloads: dict[str, dict[str, Any]] = {}
        self.left: dict[str, tuple[str, str, str, bool]] = {}
        self.claims: list[dict[str, Any]] = []
        self.written: Path | None = None
        self.trouble: str | None = None
        self.deselected = False
        self.mutants = "all" if config.getoption("--all-mutants") else "made" if config.getoption("--mutants") else None
        self.table: Table | None = None
        self.order: list[str] = []
        self.is_worker = hasattr(config, "workerinput")
        self.is_controller = not self.is_worker and bool(config.getoption("numprocesses", default=None))
        if (self.root / FOLDER / "inventory.toml").exists():
            try:
                self.inventory = specification.read_inventory(self.root)
            except MisuseError as wrong:
                raise pytest.UsageError(str(wrong)) from None
        self._check_claims(config.getoption("--claim"))

    def _check_claims(self, asked: list[str]) -> None:
        ids = self.inventory.ids
        for wanted in asked:
            if not any(id.startswith(wanted) for id in ids):
                close = difflib.get_close_matches(wanted, ids, n=3, cutoff=0.5)
                hint = f"; near it are {', '.join(close)}" if close else ""
                raise pytest.UsageError(f"--claim: no claim's id is or starts with {wanted!r}{hint}")

    # ── collection ──────────────────────────────────────────────────────────

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Give a worker the run's seed."""
        node.workerinput["assay_seed"] = self.seed

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Note the order in which properties stand, before anything shuffles them."""
        if self._is_claim(item):
            self.order.append(item.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Read the whole specification, mark its items, and leave those that were asked for."""
        claims = [item for item in items if self._is_claim(item)]
        if not claims:
            return
        from properties import process

        process.prepare()
        self.specification = specification.read(self.root, self.inventory)
        files = {item.path.relative_to(self.root).as_posix() for item in claims}
        problems = [
            *self.specification.problems_in(files),
            *_misplaced(claims, self.specification),
            *_expected_failures(claims, self.root),
        ]
        for problem in problems:
            _report_problem(session, problem)
        if problems:
            self.specification = None
            return
        chapters = {chapter.section: chapter.marker for chapter in self.inventory.chapters}
        sections = {entry.id: entry.section for entry in self.inventory.entries}
        timeout = config.pluginmanager.hasplugin("timeout") and config.getoption("timeout", default=None) is None
        for item in claims:
            note = _note(item)
            item.user_properties.append(("claim", note.id))
            item.user_properties.append(("verdict", str(self.specification.claim(note).verdict)))
            item.add_marker(chapters[sections[note.id]])
            if "cuda" in _needs(item):
                item.add_marker("gpu")
            if timeout and item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(self.level.seconds * (1 if self.mutants is None else 10)))
        asked = config.getoption("--claim")
        if asked:
            kept = [each for each in items if self._is_claim(each) and _asked(_note(each).id, asked)]
            dropped = [each for each in items if each not in set(kept)]
            config.hook.pytest_deselected(items=dropped)
            items[:] = kept

    def _is_claim(self, item: pytest.Item) -> bool:
        return isinstance(item, pytest.Function) and self.root / FOLDER in item.path.parents

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Settle the catalogue: every claim, and the nodes that this run selected."""
        if self.specification is None:
            return
        # Hypothesis takes constants from the modules that are loaded: load all of ours before the first case, so that
        # the cases of a property do not depend on what ran before it in this process.
        from properties import environment, hygiene, process, record, reproduction, results, summary  # noqa: F401

        chosen = {item.nodeid for item in session.items if self._is_claim(item)}
        self.environment = environment.describe(self.root)
        self.catalogue = self.specification.catalogue([node for node in self.order if node in chosen]) | {
            "environment": self.environment,
            "deselected": self.deselected or any("::" in str(asked) for asked in self.config.args),
        }
        process.settle()
        if self.config.getoption("collectonly"):
            _list_claims(self.config, session, self.specification)

    # ── running ─────────────────────────────────────────────────────────────

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        """Judge a property instead of calling it."""
        if not self._is_claim(pyfuncitem) or self.specification is None:
            return None
        from properties.hygiene import Snapshot, WorkingFolder
        from properties.results import payload

        note = _note(pyfuncitem)
        claim = self.specification.claim(note)
        arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
        if "cuda" in _needs(pyfuncitem):
            gc.collect()  # what an earlier property held when it raised is still on the device, in a cycle of frames
        with WorkingFolder() as folder, time_limit_that_ends():
            before = Snapshot()
            judgement = judge(
                pyfuncitem.obj,
                note,
                claim,
                level=self.level,
                seed=property_seed(self.seed, pyfuncitem.nodeid),
                arguments=arguments,
            )
            changed = before.restore() + folder.left()
        if changed:
            _blame(judgement, changed)
        each = self.specification.property_at(pyfuncitem.nodeid, note)
        repro, block = self._told(each, claim, pyfuncitem.nodeid, judgement, arguments)
        left = payload(each, claim, pyfuncitem.nodeid, judgement, _needs(pyfuncitem), repro, block)
        if self.mutants is not None and judgement.agrees:
            left["trials"] = self._trials(each, claim, arguments)
        pyfuncitem.stash[PAYLOAD] = left
        if block is not None:
            raise ClaimFailure(block) from judgement.exception
        if judgement.state != "ran":
            pytest.skip(judgement.reason or "")
        return True

    def _told(
        self, each: Property, claim: Claim, node: str, judgement: Judgement, arguments: dict[str, Any]
    ) -> tuple[Any, str | None]:
        """What shows a counterexample again, and the text of a failure; None for what there is not."""
        from properties import environment
        from properties.reproduction import failure_block, reproduce

        if judgement.agrees is False or judgement.state == "error":
            lines = environment.lines(self.environment)
            return None, failure_block(claim, each.note, judgement, node, each.function, lines, arguments)
        if each.note.role is Role.STATEMENT:
            case = judgement.found_case or judgement.pinned_case or {}
            return reproduce(each.function, {**arguments, **case}), None
        return None, None

    def _trials(self, each: Property, claim: Claim, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        """A property that agrees, under the mutants of this run."""
        from properties.mutants import mutant, trial

        tried = [
            trial.try_form(world, each, claim, self.level, arguments=arguments)
            for world in mutant.load().values()
            if self.mutants == "all" or trial.made_for(world, each)
        ]
        return [asdict(each) for each in tried]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
        """Attach what a property left to its report, as one string that also crosses process borders."""
        outcome = yield
        if not self._is_claim(item):
            return
        report = outcome.get_result()
        if not self.catalogue_sent and self.is_worker:
            report.assay_catalogue = json.dumps(self.catalogue)
            self.catalogue_sent = True
        if call.excinfo is not None and isinstance(call.excinfo.value, ClaimFailure):
            if self.config.get_verbosity() > 0:
                report.sections.append(("traceback", str(call.excinfo.getrepr(style="native", chain=True))))
            report.longrepr = str(call.excinfo.value)
        if report.when == "call" and PAYLOAD in item.stash:
            report.assay_payload = json.dumps(item.stash[PAYLOAD])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Gather what the reports bring, wherever the property ran."""
        catalogue = getattr(report, "assay_catalogue", None)
        if catalogue is not None and self.catalogue is None:
            self.catalogue = json.loads(catalogue)
            self.environment = self.catalogue["environment"]
            self.deselected = self.catalogue["deselected"]
        left = getattr(report, "assay_payload", None)
        if left is not None:
            self.payloads[report.nodeid] = json.loads(left)
            if self.payloads[report.nodeid]["failure"] and not self.is_worker:
                report.longrepr = ToldBelow(str(report.longrepr))
        if left is None or report.when != "call":
            reason = _reason(report)
            worst = (report.when or "", report.outcome, reason, hasattr(report, "wasxfail"))
            if report.outcome != "passed" or report.nodeid not in self.left:
                self.left[report.nodeid] = worst
        if report.when == "teardown" and report.outcome != "passed" and report.nodeid in self.payloads:
            judged = self.payloads[report.nodeid]["property"]
            if judged["state"] != "error":
                reason = _reason(report) or "its teardown did not pass"
                judged |= {"state": "error", "reason": reason, "agrees": None, "strength": None}

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Remember that this is not the whole specification."""
        self.deselected = self.deselected or any(self._is_claim(item) for item in items)

    # ── the end ─────────────────────────────────────────────────────────────

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Sum up and write the record, after interruptions too."""
        if self.is_worker or self.config.getoption("collectonly"):
            return
        if self.catalogue is None:
            if self.is_controller and any(node.startswith(f"{FOLDER}/") for node in self.left):
                self.trouble = "no worker lived to say what the claims are; no record was written"
            return
        from properties import record, summary
        from properties.report.record import RecordError

        self.claims = record.sum_up(self)
        if self.mutants is not None:
            self._judge_mutants()
        try:
            self.written = record.write(self)
        except RecordError as failure:
            self.trouble = f"the record was not written: {failure}"
        unexpected = any(summary.column(claim) == "unexpected" for claim in self.claims)
        noisy = summary.too_noisy(self.claims, self.environment["device"])
        if session.exitstatus in (0, pytest.ExitCode.NO_TESTS_COLLECTED) and (self.trouble or unexpected or noisy):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _judge_mutants(self) -> None:
        """Put what the mutants showed into the claims; where one lives, or none kills, the run fails."""
        from properties.mutants.table import Table

        self.table = Table.of(self.payloads.values(), sum(claim["verdict"] != "context" for claim in self.claims))
        for claim in self.claims:
            claim["mutants"] = self.table.by_claim(claim["id"])
        if self.mutants == "made" and (self.table.alive() or self.table.unkilled() or self.table.by_ours_alone()):
            self.trouble = "a mutant lives, or what should notice one does not: see the table of mutants"

    def pytest_report_header(self, config: pytest.Config) -> str:
        """One line: level, seed, torch, device, cores."""
        from properties import summary

        return summary.header(self)

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """The table of verdicts, what is refuted, and what is unexpected."""
        if self.claims or self.trouble:
            from properties import summary

            summary.write(self, terminalreporter)

    @property
    def node_states(self) -> dict[str, tuple[str, str, str, bool]]:
        """For every node that reported and left no judgement: phase, outcome, reason, and whether it was to fail."""
        return {node: seen for node, seen in self.left.items() if node not in self.payloads}

    def partial_reason(self, unfinished: int) -> str | None:
        """Why the record of this run is not a whole one, or None."""
        if unfinished:
            return f"{unfinished} {'property' if unfinished == 1 else 'properties'} did not finish"
        assert self.catalogue is not None
        if self.mutants == "all":
            return "every property met every mutant"
        if not self.catalogue["complete"]:
            return "a part of the specification could not be read"
        bases = {node.split("[")[0] for node in self.catalogue["selected"]}
        if self.catalogue["deselected"] or any(each["node"] not in bases for each in self.catalogue["properties"]):
            return "some properties were deselected"
        if self.level is not Level.DEFAULT:
            return f"the level was {self.level.title}"
        return None

    def now(self) -> str:
        """The time a record carries, UTC."""
        return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _note(item: pytest.Item) -> Note:
    note = getattr(item.obj, NOTE)  # type: ignore[attr-defined]
    assert isinstance(note, Note)
    return note


def _needs(item: pytest.Item) -> list[str]:
    """What a property needs, in the form that this item is."""
    from properties.needs import of_form

    form = getattr(item, "callspec", None)
    return of_form(_note(item).needs, {} if form is None else form.params)


def _asked(id: str, asked: list[str]) -> bool:
    return any(id.startswith(wanted) for wanted in asked)


def _expected_failures(items: list[pytest.Item], root: Path) -> list[str]:
    return [
        f"{specification.shown(_note(item).file, root)}:{_note(item).line}: {item.name} is marked xfail; a claim that"
        " is false is @refuted, with its correction"
        for item in items
        if hasattr(item.obj, NOTE) and item.get_closest_marker("xfail") is not None  # type: ignore[attr-defined]
    ]


def _misplaced(items: list[pytest.Item], found: Specification) -> list[str]:
    """Tests under spec/ that no reading of its modules finds: methods, imported functions, modules in a subfolder."""
    nodes = {each.node for each in found.properties}
    problems = []
    for item in items:
        file, line, name = item.location
        is_method = getattr(item, "cls", None) is not None
        if is_method or (hasattr(item.obj, NOTE) and item.nodeid.split("[")[0] not in nodes):  # type: ignore[attr-defined]
            problems.append(
                f"{Path(file).as_posix()}:{(line or 0) + 1}: {name} is no property; write each as a function of its own"
                f" module, directly under {FOLDER}/"
            )
        elif item.path.parent != found.root / FOLDER:
            problems.append(
                f"{Path(file).as_posix()}:{(line or 0) + 1}: {name} stands in a folder of its own, and the"
                f" specification is the modules directly under {FOLDER}/; move it there, or out of {FOLDER}/"
            )
    return problems


@contextmanager
def time_limit_that_ends() -> Iterator[None]:
    """Have pytest-timeout's alarm end a property as a whole.

    What the alarm raises looks to Hypothesis like a failing case, which it would repeat and shrink, with no alarm left.
    """
    alarm = int(getattr(signal, "SIGALRM", 0))
    limit = signal.getsignal(alarm) if alarm else None
    if not callable(limit) or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ended(signum: int, frame: FrameType | None) -> None:
        try:
            limit(signum, frame)
        except pytest.fail.Exception as raised:
            raise HungError(str(raised)) from None

    signal.signal(alarm, ended)
    try:
        yield
    finally:
        signal.signal(alarm, limit)


def _report_problem(session: pytest.Session, problem: str) -> None:
    """Make a problem of the specification a collection error of pytest's."""
    node = problem.split(":", 1)[0]
    report = pytest.CollectReport(nodeid=node, outcome="failed", longrepr=problem, result=[])
    session.config.hook.pytest_collectreport(report=report)


def _blame(judgement: Judgement, changed: list[str]) -> None:
    from properties.claims import State

    judgement.state, judgement.agrees, judgement.strength = State.ERROR, None, None
    found = "contradicted" if isinstance(judgement.exception, AssertionError) else judgement.reason
    judgement.reason = f"the property changed the process and did not put it back: {', '.join(changed)}" + (
        f"; besides: {found}" if found else ""
    )
    judgement.exception = None


def _reason(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):
        told = str(report.longrepr[2]).removeprefix("Skipped").lstrip(": ")
        return "" if told == "unconditional skip" else told  # what pytest says where nobody gave a reason
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return f"{report.when}: {crash.message}".splitlines()[0]
    text = str(report.longrepr or "").strip()
    return text.splitlines()[-1] if text else ""


def _list_claims(config: pytest.Config, session: pytest.Session, found: Specification) -> None:
    """Under --collect-only -q, show claims instead of node ids."""
    reporter: Any = config.pluginmanager.getplugin("terminalreporter")
    if reporter is None or config.get_verbosity() >= 0:
        return
    selected = {_note(item).id for item in session.items if hasattr(getattr(item, "obj", None), NOTE)}
    asked = config.getoption("--claim")
    whole = not asked and len(selected) == len({each.note.id for each in found.properties})

    def listed(items: list[pytest.Item]) -> None:
        for id in found.inventory.ids:
            claim = found.claims[id]
            if whole or id in selected:
                reporter.write_line(f"{id}  [{claim.verdict}]  {claim.says}")

    reporter._printcollecteditems = listed
