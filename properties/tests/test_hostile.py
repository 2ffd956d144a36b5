"""Properties that misbehave: each is reported as what it is, the others' verdicts stand, and the record is whole."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from textwrap import indent

import pytest

from properties.results import PHASES, state_of
from properties.tests.conftest import Here, Project

WORKERS = '''
@holds("h.first")
@given(n=st.integers(0, 10**6))
def test_first(n):
    """Numbers are not negative."""
    assert n >= 0


@holds("h.kills")
@given(n=st.integers(0, 10**6))
def test_kills(n):
    """Its worker lives."""
    if n > 100:
        os._exit(3)
    assert n >= 0


@holds("h.hangs-in-a-case")
@pytest.mark.timeout(1)
@given(n=st.integers(0, 10**6))
def test_hangs_in_a_case(n):
    """It ends."""
    time.sleep(60)
    assert n >= 0


@holds("h.hangs-in-a-strategy")
@pytest.mark.timeout(1)
@given(n=st.integers(0, 10**6).map(lambda n: time.sleep(60)))
def test_hangs_in_a_strategy(n):
    """It ends."""
    assert n is None


@holds("h.hangs-quietly")
@pytest.mark.timeout(1)
def test_hangs_quietly():
    """It ends."""
    try:
        time.sleep(60)
    except Exception:
        pass
    assert int("1")


@refuted("h.hangs-pinned", instead="It does not.")
@pytest.mark.timeout(1)
@given(n=st.integers(0, 10**6))
@example(n=1)
def test_hangs_pinned(n):
    """It ends."""
    time.sleep(60)
    assert n < 0


@corrects("h.hangs-pinned")
def test_does_not():
    """It does not."""
    assert int("1")


@holds("h.memory")
@given(n=st.integers(0, 10**6))
def test_memory(n):
    """There is memory without end."""
    import resource
    now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + 2**26, before[1]))
    try:
        assert len(bytearray(2**30))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@holds("h.last")
@given(n=st.integers(0, 10**6))
def test_last(n):
    """Numbers are not negative."""
    assert n >= 0
'''


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: a limit on memory")
def test_killed_and_hanging_properties_are_errors_and_the_others_stand(project: Project) -> None:
    ids = [line.split('"')[1] for line in WORKERS.splitlines() if line.startswith(("@holds", "@refuted"))]
    project.inventory(*ids)
    project.module(WORKERS)
    ended = project.run("-n", "2")
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert set(project.records()) == {"partial"}
    record = project.records()["partial"]
    assert record["environment"]["partial_reason"] == "1 property did not finish"
    found = {claim["id"]: claim for claim in record["claims"]}
    assert list(found) == ids
    for id in ("h.first", "h.last"):
        assert (found[id]["state"], found[id]["agrees"]) == ("ran", True)
    for id in set(ids) - {"h.first", "h.last"}:
        assert (found[id]["state"], found[id]["agrees"], found[id]["strength"]) == ("error", None, None), found[id]
    assert "crashed while running 'spec/test_01_numbers.py::test_kills'" in found["h.kills"]["reason"]
    for id in ("h.hangs-in-a-case", "h.hangs-in-a-strategy", "h.hangs-quietly", "h.hangs-pinned"):
        assert found[id]["reason"].startswith("HungError: Timeout (>1"), found[id]["reason"]
        assert found[id]["properties"][0]["seconds"] < 30
    assert found["h.memory"]["reason"] == "MemoryError"


QUIET = """
said = []


@pytest.fixture
def broken():
    raise ValueError("no set-up")


@pytest.fixture
def breaking():
    yield
    raise ValueError("no teardown")


@pytest.fixture
def skipping():
    pytest.skip("no such thing")


@pytest.fixture
def skipping_silently():
    pytest.skip()


@pytest.fixture
def expecting():
    pytest.xfail("known")


@pytest.fixture
def forgiving(request):
    request.node.add_marker(pytest.mark.xfail(reason="known"))


