"""How hard a run looks: the four levels, and the Hypothesis profile of each."""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path

from hypothesis import HealthCheck, Phase, configuration, settings


class Level(IntEnum):
    """A level, ordered by how hard it looks."""

    QUICK = 0
    DEFAULT = 1
    THOROUGH = 2
    EXHAUSTIVE = 3

    @property
    def title(self) -> str:
        """The name that ``--level`` takes."""
        return self.name.lower()

    @property
    def cases(self) -> int:
        """Generated cases a property, unless it declares its own number."""
        return {Level.QUICK: 25, Level.DEFAULT: 100, Level.THOROUGH: 2000, Level.EXHAUSTIVE: 100}[self]

    @property
    def seconds(self) -> int:
        """After how long a property is ended."""
        return {Level.QUICK: 60, Level.DEFAULT: 60, Level.THOROUGH: 600, Level.EXHAUSTIVE: 900}[self]

    @classmethod
    def named(cls, title: str) -> Level:
        """The level of that name; ValueError names the four there are."""
        for candidate in cls:
            if candidate.title == title:
                return candidate
        raise ValueError(f"no level {title!r}: use one of {', '.join(each.title for each in cls)}")


_current = Level.DEFAULT


def level() -> Level:
    """The level of this run, so that a finite scope can grow with it."""
    return _current


def register_profiles(home: Path) -> None:
    """Register one Hypothesis profile a level, with its storage under ``home``.

    No deadline (a shared machine would break it), no example database, no explain phase, and never derandomised:
    each property gets a seed of its own from the run's seed.
    """
    configuration.set_hypothesis_home_dir(home)
    for each in Level:
        settings.register_profile(
            each.title,
            max_examples=each.cases,
            deadline=None,
            database=None,
            derandomize=False,
            phases=(Phase.explicit, Phase.generate, Phase.shrink),
            print_blob=False,
            report_multiple_bugs=False,
            suppress_health_check=(HealthCheck.too_slow, HealthCheck.function_scoped_fixture),
        )


def load(chosen: Level) -> None:
    """Make ``chosen`` the level of this run."""
    global _current
    _current = chosen
    settings.load_profile(chosen.title)
