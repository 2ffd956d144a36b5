"""Files of tokens: what the strategies reach, that what they say of themselves is so, and that nothing is left."""

from collections import Counter

import numpy as np
import pytest

from properties.strategies import token_files as files
from properties.strategies.token_files import (
    Access,
    Act,
    Damage,
    Damaged,
    Ids,
    Lie,
    Misread,
    Opening,
    Pick,
    Route,
    Sampling,
    Saved,
    Tokens,
)
from properties.tests.drawing import drawn, share, smallest


def test_arrays_lie_in_every_way_and_have_every_type() -> None:
    cases = drawn(files.arrays, 1000)
    arrays = [case.build() for case in cases]
    assert [array.shape for array in arrays] == [case.shape for case in cases]
    assert {case.dtype for case in cases} == {*files.TOKEN_DTYPES, *files.OTHER_DTYPES}
    assert {case.lie for case in cases} == set(Lie)
    assert share(arrays, lambda array: array.size == 0) >= 0.03
    assert share(arrays, lambda array: array.ndim == 0) >= 0.03
    assert share(arrays, lambda array: not array.flags.c_contiguous) >= 0.2
    assert share(arrays, lambda array: array.dtype.byteorder == ">") >= 0.15


def test_ids_fit_or_do_not_by_construction() -> None:
    fitting, beyond = drawn(files.ids_that_fit), drawn(files.ids_that_do_not)
    assert all(case.fits for case in fitting) and not any(case.fits for case in beyond)
    assert {case.route for case in fitting + beyond} == set(Route) - {Route.COPYTO}
    cases = drawn(files.ids_by_any_route)
    assert {case.route for case in fitting + beyond + cases} == set(Route)
    assert share(cases, lambda case: case.due is None) >= 0.1
    assert share(cases, lambda case: case.due is not None and case.due != list(case.ids)) >= 0.1


@pytest.mark.parametrize(
    ("ids", "due"),
    [
        (Ids((65536, 1), "uint16", Route.ASTYPE), [0, 1]),
        (Ids((65536, 1), "uint16", Route.ARRAY), None),
        (Ids((-1,), "uint16", Route.TENSOR), [65535]),
        (Ids((-65536,), "uint16", Route.TENSOR), None),
        (Ids((-129,), "int8", Route.TENSOR), None),
        (Ids((5,), "uint8", Route.COPYTO), None),
        (Ids((2**31,), "int32", Route.COPYTO), [-(2**31)]),
    ],
)
def test_the_rule_of_a_route_by_hand(ids: Ids, due: list[int] | None) -> None:
    assert ids.due == due


def test_the_smallest_id_that_does_not_fit() -> None:
    found = smallest(files.ids_that_do_not, lambda case: case.dtype == "uint16")
    assert len(found.ids) <= 2
    assert not found.fits


def test_misreadings_differ_in_width_or_order() -> None:
    cases = drawn(files.misreadings)
    widths = share(cases, lambda case: np.dtype(case.read).itemsize != np.dtype(case.written.dtype).itemsize)
    assert 0.2 <= widths <= 0.9
    assert share(cases, lambda case: case.due() is None) >= 0.05
    assert all(len(set(case.tokens().ravel()[:1].tobytes())) == case.tokens().itemsize for case in cases)
    assert Misread(Tokens("<u2", (1,)), ">u2").due() == [0x0102]


def test_readings_have_headers_orders_and_modes() -> None:
    cases = drawn(files.readings)
    assert share(cases, lambda case: case.header == 0) >= 0.1
    assert share(cases, lambda case: case.header % 4096) >= 0.1
    assert share(cases, lambda case: case.header > 65536) >= 0.03
    modes = Counter(case.mode for case in cases)
    assert all(modes[mode] >= 30 for mode in ("r", "c", "r+"))
    assert 0.2 <= share(cases, lambda case: case.order == "F") <= 0.8