{properties}
"""
INTEGERS = "@given(n=st.integers(0, 10**6))"
UNSAID = "setup skipped, and nothing says why"


@dataclass(frozen=True)
class Hostile:
    """A property of the claim ``h.NAME``, and what is to be said of it: its state, and how the reason begins."""

    name: str
    state: str
    reason: str | None
    body: str = "assert int('1')"
    takes: str = ""
    above: str = ""

    def source(self) -> str:
        """The property, as a module of the specification holds it."""
        above = f"{self.above}\n" if self.above else ""
        head = f"def test_{self.name.replace('-', '_')}({self.takes}):"
        return (
            f'@holds("h.{self.name}")\n{above}{head}\n    """It is so: 0 ≤ 1."""\n' + indent(self.body, "    ") + "\n"
        )


CASES = [
    Hostile("mark-skip-reason", "not-run", "no such thing", above="@pytest.mark.skip(reason='no such thing')"),
    Hostile("mark-skip", "error", UNSAID, above="@pytest.mark.skip"),
    Hostile("mark-skip-empty", "error", UNSAID, above="@pytest.mark.skip(reason='')"),
    Hostile("mark-skipif", "not-run", "no such thing", above="@pytest.mark.skipif(True, reason='no such thing')"),
    Hostile("fixture-skip", "not-run", "no such thing", takes="skipping"),
    Hostile("fixture-skip-silent", "error", UNSAID, takes="skipping_silently"),
    Hostile("fixture-xfail", "error", "setup: _pytest.outcomes.XFailed: known", takes="expecting"),
    Hostile("fixture-broken", "error", "setup: ValueError: no set-up", takes="broken"),
    Hostile("fixture-breaking", "error", "teardown: ValueError: no teardown", takes="breaking"),
    Hostile("fixture-forgiving", "ran", None, "assert int('0')", takes="forgiving"),
    Hostile("call-skip", "not-run", "no such thing", "pytest.skip('no such thing')\nassert 1"),
    Hostile("call-skip-silent", "error", "Skipped", "pytest.skip()\nassert 1"),
    Hostile("call-xfail", "error", "XFailed: known", "pytest.xfail('known')\nassert 1"),
    Hostile("call-xfail-generated", "error", "XFailed: known", "pytest.xfail('known')\nassert n", "n", INTEGERS),
    Hostile("call-exit", "error", "Exit: stop", "pytest.exit('stop')\nassert 1"),
    Hostile("system-exit", "error", "SystemExit: 3", "sys.exit(3)\nassert n", "n", INTEGERS),
    Hostile("base-exception", "error", "BaseException: odd", "raise BaseException('odd')\nassert n", "n", INTEGERS),
    Hostile("recursion", "error", "RecursionError: ", "def f(n):\n    return f(n + 1)\nassert f(0)"),
    Hostile("prints", "ran", None, "print('x' * 10**5)\nassert n >= 0", "n", INTEGERS),
    Hostile("flaky", "error", "FlakyFailure: ", "said.append(n)\nassert len(said) > 1", "n", INTEGERS),
    Hostile("discards", "error", "", "assume(False)\nassert n", "n", INTEGERS),
    Hostile("silent", "error", "no case came to an assertion", "if n == 'x':\n    assert n", "n", INTEGERS),
    Hostile("writes", "error", "the property changed the process", "open('junk.txt', 'w').close()\nassert 1"),
    Hostile("words", "error", "ValueError: ", "raise ValueError('\\x00\\ud800 \\x1b[31m' + 'x' * 10**7)\nassert 1"),
    Hostile("contradiction-words", "ran", None, "assert 'ab' * 10**6 == '\\ud800'"),
    Hostile("unicode", "ran", None, "assert '≤' == 'ä'"),
    Hostile("good", "ran", None, "assert n >= 0", "n", INTEGERS),
]


def test_every_outcome_is_reported_as_what_it_is(here: Here) -> None:
    here.inventory(*(f"h.{case.name}" for case in CASES))
    here.module(QUIET.replace("{properties}", "\n\n".join(case.source() for case in CASES)))
    ended = here.here()
    assert ended.status == 1
    assert "INTERNALERROR" not in ended.output
    assert len(ended.output) < 2 * 10**6
    [record] = here.records().values()
    found = {claim["id"].removeprefix("h."): claim for claim in record["claims"]}
    for case in CASES:
        claim = found[case.name]
        assert claim["state"] == case.state, (case.name, claim["reason"], claim["failure"])
        assert (claim["reason"] or "").startswith(case.reason or ""), (case.name, claim["reason"])
        assert (claim["reason"] is None) == (case.state == "ran"), case.name
    for name in ("good", "prints"):
        assert found[name]["agrees"] is True
    for name in ("fixture-forgiving", "contradiction-words", "unicode"):
        assert found[name]["agrees"] is False
    assert "files in the working folder (junk.txt)" in found["writes"]["reason"]
    assert not (here.folder / "junk.txt").exists()


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("mark-skip-reason", 0),
        ("call-skip", 0),
        ("mark-skip", 1),
        ("fixture-skip-silent", 1),
        ("call-skip-silent", 1),
        ("fixture-xfail", 1),
        ("fixture-forgiving", 1),
        ("call-xfail", 1),
    ],
)
def test_what_pytest_forgives_fails_the_run_all_the_same(here: Here, name: str, status: int) -> None:
    """pytest ends with 0 where a test is skipped or was expected to fail."""
    here.inventory(f"h.{name}")
    [case] = [case for case in CASES if case.name == name]
    here.module(QUIET.replace("{properties}", case.source()))
    assert here.here().status == status


def test_the_table_of_outcomes_is_total() -> None:
    for when in ("setup", "call", "teardown", "???", ""):
        for outcome in ("passed", "failed", "skipped", "rerun", "error", ""):
            for reason in ("why", ""):
                for expected in (False, True):
                    state = state_of(when, outcome, reason, expected)
                    known = PHASES.get((when, outcome))
                    if expected or known is None or (known == "not-run" and not reason):
                        assert state == "error"
                    else:
                        assert state == known
    assert state_of("call", "passed", "", False) == "error"


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: a limit on the size of files")
def test_on_a_full_disk_the_older_record_stays_and_the_run_fails_with_one_line(here: Here) -> None:
    project = here
    project.inventory("h.good")
    project.module(CASES[-1].source())
    assert here.here().status == 0
    [path] = (project.folder / "build" / "results").iterdir()
    before = path.read_bytes()

    def small_files() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    ended = project.run("-s", limit=small_files, PYTHONIOENCODING="ascii")
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    lines = [line for line in ended.stdout.splitlines() if "record" in line]
    assert len(lines) == 1
    assert lines[0].startswith("the record was not written: ") and "File too large" in lines[0]
    assert "1 passed" in ended.stdout
    assert "Traceback" not in ended.stdout + ended.stderr
