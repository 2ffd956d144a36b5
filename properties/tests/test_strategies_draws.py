"""The kept strategies: equal values of other types are kept apart."""

from hypothesis import find

from properties.strategies.draws import any_of


def test_booleans_are_not_answered_with_the_integers_they_equal() -> None:
    for values in [(0, 1), (False, True), (0.0, 1.0), ((0, 1),), ((False, True),)]:
        assert repr(find(any_of(values), lambda value: True)) == repr(values[0])
