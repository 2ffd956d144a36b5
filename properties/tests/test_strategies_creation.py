"""The strategies of new tensors reach both sides of their conditions, and their descriptions say what they build."""

import math

import numpy as np
import pytest
import torch
from hypothesis.strategies import SearchStrategy

from properties.instruments.formats import name_of
from properties.refusals import refused
from properties.strategies import creation
from properties.strategies.creation import FACTORIES, Made, NumPyData, NumPyScalar, PythonData, Route, Stored
from properties.tests.drawing import drawn, share
from reference import inference

NAMES = {"torch": torch, "np": np, "math": math}


def test_every_factory_of_the_table_is_called() -> None:
    assert set(FACTORIES) == set(inference.FACTORIES)
    assert {case.factory for case in drawn(creation.made, 500)} == set(FACTORIES)


def test_creations_of_floats_and_others_are_what_they_are_called() -> None:
    assert all(case.of_floats for case in drawn(creation.float_creations))
    others = drawn(creation.other_creations)
    assert not any(case.of_floats for case in others)
    for kind in (Made, PythonData, NumPyData, NumPyScalar):
        assert share(others, lambda case, kind=kind: isinstance(case, kind)) >= 0.05  # type: ignore[misc]


def test_python_data_reach_every_kind_of_number_alone_and_mixed() -> None:
    cases = drawn(creation.python_data, 500)
    for dtype in ("bool", "int64", "float32", "complex64"):
        assert share(cases, lambda case, dtype=dtype: case.dtype("float32") == dtype) >= 0.1  # type: ignore[misc]
    assert any(not case.numbers for case in cases)
    assert share(cases, lambda case: case.depth == 0) >= 0.1
    assert share(cases, lambda case: len({type(number) for number in case.numbers}) > 1) >= 0.1


@pytest.mark.parametrize(
    "strategy",
    [creation.made, creation.python_data, creation.numpy_data, creation.whole_storages, creation.partial_storages],
)
def test_texts_paste_and_give_the_same_kind_of_tensor(strategy: SearchStrategy[creation.Creation]) -> None:
    for case in drawn(strategy, 100):
        built = case.build()
        if built.is_quantized or built.dtype == torch.complex32:
            continue  # these announce their future in a warning unless they are built quietly
        pasted = eval(repr(case), NAMES)
        assert (pasted.shape, pasted.dtype, pasted.device) == (built.shape, built.dtype, built.device), case


def test_refused_data_are_refused_and_accepted_ones_are_not() -> None:
    for case in drawn(creation.refused_data, 200):
        assert case.dtype("float32") is None
        assert refused((TypeError, ValueError), case.build), case
    for taken in drawn(creation.numpy_data, 200):
        assert taken.dtype("float32") == name_of(taken.build().dtype)


def test_storages_lie_on_their_side() -> None:
    assert all(case.covers_storage_once for case in drawn(creation.whole_storages))
    partial = drawn(creation.partial_storages)
    assert share(partial, lambda case: not case.covers_storage_once) >= 0.5
    assert share(partial, lambda case: isinstance(case, Stored)) >= 0.1
    assert {case.device for case in drawn(creation.storages_of(torch.float32))} == {"cpu", "meta"}


def test_networks_count_their_batches_in_integers() -> None:
    for network in drawn(creation.networks, 50):
        state = network.build().state_dict()
        assert network.counters == {name for name, x in state.items() if not x.is_floating_point()}


@pytest.mark.parametrize("route", list(Route))
def test_every_route_stores_one_number_of_the_dtype(route: Route) -> None:
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2):
        stored = route.store(-1.5, dtype)
        assert (stored.shape, stored.dtype, stored.item()) == ((1,), dtype, -1.5)
