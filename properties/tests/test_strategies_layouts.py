"""The layout strategies reach what they promise, shrink to what is small, and say what torch does."""

import collections
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis.strategies import SearchStrategy

from properties.instruments.sharing import metadata, same_storage
from properties.strategies import indices, layouts, scopes
from properties.strategies.indices import Index, Mask, Picks, Span
from properties.strategies.layouts import Layout
from properties.strategies.steps import (
    IDLE_COPIES,
    SIZELESS,
    AsStrided,
    Conjugate,
    Expand,
    Imaginary,
    Permute,
    Select,
    Slice,
    Step,
    Transpose,
    Unbind,
    Unsqueeze,
    ViewAsReal,
)
from properties.tests.drawing import drawn, share, smallest
from reference import strided
from reference.strided import Strided

DRAWS = 300


def repeats(x: Strided) -> bool:
    return any(step == 0 and size > 1 for size, step in zip(x.shape, x.stride, strict=True))


SHARES: dict[str, tuple[float, Callable[[Strided], object]]] = {
    "not contiguous": (0.20, lambda x: not strided.is_contiguous(x)),
    "contiguous": (0.20, strided.is_contiguous),
    "with an offset": (0.15, lambda x: x.offset),
    "with a stride of 0": (0.05, repeats),
    "overlapping": (0.05, strided.overlaps),
    "with a size of one": (0.15, lambda x: 1 in x.shape),
    "without elements": (0.10, lambda x: not x.numel),
    "without dimensions": (0.02, lambda x: not x.dim),
    "of four dimensions": (0.03, lambda x: x.dim >= 4),
    "that view() can cut": (0.15, lambda x: len(strided.runs(x.shape, x.stride)) > 1 and x.numel),
}


@pytest.mark.parametrize("what", SHARES)
def test_layouts_reach(what: str) -> None:
    least, condition = SHARES[what]
    windows = [layout.window() for layout in drawn(layouts.layouts())]
    assert share(windows, condition) >= least


@pytest.mark.parametrize("what", [what for what in SHARES if what != "without elements"])
def test_layouts_shrink_to_few_elements(what: str) -> None:
    found = smallest(layouts.filled_layouts(), lambda layout: SHARES[what][1](layout.window()))
    assert len(found.steps) <= 2
    assert math.prod(found.shape) <= 6


def test_the_smallest_layout_of_all_is_one_element() -> None:
    assert smallest(layouts.layouts(), lambda layout: True) == Layout(())


def test_the_smallest_scattered_layout_that_is_not_repeated_is_a_transpose() -> None:
    found = smallest(layouts.scattered_layouts(), lambda layout: not repeats(layout.window()))
    assert repr(found) == "torch.arange(4).reshape((2, 2)).permute((1, 0))"


def test_the_smallest_view_with_an_offset_is_one_slice() -> None:
    found = smallest(layouts.layouts(), lambda layout: layout.window().offset)
    assert len(found.steps) == 1
    assert math.prod(found.shape) <= 2


