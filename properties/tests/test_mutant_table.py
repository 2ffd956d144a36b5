"""What a run under mutants says of claims, properties and mutants, and what of it is recorded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch

from properties import specification
from properties.mutants import mutant as mutant_module
from properties.mutants.mutant import Mutant, load, patched
from properties.mutants.table import Table, lines
from properties.mutants.trial import Trial, made_for
from properties.tests.conftest import ROOT, Ended, Here
from reference import planner

# ── the table ──


def a_trial(mutant: str, claim: str, function: str, outcome: str = "killed", ours: bool = False) -> Trial:
    return Trial(mutant, claim, function, outcome, "", 0, 0.5, ours)


def table(*trials: Trial, claims: int = 10) -> Table:
    return Table(trials, tuple(dict.fromkeys((each.claim, each.function) for each in trials)), claims)


def test_a_claim_that_only_coarse_mutants_kill_counts_as_unkilled() -> None:
    claims = [f"a.{number}" for number in range(4)]
    coarse = [a_trial("everything-is-wrong", id, f"test_{id[-1]}") for id in claims]
    seen = table(*coarse, a_trial("one-off", "a.0", "test_0"), claims=10)
    assert seen.coarse == ["everything-is-wrong"]
    assert seen.unkilled() == [("a.1", "test_1"), ("a.2", "test_2"), ("a.3", "test_3")]
    assert seen.by_claim("a.0") == {"killed": ["one-off"], "survived": []}
    assert seen.by_claim("a.1") == {"killed": [], "survived": []}
    assert seen.counts(claims)[:2] == [4, 1]
    assert "too coarse to count: everything-is-wrong, noticed by more than a third of all claims" in told(seen)


def test_a_mutant_that_a_third_of_the_claims_notices_counts() -> None:
    assert table(*(a_trial("wrong", f"a.{number}", "test") for number in range(4)), claims=12).coarse == []
    assert table(a_trial("wrong", "a.0", "test_0"), a_trial("wrong", "a.0", "test_1"), claims=1).coarse == []


def test_a_claim_that_only_changes_to_our_own_code_break_is_named() -> None:
    ours = a_trial("an-oracle-is-wrong", "a.0", "test_0", ours=True)
    assert table(ours).by_ours_alone() == ["a.0"]
    assert "nothing but our own code, changed, makes it fail: a.0" in told(table(ours))
    assert table(ours, a_trial("torch-is-wrong", "a.0", "test_1")).by_ours_alone() == []
    assert table(ours, a_trial("torch-is-wrong", "a.0", "test_1", "survived")).by_ours_alone() == ["a.0"]


def test_a_kill_in_one_claim_is_none_for_the_function_of_that_name_in_another() -> None:
    seen = table(a_trial("wrong", "a.0", "test"), a_trial("wrong", "a.1", "test", "survived"))
    assert seen.unkilled() == [("a.1", "test")]
    assert [each.claim for each in seen.alive()] == ["a.1"]
    assert told(seen)[-2:] == ["lives: wrong under a.1, test: survived", "nothing kills: a.1, test"]


def test_the_whole_matrix_tells_the_only_witnesses_from_those_that_others_make_superfluous() -> None:
    seen = table(
        a_trial("subtle", "a.0", "test_0"),
        a_trial("plain", "a.0", "test_0"),
        a_trial("plain", "a.1", "test_1"),
        a_trial("idle", "a.1", "test_1", "survived"),
    )
    assert seen.only_witness() == {"subtle": ("a.0", "test_0")}
    assert seen.never_alone() == [("a.1", "test_1")]
    assert seen.idle() == ["idle"]
    assert told(seen, all_=True)[-3:] == [
        "nothing notices: idle: Something is wrong.",
        "alone in noticing subtle: a.0, test_0",
        "notices only what others notice too: a.1, test_1",
    ]


def told(seen: Table, all_: bool = False) -> list[str]:
    mutants = {each.mutant: Mutant(each.mutant, "Something is wrong.", (), everything_as_it_is) for each in seen.trials}
    return lines(seen, [("Numbers", sorted({id for id, _ in seen.ran}))], mutants, all_)


@contextmanager
def everything_as_it_is() -> Iterator[None]:
    yield


# ── a run ──

SPECIFICATION = '''
    from reference import planner

    @holds("a.days")
    def test_a_day_has_86400_seconds():
        """A day has 86400 seconds."""
        assert planner.SECONDS_PER_DAY == 86400


    @holds("a.zeros")
    @given(n=st.integers(1, 10**6))
    def test_zeros_are_zero(n):
        """Zeros are zero."""
        assert not torch.zeros(3).any()


    @also("a.zeros")
    def test_zeros_are_so_many():
        """There are as many zeros as were asked for."""
        assert torch.zeros(3).numel() == 3


    @holds("a.ones")
    def test_ones_are_one():
        """Ones are one."""
        assert torch.ones(3).all()
'''


@contextmanager
def zeros_are_ones() -> Iterator[None]:
    with patched(torch, "zeros", torch.ones):
        yield


@contextmanager
def scalars_instead() -> Iterator[None]:
    with patched(torch, "zeros", lambda n: torch.tensor(0.0)), patched(torch, "ones", lambda n: torch.tensor(0.0)):
        yield


@contextmanager
def shorter_days() -> Iterator[None]:
    with patched(planner, "SECONDS_PER_DAY", 1):
        yield


ZEROS = Mutant("zeros-are-ones", "Zeros are ones.", ("a.zeros",), zeros_are_ones, ("test_zeros_are_zero",))
SCALARS = Mutant(
    "scalars-instead",
    "There is one.",
    ("a.zeros", "a.ones"),
    scalars_instead,
    ("test_zeros_are_so_many", "test_ones_are_one"),
)
DAYS = Mutant("shorter-days", "A day has a second.", ("a.days",), shorter_days)
ARITHMETIC = Mutant("shorter-days", "A day has a second.", ("a.days",), shorter_days, changes="arithmetic")


def run(here: Here, monkeypatch: pytest.MonkeyPatch, *mutants: Mutant, option: str = "--mutants") -> Ended:
    """How a run ends in which these are the mutants."""
    monkeypatch.setattr(mutant_module, "load", lambda: {each.name: each for each in mutants})
    waiting = [f"b.{number}" for number in range(4)]
    here.inventory("a.days", "a.zeros", "a.ones", *waiting)
    here.module(
        SPECIFICATION
        + "".join(f'    awaits("{id}", needs="cuda", what="x", verdict="holds", says="{id}")\n' for id in waiting)
    )
    return here.here(option)


def test_a_run_in_which_every_claim_is_killed_passes_and_leaves_a_whole_record(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = run(here, monkeypatch, ZEROS, SCALARS, ARITHMETIC)
    assert ended.status == 0, ended.output
    assert set(here.records()) == {"whole"}
    record = here.records()["whole"]
    assert (record["environment"]["partial"], record["environment"]["partial_reason"]) == (False, None)
    assert {claim["id"]: claim["mutants"]["killed"] for claim in record["claims"] if claim["id"][0] == "a"} == {
        "a.days": ["shorter-days"],
        "a.zeros": ["scalars-instead", "zeros-are-ones"],
        "a.ones": ["scalars-instead"],
    }


@pytest.mark.parametrize(
    ("mutants", "said"),
    [
        ((ZEROS, ARITHMETIC), "nothing kills: a.ones, test_ones_are_one"),
        ((ZEROS, SCALARS, DAYS), "nothing but our own code, changed, makes it fail: a.days"),
        (
            (ZEROS, SCALARS, ARITHMETIC, Mutant("no-change", "It is so.", ("a.ones",), everything_as_it_is)),
            "lives: no-change under a.ones, test_ones_are_one: survived",
        ),
    ],
)
def test_what_no_mutant_proves_fails_the_run(
    here: Here, monkeypatch: pytest.MonkeyPatch, mutants: tuple[Mutant, ...], said: str
) -> None:
    ended = run(here, monkeypatch, *mutants)
    assert ended.status == 1
    assert said in ended.output.splitlines()
    assert "a mutant lives, or what should notice one does not: see the table of mutants" in ended.output


def test_the_whole_matrix_is_told_and_fails_nothing(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = run(here, monkeypatch, ZEROS, SCALARS, DAYS, option="--all-mutants")
    assert ended.status == 0, ended.output
    assert "alone in noticing shorter-days: a.days, test_a_day_has_86400_seconds" in ended.output
    assert "notices only what others notice too: a.ones, test_ones_are_one" in ended.output
    assert here.records()["partial"]["environment"]["partial_reason"] == "every property met every mutant"


# ── the mutants there are ──


FOUND = specification.read(ROOT, specification.read_inventory(ROOT))


def test_every_property_has_a_mutant_and_every_mutant_the_claims_and_properties_it_names() -> None:
    mutants = load().values()
    assert [each.node for each in FOUND.properties if not any(made_for(mutant, each) for mutant in mutants)] == []
    for mutant in mutants:
        noticing = [each for each in FOUND.properties if made_for(mutant, each)]
        assert {each.note.id for each in noticing} == set(mutant.breaks), mutant.name
        assert {each.function.__name__ for each in noticing} >= set(mutant.properties), mutant.name


def changes_ours(each: Mutant) -> bool:
    with each.world():
        return replace(each, changes="").is_ours()


def test_where_only_arithmetic_can_be_wrong_no_property_works_with_tensors() -> None:
    mutants = load().values()
    called = {id for each in mutants if each.changes == "arithmetic" for id in each.breaks}
    alone = {id for id in called if all(changes_ours(each) for each in mutants if id in each.breaks)}
    assert alone
    for each in FOUND.properties:
        assert each.note.id not in alone or not re.search("torch|numpy|np|counted", each.source), each.node
