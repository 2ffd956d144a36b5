"""The four levels, and the Hypothesis profile of each."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings

from properties import levels
from properties.claims import Cost, Note, Role
from properties.levels import Level


def test_levels_are_ordered_by_how_hard_they_look() -> None:
    assert Level.QUICK < Level.DEFAULT < Level.THOROUGH < Level.EXHAUSTIVE
    assert [each.cases for each in Level] == [25, 100, 2000, 100]


def test_an_unknown_level_is_refused_by_name_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="no level 'deep': use one of quick, default, thorough, exhaustive"):
        Level.named("deep")
    assert Level.named("thorough") is Level.THOROUGH


@pytest.mark.parametrize("level", list(Level), ids=lambda level: level.title)
def test_each_profile_is_the_levels_own(level: Level) -> None:
    """No deadline, no database, no explain phase, and not derandomised, whatever the environment says of CI."""
    profile = settings.get_profile(level.title)
    assert (profile.max_examples, profile.deadline, profile.derandomize) == (level.cases, None, False)
    assert profile.database is None
    assert set(profile.phases) == {Phase.explicit, Phase.generate, Phase.shrink}


def test_a_run_has_loaded_the_profile_of_its_level() -> None:
    """This test's own run is one."""
    assert settings.get_current_profile_name() == levels.level().title
    assert settings().max_examples == levels.level().cases
    assert settings().deadline is None


def test_a_declared_number_of_cases_grows_with_the_level() -> None:
    cost = Cost(20, "a case starts two processes", Level.QUICK)
    assert [cost.at(each) for each in Level] == [5, 20, 400, 20]
    assert Cost(1, "a case takes a minute", Level.QUICK).at(Level.QUICK) == 1


@pytest.mark.parametrize(
    ("role", "cases"),
    [
        (Role.CLAIM, [25, 100, 2000, 100]),
        (Role.STATEMENT, [25, 100, 2000, 100]),
        (Role.CORRECTION, [25, 100, 2000, 100]),
        (Role.ALSO, [25, 50, 1000, 50]),
    ],
    ids=lambda given: given.value if isinstance(given, Role) else None,
)
def test_a_further_property_of_a_claim_asks_for_half_and_no_less_than_quicks(role: Role, cases: list[int]) -> None:
    note = Note("a.b", role, __file__, 1, "It is so.")
    assert [note.cases(each) for each in Level] == cases
    note.cost = Cost(20, "a case starts two processes", Level.QUICK)
    assert [note.cases(each) for each in Level] == [5, 20, 400, 20]