STRATEGIES: dict[str, SearchStrategy[Any]] = {
    "layouts": layouts.layouts(),
    "fresh": layouts.fresh_layouts(),
    "views": layouts.views(),
    "contiguous": layouts.contiguous_layouts(),
    "scattered": layouts.scattered_layouts(),
    "shared": layouts.shared_layouts(),
    "separate": layouts.separate_layouts(),
    "unmoved": layouts.unmoved_layouts(),
    "offset": layouts.offset_layouts(),
    "lazy": layouts.lazy_layouts(),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_model_follows_torch_and_the_expression_pastes(name: str) -> None:
    for layout in drawn(STRATEGIES[name]):
        x = layout.build()
        window = metadata(x)
        expected = layout.window()
        assert (window.shape, window.stride, window.offset) == (
            expected.shape,
            expected.stride,
            expected.offset,
        )
        pasted = eval(repr(layout), {"torch": torch})
        assert metadata(pasted) == window
        assert (pasted.dtype, pasted.is_conj(), pasted.is_neg()) == (x.dtype, x.is_conj(), x.is_neg())
        assert torch.equal(pasted.resolve_conj().resolve_neg(), x.resolve_conj().resolve_neg())
        assert eval(layout.constructor(), vars(layouts) | {"torch": torch}) == layout


def test_elements_are_their_own_addresses() -> None:
    for layout in drawn(layouts.layouts()):
        assert layout.build().tolist() == strided.addresses(layout.window()).tolist()


CONDITIONS: dict[str, Callable[[Strided], object]] = {
    "contiguous": strided.is_contiguous,
    "scattered": lambda x: sum(run.numel > 1 for run in strided.runs(x.shape, x.stride)) > 1,
    "shared": strided.overlaps,
    "separate": lambda x: not strided.overlaps(x),
    "unmoved": lambda x: x.offset == 0 and x.numel,
    "offset": lambda x: x.offset > 0 and x.numel,
    "fresh": strided.covers_storage_once,
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_side_is_reached_by_construction(name: str) -> None:
    for layout in drawn(STRATEGIES[name]):
        assert CONDITIONS[name](layout.window()), layout


def test_contiguous_layouts_have_offsets_and_odd_strides_too() -> None:
    windows = [layout.window() for layout in drawn(layouts.contiguous_layouts())]
    assert share(windows, lambda x: x.offset) >= 0.1
    assert share(windows, lambda x: x.stride != strided.packed_stride(x.shape)) >= 0.05
    assert share(windows, lambda x: not x.numel) >= 0.1


def test_scattered_layouts_come_in_every_way() -> None:
    windows = [layout.window() for layout in drawn(layouts.scattered_layouts())]
    assert share(windows, repeats) >= 0.05
    assert share(windows, lambda x: x.offset) >= 0.2
    assert share(windows, strided.is_dense) >= 0.05
    assert share(windows, lambda x: strided.overlaps(x) and not repeats(x)) >= 0.05


def test_lazy_layouts_carry_one_bit_each() -> None:
    tensors = [layout.build() for layout in drawn(layouts.lazy_layouts())]
    assert all(x.is_conj() != x.is_neg() for x in tensors)
    assert share(tensors, lambda x: x.is_neg()) >= 0.2
    assert share(tensors, lambda x: x.is_conj()) >= 0.2


def test_every_kind_of_view_is_drawn() -> None:
    pairs = drawn(layouts.view_operations(), 1000)
    kinds = collections.Counter(type(step) for _, step in pairs)
    assert len(kinds) == 25
    assert min(kinds.values()) >= 5
    assert share(pairs, lambda pair: pair[0].steps) >= 0.3


def test_the_model_follows_every_kind_of_view() -> None:
    for layout, step in drawn(layouts.view_operations()):
        x = layout.build()
        view = step.apply(x)
        expected, seen = step.predict(layout.window()), metadata(view)
        assert same_storage(x, view)
        assert (seen.shape, seen.stride, seen.offset) == (expected.shape, expected.stride, expected.offset), step


def test_written_views_have_the_element_that_is_written() -> None:
    for layout, step, element in drawn(layouts.written_views()):
        assert 0 <= element < step.predict(layout.window()).numel


def test_fitting_targets_fit_and_cutting_targets_cut() -> None:
    for layout, target in drawn(layouts.fitting_targets()):
        x = layout.window()
        assert strided.can_view(x.shape, x.stride, target), (layout, target)
    for layout, target in drawn(layouts.cutting_targets()):
        x = layout.window()
        assert not strided.can_view(x.shape, x.stride, target), (layout, target)
        assert -1 in target or math.prod(target) == x.numel


def test_targets_reach_minus_one_ones_and_layouts_of_every_sort() -> None:
    fitting, cutting = drawn(layouts.fitting_targets()), drawn(layouts.cutting_targets())
    for pairs in (fitting, cutting):
        assert share(pairs, lambda pair: -1 in pair[1]) >= 0.1
        assert share(pairs, lambda pair: 1 in pair[1]) >= 0.1
        assert share(pairs, lambda pair: pair[0].window().offset) >= 0.1
        assert share(pairs, lambda pair: repeats(pair[0].window())) >= 0.03
        assert share(pairs, lambda pair: not pair[0].window().numel) >= 0.03
    assert share(fitting, lambda pair: not strided.is_contiguous(pair[0].window())) >= 0.15
    assert share(cutting, lambda pair: len(pair[1]) > 1) >= 0.3


def test_the_smallest_cut_flattens_a_transposed_matrix() -> None:
    layout, target = smallest(
        layouts.cutting_targets(), lambda pair: pair[0].window().numel and not repeats(pair[0].window())
    )
    assert (repr(layout), target) == ("torch.arange(4).reshape((2, 2)).permute((1, 0))", (4,))


def test_orders_keep_or_change() -> None:
    def followed(shape: tuple[int, ...], order: tuple[int, ...]) -> bool:
        longer = [dim for dim in order if shape[dim] > 1]
        return 0 in shape or longer == sorted(longer)

    keeping, changing = drawn(layouts.keeping_orders()), drawn(layouts.changing_orders())
    assert all(followed(*pair) for pair in keeping)
    assert not any(followed(*pair) for pair in changing)
    assert share(keeping, lambda pair: pair[1] != tuple(sorted(pair[1]))) >= 0.2
    assert share(changing, lambda pair: 1 in pair[0]) >= 0.2


def holding(kind: type) -> Callable[[tuple[Layout, Index]], bool]:
    return lambda pair: any(isinstance(item, kind) for item in pair[1].items)


def test_indices_are_basic_or_pick() -> None:
    basic, picking = drawn(indices.basic_indices()), drawn(indices.picking_indices())
    assert all(index.is_basic for _, index in basic)
    assert not any(index.is_basic for _, index in picking)
    for layout, index in [*basic, *picking]:
        assert isinstance(layout.build()[index.build()], torch.Tensor)
    kind: type
    for kind in (int, Span, type(None), type(Ellipsis)):
        assert share(basic, holding(kind)) >= 0.1
    for kind in (Picks, Mask):
        assert share(picking, holding(kind)) >= 0.3
    assert Index((Span(1), Picks((0, -1)), None)).build() == (slice(1, None), [0, -1], None)


def test_bytes_are_readable_or_not_by_construction() -> None:
    for layout, dtype in drawn(layouts.readable_bytes()):
        item_bytes = layout.build().itemsize
        assert strided.can_reinterpret(layout.window(), item_bytes, dtype.itemsize), (layout, dtype)
    for layout, dtype in drawn(layouts.unreadable_bytes()):
        x = layout.build()
        lazy = x.is_conj() or x.is_neg()
        assert lazy or not strided.can_reinterpret(layout.window(), x.itemsize, dtype.itemsize), (
            layout,
            dtype,
        )


def test_readable_bytes_widen_narrow_and_stay() -> None:
    pairs = drawn(layouts.readable_bytes())
    ratios = [layout.build().itemsize / dtype.itemsize for layout, dtype in pairs]
    assert share(ratios, lambda ratio: ratio < 1) >= 0.05
    assert share(ratios, lambda ratio: ratio == 1) >= 0.05
    assert share(ratios, lambda ratio: ratio > 1) >= 0.05


def test_operations_without_a_size_take_any_matrix() -> None:
    assert len({type(step) for step in SIZELESS}) == len(SIZELESS)
    for shape in ((4, 4), (6, 5), (128, 1000)):
        for step in SIZELESS:
            x = torch.zeros(shape)
            assert metadata(step.apply(x)) == step.predict(metadata(x)), step


def test_idle_copies_hand_back_all_elements_in_order() -> None:
    for layout in drawn(layouts.fresh_layouts(layouts.FILLED, (1, 2, 3)), 20):
        x = layout.build()
        for operation in IDLE_COPIES.values():
            assert operation(x).flatten().tolist() == x.flatten().tolist()


SIDES: dict[str, tuple[SearchStrategy[Any], SearchStrategy[Any], Callable[[Any], object]]] = {
    "contiguous()": (
        layouts.contiguous_layouts(),
        layouts.scattered_layouts(),
        lambda layout: strided.is_contiguous(layout.window()),
    ),
    "indexed memory": (
        layouts.separate_layouts(),
        layouts.shared_layouts(),
        lambda layout: not strided.overlaps(layout.window()),
    ),
    "offset": (
        layouts.unmoved_layouts(),
        layouts.offset_layouts(),
        lambda layout: layout.window().offset == 0,
    ),
    "view()": (
        layouts.fitting_targets(),
        layouts.cutting_targets(),
        lambda pair: strided.can_view(pair[0].window().shape, pair[0].window().stride, pair[1]),
    ),
    "view() of contiguous": (
        layouts.contiguous_targets(),
        layouts.scattered_targets(),
        lambda pair: strided.is_contiguous(pair[0].window()),
    ),
    "order": (layouts.keeping_orders(), layouts.changing_orders(), lambda pair: not strided.reorders(*pair)),
    "index": (indices.basic_indices(), indices.picking_indices(), lambda pair: pair[1].is_basic),
    "strides": (
        layouts.layouts(),
        layouts.compressed_matrices(),
        lambda x: x.build().layout is torch.strided,
    ),
}


@pytest.mark.parametrize("condition", SIDES)
def test_each_side_of_a_condition_is_drawn_often(condition: str) -> None:
    inside, outside, holds = SIDES[condition]
    assert all(map(holds, drawn(inside, 100)))
    assert not any(map(holds, drawn(outside, 100)))
    assert 0.05 <= share(drawn(inside | outside), holds) <= 0.95


def test_expressions_read_as_torch_is_written() -> None:
    layout = Layout((2, 3), (Transpose(0, 1), Slice(0, 1, None), Select(1, -1)))
    assert repr(layout) == "torch.arange(6).reshape((2, 3)).transpose(0, 1)[1:].select(1, -1)"
    assert repr(Layout((4,), (Slice(0, None, 3, 2),), torch.float16)) == "torch.arange(4).to(torch.float16)[:3:2]"
    assert repr(Layout((2,), (Conjugate(), Imaginary()), torch.complex64)) == (
        "torch.arange(4, dtype=torch.float32).view(torch.complex64).conj().imag"
    )
    real = Layout((1,), (ViewAsReal(), Unbind(1, 0)), torch.complex64)
    assert repr(real).startswith("torch.view_as_real(") and repr(real).endswith(").unbind(1)[0]")
    assert repr(Layout((2, 3), (Slice(1, 0, 2),))) == "torch.arange(6).reshape((2, 3))[:, 0:2]"


def test_layouts_are_told_apart_by_value() -> None:
    assert Layout((2, 3), (Permute((1, 0)),)) == Layout((2, 3), (Permute((1, 0)),))
    assert hash(Layout((2,), (Unsqueeze(0), Expand((3, -1))))) == hash(Layout((2,), (Unsqueeze(0), Expand((3, -1)))))
    steps: list[Step] = [AsStrided((2,), (1,), 0), AsStrided((2,), (1,), None)]
    assert len(set(steps)) == 2


@pytest.mark.parametrize("dims", range(4))
def test_scopes_have_the_size_that_is_counted(dims: int) -> None:
    sizes, strides = (0, 1, 2, 3), (0, 1, 2)
    assert len(set(scopes.every_shape(sizes, dims))) == scopes.shapes_in_scope(len(sizes), dims)
    assert len(set(scopes.every_permuted(sizes, dims))) == scopes.permuted_in_scope(len(sizes), dims)
    assert len(set(scopes.every_shape((3,), dims))) == scopes.shapes_in_scope(1, dims)
    for numel in (1, 2, 4, 6, 12, 30, 64):
        targets = scopes.every_target(numel, dims)
        assert len(set(targets)) == len(targets) == scopes.targets_in_scope(numel, dims)
        assert all(math.prod(target) == numel for target in targets)
    pairs = scopes.with_targets(scopes.every_permuted((1, 2, 3), min(dims, 2)), dims)
    assert len(set(pairs)) == len(pairs) == scopes.permuted_pairs((1, 2, 3), min(dims, 2), dims)
    windows = list(scopes.every_strided(sizes, strides, min(dims, 2)))
    assert len(set(windows)) == scopes.strided_in_scope(len(sizes), len(strides), min(dims, 2))
    assert {layout.window().offset for layout in windows} == {1}
    pairs = scopes.with_targets(scopes.every_strided((1, 2, 3), strides, min(dims, 2)), dims)
    assert len(set(pairs)) == len(pairs) == scopes.strided_pairs((1, 2, 3), len(strides), min(dims, 2), dims)
