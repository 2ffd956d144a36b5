"""What a run over a specification does: options, collection, selection, the record, in one process and in several."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, TypeVar
from xml.etree import ElementTree

import pytest

from properties.plugin import property_seed
from properties.tests.conftest import Here, Project

IDS = ("a.holds", "a.when", "a.near", "a.false", "a.said", "a.gpu", "a.later", "a.forms")
HEALTHY = '''
    @holds("a.holds")
    @given(n=st.integers(0, 10**9), x=st.floats(), text=st.text(max_size=3))
    def test_holds(n, x, text):
        """Numbers are not negative."""
        assert n >= 0


    @also("a.holds")
    def test_bytes():
        """Bytes are below 256."""
        every("all bytes", np.arange(256) < 256, range(256), size=2**8)


    @holds_when("a.when", "n is even")
    @given(n=st.integers(0, 10**9))
    @example(n=2)
    @example(n=3)
    def test_when(n):
        """Numbers are even."""
        assert (n % 2 == 0) == when(n % 2 == 0)


    @approximates("a.near", "1/10")
    @given(n=st.integers(1, 10**6))
    def test_near(n):
        """About n."""
        observe(rule=n, exact=n + n / 100, bound=0.1, unit="s", label="time", where={"n": n})


    @refuted("a.false", instead="Some are not.")
    @given(n=st.integers(0, 10**9))
    @example(n=77)
    def test_false(n):
        """Numbers are below 17."""
        assert n < 17


    @corrects("a.false")
    @given(n=st.integers(0, 10**9))
    def test_true(n):
        """Numbers are below a billion and one."""
        assert n < 10**9 + 1


    context("a.said", "People like it.", source="the document, section 1")


    @holds("a.gpu")
    @needs("cuda")
    def test_gpu():
        """It is fast on a GPU."""
        assert torch.zeros(1, device="cuda").is_cuda


    awaits("a.later", needs="cuda", what="timing", verdict="holds-when", says="It is fast.", instead="on a GPU")


    @holds("a.forms")
    @pytest.mark.parametrize("limit", [10, 20])
    @given(n=st.integers(0, 9))
    def test_forms(n, limit):
        """Numbers are below the limit."""
        assert n < limit
'''


Any_Project = TypeVar("Any_Project", bound=Project)


def healthy(project: Any_Project) -> Any_Project:
    """Fill a project with a specification in which every claim is as it says."""
    project.inventory(*IDS)
    project.module(HEALTHY)
    return project


def timeless(record: dict[str, Any]) -> dict[str, Any]:
    """A record without its times."""
    text = json.dumps(record, sort_keys=True)
    return dict(json.loads(re.sub(r'"(seconds|at)": ("[^"]*"|[0-9.e+-]+)', r'"\1": 0', text)))


# ── a whole run ─────────────────────────────────────────────────────────────


def test_a_whole_run_records_every_claim_and_prints_the_table(here: Here) -> None:
    ended = healthy(here).here()
    assert ended.status == 0, ended.output
    record = here.records()["whole"]
    assert set(here.records()) == {"whole"}
    found = {claim["id"]: claim for claim in record["claims"]}
    assert tuple(found) == IDS
    states = {id: (claim["state"], claim["agrees"], claim["strength"]) for id, claim in found.items()}
    assert states == {
        "a.holds": ("ran", True, "sampled"),
        "a.when": ("ran", True, "sampled"),
        "a.near": ("ran", True, "sampled"),
        "a.false": ("ran", True, "sampled"),
        "a.said": (None, None, None),
        "a.gpu": ("not-run", None, None),
        "a.later": ("not-run", None, None),
        "a.forms": ("ran", True, "example"),
    }
    assert found["a.gpu"]["reason"] == "needs a CUDA device"
    assert found["a.later"]["reason"] == "needs a CUDA device: timing"
    assert found["a.false"]["counterexample"]["pinned"] == {"n": "77"}
    assert found["a.false"]["counterexample"]["found"] == {"n": "17"}
    assert found["a.false"]["counterexample"]["repro"].startswith("n = 17\n")
    forms = [each["node"].split("::")[1] for each in found["a.forms"]["properties"]]
    assert forms == ["test_forms[10]", "test_forms[20]"]
    assert found["a.holds"]["properties"][1]["scope"] == ["all bytes"]
    assert record["environment"]["cases"] == 100 + 256 + 102 + 100 + (100 + 0) + 20 + statement_cases(found)
    assert not record["environment"]["partial"]
    rows = [line.split() for line in ended.output.splitlines() if line.strip().startswith("1 Numbers")]
    assert rows == [["1", "Numbers", "2", "1", "1", "1", "1", "2", "-", "-"]]
    assert re.search(r"^8 claims: 5 ran, 2 not run, 1 context; \d+ cases in ", ended.output, re.MULTILINE)
    assert "a.false  Numbers are below 17.  [n=17]\n  instead: Some are not.\n" in ended.output
    assert "\x1b" not in ended.output
    assert f"assay: level default, seed {record['environment']['seed']}, torch " in ended.output


def statement_cases(found: dict[str, Any]) -> int:
    cases: dict[str, int] = found["a.false"]["properties"][0]["cases"]
    assert cases["pinned"] == 1
    return cases["passed"] + cases["pinned"]


def test_several_processes_leave_the_record_of_one_and_so_does_any_order(project: Project) -> None:
    """With the same seed; the run in one process is in random order."""
    healthy(project)
    (project.folder / "pytest.ini").write_text(
        (project.folder / "pytest.ini").read_text(encoding="utf-8").replace("-p no:randomly ", ""), encoding="utf-8"
    )
    runs = []
    for arguments in (("-n", "2", "-p", "no:randomly"), ("-p", "randomly")):
        ended = project.run("--hypothesis-seed=7", "-q", "--junitxml=build/junit.xml", *arguments)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        runs.append(timeless(project.records()["whole"]))
        assert set(project.records()) == {"whole"}
        for path in (project.folder / "build" / "results").iterdir():
            path.unlink()
    assert runs[0]["environment"]["seed"] == 7
    assert runs[1] == runs[0]
    cases = ElementTree.parse(project.folder / "build" / "junit.xml").iter("testcase")
    claims = {case.get("name"): [each.get("value") for each in case.iter("property")] for case in cases}
    assert claims["test_when"] == ["a.when", "holds-when"]
    assert claims["test_forms[20]"] == ["a.forms", "holds"]
    assert len(claims) == 9


# ── seeds and profiles ──────────────────────────────────────────────────────


SEEDS = '''
    drawn = {}

    @holds("a.b")
    @given(n=st.integers(0, 10**9))
    def test_first(n):
        """Numbers are not negative."""
        drawn.setdefault("first", []).append(n)
        assert n >= 0

    @also("a.b")
    @given(n=st.integers(0, 10**9))
    def test_second(n):
        """Numbers are not negative."""
        drawn.setdefault("second", []).append(n)
        assert n >= 0

    @also("a.b")
    def test_last():
        """What was drawn is written down."""
        import json
        from hypothesis import settings
        profile = settings.get_profile(settings.get_current_profile_name())
        drawn["profile"] = [profile.deadline, profile.derandomize, profile.database, profile.max_examples]
        with open(os.environ["DRAWN"], "w") as file:
            json.dump(drawn, file)
        assert drawn
'''


def test_the_run_seed_decides_the_cases_and_each_property_has_its_own(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.inventory("a.b")
    here.module(SEEDS)
    monkeypatch.setenv("DRAWN", str(tmp_path / "drawn.json"))

    def run(*arguments: str) -> tuple[int, dict[str, list[int]]]:
        ended = here.here(*arguments)
        assert ended.status == 0, ended.output
        record = here.records()["whole"]
        return record["environment"]["seed"], json.loads((tmp_path / "drawn.json").read_text(encoding="utf-8"))

    seed, drawn = run()
    again, repeated = run(f"--hypothesis-seed={seed}")
    assert (again, repeated) == (seed, drawn)
    assert drawn["first"] != drawn["second"]
    other, elsewhere = run()
    assert other != seed
    assert elsewhere["first"] != drawn["first"]
    assert drawn["profile"] == [None, False, None, 100]
    monkeypatch.setenv("CI", "true")
    seed, under_ci = run()
    assert (seed, under_ci["profile"]) == (0, [None, False, None, 100])
    assert run("--hypothesis-seed=5")[0] == 5


def test_a_propertys_seed_depends_on_the_run_and_on_its_node() -> None:
    seeds = {property_seed(run, node) for run in (0, 1) for node in ("spec/a.py::x", "spec/a.py::y")}
    assert len(seeds) == 4
    assert property_seed(0, "spec/a.py::x") == property_seed(0, "spec/a.py::x")


# ── selection ───────────────────────────────────────────────────────────────


def test_a_run_that_is_not_whole_leaves_a_whole_record_alone(here: Here) -> None:
    healthy(here)
    here.here()
    [whole] = (here.folder / "build" / "results").iterdir()
    before = whole.read_bytes()
    other = "spec/test_01_numbers.py"
    for arguments, reason in (
        (("-k", "holds"), "some properties were deselected"),
        (("--claim", "a.when"), "some properties were deselected"),
        (("--level", "quick"), "the level was quick"),
        ((*(f"{other}::{name}" for name in NAMES), f"{other}::test_forms[10]"), "some properties were deselected"),
        (("-m", "gpu"), "some properties were deselected"),
        (("--deselect", f"{other}::test_forms[20]"), "some properties were deselected"),
    ):
        ended = here.here(*arguments)
        assert ended.status == 0, ended.output
        record = here.records()["partial"]
        assert (record["environment"]["partial"], record["environment"]["partial_reason"]) == (True, reason)
        assert [claim["id"] for claim in record["claims"]] == list(IDS)
        assert f"(not a whole run: {reason})" in ended.output
        whole.with_stem(f"{whole.stem}--partial").unlink()
    assert whole.read_bytes() == before


NAMES = ("test_holds", "test_bytes", "test_when", "test_near", "test_false", "test_true", "test_gpu")


def test_a_claim_is_selected_by_its_id_or_by_a_prefix(here: Here) -> None:
    healthy(here)
    found = here.claims("--claim", "a.f")
    assert [id for id, claim in found.items() if claim["state"] == "ran"] == ["a.false", "a.forms"]
    assert found["a.holds"]["reason"] == "deselected"
    found = here.claims("--claim", "a.when", "--claim", "a.near")
    assert [id for id, claim in found.items() if claim["state"] == "ran"] == ["a.when", "a.near"]


def test_a_run_over_one_file_is_not_whole(here: Here) -> None:
    here.inventory("a.b", "a.c")
    for name, id in (("test_01_a.py", "a.b"), ("test_02_b.py", "a.c")):
        here.module(f'@holds("{id}")\ndef test_it():\n    """It is so."""\n    assert int("1")\n', name)
    assert here.here("spec/test_01_a.py").status == 0
    assert set(here.records()) == {"partial"}
    assert here.here().status == 0
    assert set(here.records()) == {"partial", "whole"}


def test_a_run_that_stops_early_is_not_whole_and_says_what_it_did_not_come_to(here: Here) -> None:
    here.inventory("a.b", "a.c")
    here.module(
        '''
        @holds("a.b")
        def test_false():
            """It is so."""
            assert int("0")

        @holds("a.c")
        def test_true():
            """It is so."""
            assert int("1")
        '''
    )
    ended = here.here("-x")
    assert ended.status == 1
    record = here.records()["partial"]
    states = {claim["id"]: (claim["state"], claim["agrees"], claim["reason"]) for claim in record["claims"]}
    assert states == {"a.b": ("ran", False, None), "a.c": ("not-run", None, "the run ended before it was through")}
    assert record["environment"]["partial_reason"] == "1 property did not finish"
    assert here.here().status == 1
    assert set(here.records()) == {"partial", "whole"}


def test_the_record_goes_where_results_says(here: Here) -> None:
    healthy(here)
    ended = here.here("--results=elsewhere/record.json", "--claim", "a.when")
    assert ended.status == 0
    assert json.loads((here.folder / "elsewhere" / "record.json").read_text(encoding="utf-8"))["schema"] == 1
    assert here.records() == {}
    assert "record: elsewhere/record.json" in ended.output


def test_collect_only_lists_claims(here: Here) -> None:
    healthy(here)
    ended = here.here("--collect-only", "-q")
    assert ended.status == 0
    assert ended.output.splitlines()[: len(IDS)] == [
        "a.holds  [holds]  Numbers are not negative.",
        "a.when  [holds-when]  Numbers are even.",
        "a.near  [approximates]  About n.",
        "a.false  [refuted]  Numbers are below 17.",
        "a.said  [context]  People like it.",
        "a.gpu  [holds]  It is fast on a GPU.",
        "a.later  [holds-when]  It is fast.",
        "a.forms  [holds]  Numbers are below the limit.",
    ]
    ended = here.here("--collect-only", "-q", "--claim", "a.w")
    assert ended.output.splitlines()[0] == "a.when  [holds-when]  Numbers are even."
    assert "a.near" not in ended.output
    assert here.records() == {}


def test_chapters_have_markers(here: Here) -> None:
    healthy(here)
    ended = here.here("-m", "numbers and not gpu", "-q")
    assert "8 passed, 1 deselected" in ended.output


# ── what is required ────────────────────────────────────────────────────────


@pytest.fixture
def without_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    from properties import needs

    monkeypatch.setattr(needs, "present", lambda need: need != "cuda")


@pytest.mark.usefixtures("without_cuda")
def test_what_is_required_and_not_there_fails_the_run_and_says_why(here: Here) -> None:
    healthy(here)
    ended = here.here("--require", "cuda")
    assert ended.status == 1
    rows = [line.split() for line in ended.output.splitlines() if line.strip().startswith("1 Numbers")]
    assert rows == [["1", "Numbers", "2", "1", "1", "1", "1", "-", "-", "2"]]
    assert "a.gpu: not-run; required here: needs a CUDA device" in ended.output
    assert "a.later: not-run; required here: needs a CUDA device: timing" in ended.output
    assert here.here("--require", "gloo", "--require", "linux").status == 0


@pytest.mark.usefixtures("without_cuda")
def test_only_what_was_asked_for_can_be_required(here: Here) -> None:
    healthy(here)
    assert here.here("--require", "cuda", "--claim", "a.when").status == 0
    assert here.here("--require", "cuda", "--claim", "a.gpu").status == 1
    assert here.here("--require", "cuda", "-k", "test_gpu").status == 1


# ── the specification's own mistakes ────────────────────────────────────────

MISTAKES = '''
    @holds("a.twice")
    def test_twice():
        """It is so."""
        assert int("1")

    @holds("a.twice")
    def test_twice_again():
        """It is so too."""
        assert int("1")

    @corrects("a.unknown")
    def test_correction():
        """It is not so."""
        assert int("1")

    @corrects("a.twice")
    def test_correction_of_what_is_not_refuted():
        """It is not so."""
        assert int("1")

    awaits("a.nobody", needs="cuda", what="timing")
    awaits("a.twice", needs="tpu", what="timing")

    def test_loose():
        assert int("1")

    @holds("a.unlisted")
    def test_unlisted():
        """It is so."""
        assert int("1")

    @holds("a.known")
    @pytest.mark.xfail(reason="known")
    def test_expected_to_fail():
        """It is so."""
        assert int("0")

    @holds("a.example")
    @given(n=st.integers())
    @example(n=1).xfail(raises=AssertionError)
    def test_example_expected_to_fail(n):
        """It is so."""
        assert n != 1

    @refuted("a.uncorrected", instead="It is not.")
    def test_uncorrected():
        """It is so."""
        assert int("0")

    @refuted("a.unpinned", instead="It is not.")
    @given(n=st.integers())
    def test_unpinned(n):
        """It is so."""
        assert n < 17

    @corrects("a.unpinned")
    def test_pinned():
        """It is not so."""
        assert int("1")

    @holds("a.settings")
    @settings(max_examples=3)
    @given(n=st.integers())
    def test_with_settings(n):
        """It is so."""
        assert n == n

    @holds("a.silent")
    def test_silent():
        """It is so."""
        len("it is")

    @holds_when("a.half", "n is even")
    @given(n=st.integers())
    @example(n=1)
    @example(n=2)
    def test_half(n):
        """It is so."""
        if when(n % 2 == 0):
            assert n % 2 == 0

    @holds_when("a.named", "n is even")
    @given(n=st.integers())
    @example(n=1)
    @example(n=2)
    def test_named(n):
        """It is so."""
        inside = when(n % 2 == 0)
        assert (n % 2 == 0) == inside

    @holds("a.need")
    @needs("tpu")
    def test_need():
        """It is so."""
        assert int("1")

    @holds("a.unnamed")
    def check_unnamed():
        """It is so."""
        assert int("1")

    context("a.background", "It is said.", source="the document, section 1")

    @also("a.background")
    def test_background():
        """It is so."""
        assert int("1")

    class TestMethods:
        @also("a.twice")
        def test_method(self):
            """It is so."""
            assert int("1")
'''
EXPECTED = {
    "test_twice_again": "a.twice is stated here and at spec/test_01_numbers.py:",
    "test_correction()": "test_correction belongs to a.unknown, and nothing states that claim",
    "test_correction_of": "a.twice is not refuted but holds; bind its properties with @also",
    '"a.nobody"': "a part of a.nobody is awaited, and nothing states that claim",
    '"tpu", what': "'tpu' is no need that is known: cuda, gloo, linux",
    "test_loose": "test_loose is bound to no claim; give it @holds or another decorator",
    "test_unlisted": "a.unlisted is not listed in spec/inventory.toml",
    "test_expected_to_fail": "test_expected_to_fail is marked xfail; a claim that is false is @refuted",
    "test_example_expected_to_fail": "an example that is expected to fail is no evidence",
    "test_uncorrected": "a.uncorrected is refuted, and no property corrects it; add one with @corrects",
    "test_unpinned": "a.unpinned is refuted without a pinned counterexample; add an @example",
    "test_with_settings": "test_with_settings brings its own @settings",
    "test_silent": "test_silent asserts nothing itself; use assert, every() or observe()",
    "test_half": "test_half asserts nothing outside its condition",
    "test_need": "'tpu' is no need that is known: cuda, gloo, linux",
    "check_unnamed": "check_unnamed is bound to a.unnamed, and pytest runs only functions named test_...",
    '"a.background"': "a.background is context, and context has no properties",
    "test_method": "TestMethods.test_method is no property; write each as a function of its own module",
}


def lines_of(path: Path, name: str) -> set[int]:
    """The lines at which a definition may be said to stand: its own, and those of its decorators."""
    lines = path.read_text(encoding="utf-8").splitlines()
    at = next(number for number, line in enumerate(lines, 1) if name in line and not line.strip().startswith("@"))
    first = at
    while lines[first - 2].strip().startswith("@"):
        first -= 1
    return set(range(first, at + 1))


def test_each_mistake_is_a_collection_error_that_names_file_and_line(here: Here) -> None:
    ids = ["a.twice", "a.known", "a.example", "a.uncorrected", "a.unpinned", "a.settings", "a.silent", "a.half"]
    here.inventory(*ids, "a.named", "a.need", "a.unnamed", "a.background", "a.not-in-code")
    path = here.module(MISTAKES)
    ended = here.here()
    assert ended.status == pytest.ExitCode.INTERRUPTED
    for name, message in EXPECTED.items():
        pattern = rf"^spec/test_01_numbers\.py:(\d+): {re.escape(message)}"
        places = {int(line) for line in re.findall(pattern, ended.output, re.MULTILINE)}
        assert places & lines_of(path, name), (name, places, lines_of(path, name))
    inventory = (here.folder / "spec" / "inventory.toml").read_text(encoding="utf-8").splitlines()
    line = inventory.index('id = "a.not-in-code"') + 1
    assert f"spec/inventory.toml:{line}: a.not-in-code is listed, and no module under spec/ states it" in ended.output
    assert "test_named" not in ended.output
    assert f"{len(EXPECTED) + 1} errors" in ended.output
    assert here.records() == {}


def test_a_claim_without_a_property_is_a_collection_error(here: Here) -> None:
    here.inventory("a.b", "a.c")
    here.module(
        """
        from properties.claims import Claim, Verdict
        assay_declared = [Claim("a.c", Verdict.HOLDS, "It is so.", None, __file__, 11)]

        @holds("a.b")
        def test_it():
            '''It is so.'''
            assert int("1")
        """
    )
    ended = here.here()
    assert ended.status == pytest.ExitCode.INTERRUPTED
    assert "spec/test_01_numbers.py:11: a.c has neither a property nor a reason for having none" in ended.output


def test_a_property_without_a_docstring_is_a_collection_error(here: Here) -> None:
    here.inventory("a.b")
    here.module('@holds("a.b")\ndef test_it():\n    assert int("1")\n')
    ended = here.here()
    assert ended.status == pytest.ExitCode.INTERRUPTED
    assert re.search(r"spec/test_01_numbers\.py:7: test_it has no docstring", ended.output)


def test_a_module_that_cannot_be_imported_is_an_error_and_no_run_over_the_others_is_whole(here: Here) -> None:
    here.inventory("a.b", "a.c")
    here.module('@holds("a.b")\ndef test_it():\n    """It is so."""\n    assert int("1")\n')
    here.module("import nowhere_to_be_found\n", "test_02_broken.py")
    ended = here.here()
    assert ended.status == pytest.ExitCode.INTERRUPTED
    assert "No module named 'nowhere_to_be_found'" in ended.output
    assert "INTERNALERROR" not in ended.output
    assert "whole" not in here.records()
    ended = here.here("spec/test_01_numbers.py")
    assert ended.status == 0, ended.output
    assert set(here.records()) == {"partial"}


def test_a_property_in_a_subfolder_of_the_specification_is_an_error(here: Here) -> None:
    healthy(here)
    (here.folder / "spec" / "more").mkdir()
    here.module('@also("a.holds")\ndef test_more():\n    """It is so."""\n    assert int("1")\n', "more/test_03.py")
    ended = here.here()
    assert ended.status == pytest.ExitCode.INTERRUPTED
    assert re.search(r"spec/more/test_03\.py:\d+: test_more is no property; .* directly under spec/", ended.output)


def test_a_property_that_another_module_imports_is_an_error(here: Here) -> None:
    healthy(here)
    here.module("from spec.test_01_numbers import test_holds\n", "test_02_more.py")
    ended = here.here()
    assert ended.status == pytest.ExitCode.INTERRUPTED
    assert "test_holds is no property; write each as a function of its own module" in ended.output


def entry(**changes: str) -> str:
    """An entry of an inventory, its values as TOML."""
    values = {"id": '"a.b"', "section": '"1"', "origin": '"document"', "says_zh": '"数"'} | changes
    return "[[claim]]\n" + "".join(f"{name} = {value}\n" for name, value in values.items())


INVENTORIES: dict[str | bytes, str] = {
    "[[claim": "not valid TOML",
    b"\xff": "not valid TOML",
    'claim = "a"': "claim is no list of tables",
    "claim = [1]": "claim number 1 is no table",
    '[[claim]]\nid = "a.b"': "[[claim]] number 1 (a.b): it lacks section, origin, says_zh",
    entry(id="3"): "(3): id is 3; give it a text",
    entry(says_zh='""'): "says_zh is ''; give it a text",
    entry(section='"9"'): "names section '9', which no",
    entry(origin='"paper"'): "origin is 'paper'; use document or companion",
    entry(id='"A b"'): "id is 'A b'; use words in small letters",
    entry(more='"x"'): "unexpected keyword argument 'more'",
    entry() + entry(): "a.b is listed twice",
}


@pytest.mark.parametrize(("text", "said"), INVENTORIES.items(), ids=list(INVENTORIES.values()))
def test_a_bad_inventory_is_a_usage_error_of_one_line(here: Here, text: str | bytes, said: str) -> None:
    healthy(here)
    path = here.folder / "spec" / "inventory.toml"
    chapter = '[[chapter]]\nsection = "1"\ntitle = "Numbers"\ntitle_zh = "数"\nmarker = "numbers"\n'
    path.write_bytes(text if isinstance(text, bytes) else (text + "\n" + chapter).encode())
    ended = here.here()
    assert ended.status == pytest.ExitCode.USAGE_ERROR
    [line] = ended.output.strip().splitlines()
    assert line.startswith("ERROR: spec/inventory.toml: ")
    assert said in line


USAGE = {
    ("--claim", "a.wen"): "--claim: no claim's id is or starts with 'a.wen'; near it are a.when",
    ("--claim", "xyzzy"): "--claim: no claim's id is or starts with 'xyzzy'",
    ("--level", "deep"): "--level: no level 'deep': use one of quick, default, thorough, exhaustive",
    ("--require", "tpu"): "--require: nothing is known of 'tpu': use one of cuda, gloo, linux",
}


@pytest.mark.parametrize(("arguments", "said"), USAGE.items(), ids=[" ".join(each) for each in USAGE])
def test_a_wrong_option_is_a_usage_error_of_one_line(here: Here, arguments: tuple[str, str], said: str) -> None:
    ended = healthy(here).here(*arguments)
    assert ended.status == pytest.ExitCode.USAGE_ERROR
    [line] = ended.output.strip().splitlines()
    assert line.startswith(f"ERROR: {said}")


# ── other tests ─────────────────────────────────────────────────────────────


def test_tests_elsewhere_are_left_alone_and_a_run_over_them_alone_writes_nothing(here: Here) -> None:
    healthy(here)
    other = here.folder / "tests"
    other.mkdir()
    (other / "test_other.py").write_text(
        "import os, pytest\n"
        "def test_cwd(): assert os.path.exists('pytest.ini')\n"
        "@pytest.mark.xfail\ndef test_known(): assert 0\n"
        "class TestIt:\n    def test_method(self): assert 1\n",
        encoding="utf-8",
    )
    ended = here.here("tests")
    assert ended.status == 0
    assert "2 passed, 1 xfailed" in ended.output
    assert "verdicts" not in ended.output
    assert here.records() == {}
    ended = here.here("tests", "spec")
    assert ended.status == 0
    assert set(here.records()) == {"whole"}
    assert here.here("-n", "1", "tests").status == 0


def test_a_run_without_the_specification_works(here: Here) -> None:
    (here.folder / "test_other.py").write_text("def test_it(): assert 1\n", encoding="utf-8")
    ended = here.here("test_other.py")
    assert ended.status == 0
    assert here.here("--claim", "a.b").status == pytest.ExitCode.USAGE_ERROR


# ── interruptions ───────────────────────────────────────────────────────────

SLOW = '''
    import pathlib

    @holds("a.quick")
    def test_quick():
        """It is so."""
        assert int("1")

    @holds("a.slow")
    @given(n=st.integers(0, 10**6))
    def test_slow(n):
        """It is so."""
        (pathlib.Path(__file__).parents[1] / "started").touch()
        time.sleep(0.2)
        assert n >= 0

    @holds("a.after")
    def test_after():
        """It is so."""
        assert int("1")
'''


@pytest.mark.parametrize("processes", [(), ("-n", "2", "--dist=loadfile")], ids=["one", "two"])
def test_ctrl_c_leaves_a_record_that_lists_every_claim(project: Project, processes: tuple[str, ...]) -> None:
    project.inventory("a.quick", "a.slow", "a.after")
    project.module(SLOW)
    status, output = project.interrupted("started", *processes)
    assert status == pytest.ExitCode.INTERRUPTED, output
    record = project.records()["partial"]
    assert set(project.records()) == {"partial"}
    states = {claim["id"]: (claim["state"], claim["agrees"], claim["reason"]) for claim in record["claims"]}
    assert states == {
        "a.quick": ("ran", True, None),
        "a.slow": ("not-run", None, "the run ended before it was through"),
        "a.after": ("not-run", None, "the run ended before it was through"),
    }
    assert record["environment"]["partial_reason"] == "2 properties did not finish"


def test_a_keyboard_interrupt_within_a_case_ends_the_run_with_a_record(here: Here) -> None:
    here.inventory("a.b", "a.c")
    here.module(
        '''
        @holds("a.b")
        @given(n=st.integers())
        def test_it(n):
            """It is so."""
            if abs(n) > 10:
                raise KeyboardInterrupt
            assert n == n

        @holds("a.c")
        def test_after():
            """It is so."""
            assert int("1")
        '''
    )
    ended = here.here()
    assert ended.status == pytest.ExitCode.INTERRUPTED
    record = here.records()["partial"]
    assert {claim["state"] for claim in record["claims"]} == {"not-run"}


# ── neighbours ──────────────────────────────────────────────────────────────


def test_a_run_without_hypothesis_own_plugin_judges_too(here: Here) -> None:
    ended = healthy(here).here("-p", "no:hypothesispytest")
    assert ended.status == 0, ended.output
    assert set(here.records()) == {"whole"}


def test_a_run_without_pytests_cache_judges_too(here: Here) -> None:
    ended = healthy(here).here("-p", "no:cacheprovider", "--strict-config", "-o", "cache_dir=build/cache")
    assert ended.status == 0, ended.output
    assert set(here.records()) == {"whole"}


def test_last_failed_runs_are_not_whole(here: Here) -> None:
    here.inventory("a.b", "a.c")
    here.module(
        '''
        @holds("a.b")
        def test_false():
            """It is so."""
            assert int("0")

        @holds("a.c")
        def test_true():
            """It is so."""
            assert int("1")
        '''
    )
    cache = ("-p", "cacheprovider", "-o", "cache_dir=build/cache", "-o", "addopts=-p no:randomly")
    assert here.here(*cache).status == 1
    assert set(here.records()) == {"whole"}
    ended = here.here(*cache, "--lf")
    assert ended.status == 1
    assert here.records()["partial"]["environment"]["partial_reason"] == "some properties were deselected"