def test_openings_read_and_write() -> None:
    reading, writing = drawn(files.reading_modes), drawn(files.writing_modes)
    assert {case.mode for case in reading} == {"r", "c"} and all(case.due == case.before for case in reading)
    assert {case.mode for case in writing} == {"r+", "w+"}
    assert {case.act for case in reading} == {case.act for case in writing} == set(Act)
    assert share(writing, lambda case: case.due != case.before) >= 0.3
    assert share(writing, lambda case: case.due == case.before) >= 0.05
    assert share(writing, lambda case: case.by_default) >= 0.2
    assert Opening("w+", Act.SMALLER).due == [0, 0]
    assert Opening("r+", Act.LARGER).due == [1, 2, 3, 4, 0, 0]
    assert Opening("r+", Act.ASSIGN).after() == [files.ASSIGNED, 2, 3, 4]


def test_damages_are_all_drawn_and_a_whole_file_is_none() -> None:
    assert {case.damage for case in drawn(files.damaged)} == set(Damage)
    assert Damaged(Damage.TRUNCATED, 4, "r+").error() is None  # this mode makes the file longer


def test_far_places_lie_on_both_sides_of_each_limit() -> None:
    places = drawn(files.far_places)
    assert share(places, lambda place: place < 2**31) >= 0.05
    assert share(places, lambda place: 2**31 <= place < 2**32) >= 0.05
    assert share(places, lambda place: place >= 2**32) >= 0.05
    assert all(place % 4 == 0 and place // 4 < 2**31 for place in places)


def test_accesses_touch_the_pages_they_say() -> None:
    assert Access(4096, ((0, 1), (1023, 2))).pages(4096) == {0, 1}
    assert Access(1000, ((999, 50_000),)).pages(4096) == {0}
    cases = drawn(files.accesses())
    assert share(cases, lambda case: len(case.pages(4096)) == 1) >= 0.05
    assert share(cases, lambda case: len(case.pages(4096)) > 16) >= 0.05
    assert all(0 <= start < case.tokens for case in cases for start, _ in case.stretches)


def test_sampling_reads_no_more_than_it_says() -> None:
    assert Sampling(0, 1, 1, 1024).most_pages(4096, 16) == 2 + 30
    assert share(drawn(files.samplings), lambda case: case.context > 1024) >= 0.1
    assert files.BILLIONS in drawn(files.file_sizes)


def test_no_file_is_left_and_sparse_files_take_no_room() -> None:
    with files.folder() as place:
        with files.written(np.arange(3, dtype=">u2"), "a.npy", header=b"xy") as path:
            assert path.read_bytes() == b"xy\x00\x00\x00\x01\x00\x02"
            np.save(path.with_name("b.npy"), np.arange(3))
        with files.sparse(2**34, {2**33: b"z"}) as path, files.sparse(4) as other:
            assert path.stat().st_size == 2**34
            assert other.stat().st_size == 4
            assert np.memmap(path, mode="r")[2**33] == ord("z")
        assert list(place.iterdir()) == []


def test_descriptions_paste() -> None:
    for case in (*drawn(files.arrays, 10), *drawn(files.ids_by_any_route, 10), *drawn(files.writing_modes, 10)):
        assert eval(repr(case), vars(files)) == case


def test_picks_and_saved_files_are_of_either_kind() -> None:
    picks = drawn(files.picks)
    assert set(picks) == set(Pick)
    assert Pick.LIST.of(np.arange(4, dtype=np.int16)).tolist() == [0, 1]
    assert not Pick.LIST.is_view and Pick.SLICE_OF_TENSOR.is_view
    cases = drawn(files.saved)
    assert {case.mode for case in cases} == {"r", "c", "r+"}
    assert 0.1 <= share(cases, lambda case: case.archived) <= 0.6
    with Saved(3, "r").loaded() as (loaded, in_the_file):
        assert loaded.tolist() == in_the_file() == [1, 2, 3]
        assert len(files.from_its_first_page(loaded)) > loaded.nbytes
