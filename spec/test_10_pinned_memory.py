"""Parameters and memory, continued: host memory that may not be paged out, and copies from it."""

import math
import warnings

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch.utils.data import DataLoader
from torch.utils.data._utils import pin_memory as pinning

from properties.claims import also, context, costly, holds, holds_when, needs
from properties.evidence import when, within_band
from properties.instruments import devices
from properties.instruments.clock import compare
from properties.ratios import Band
from properties.refusals import refused
from properties.strategies import batches
from properties.strategies.batches import Batch, Container, Part, Pinnable, Samples
from properties.strategies.layouts import Layout, separate_layouts
from properties.strategies.workloads import CopyAndCompute, Host, Upload

# ── pinned memory ──


@holds("pinned.memory.page-locked")
@given(layout=separate_layouts())
@example(layout=Layout((2, 3)))
@example(layout=Layout((0,)))
def test_memory_is_pinned_by_an_accelerator_or_not_at_all(layout):
    """Pinned memory is host memory that the system may not page out.

    The accelerator's driver holds it in place. So an ordinary tensor is not pinned, and asking for it where there is no
    accelerator is an error, of an empty tensor too; where there is one, a pinned copy is the answer.
    """
    x, pins = layout.build(), devices.pins_memory()
    assert not x.is_pinned()
    assert refused(RuntimeError, x.pin_memory) == (not pins)


@also("pinned.memory.page-locked")
@given(shape=st.lists(st.integers(0, 4), max_size=3).map(tuple), factory=st.sampled_from((torch.empty, torch.zeros)))
@example(shape=(2, 3), factory=torch.empty)
def test_a_new_tensor_is_pinned_by_an_accelerator_or_not_at_all(shape, factory):
    """A factory that is asked for pinned memory without an accelerator raises too: it gives no ordinary memory."""
    pins = devices.pins_memory()
    assert refused(RuntimeError, factory, shape, pin_memory=True) == (not pins)


@also("pinned.memory.page-locked")
@given(shape=st.lists(st.integers(0, 4), max_size=3).map(tuple))
@example(shape=(2, 3))
def test_only_memory_of_the_host_can_be_pinned(shape):
    """A tensor on another device, the meta device for one, is never pinned and cannot be."""
    x = torch.empty(shape, device="meta")
    assert not x.is_pinned()
    assert refused(RuntimeError, x.pin_memory)


@also("pinned.memory.page-locked")
@needs("cuda")
@given(layout=separate_layouts())
@example(layout=Layout((2, 3)))
def test_a_pinned_copy_is_pinned_and_its_original_is_not(layout):
    """pin_memory() gives a copy in pinned memory with the same values; a pinned tensor gives itself, and a view of it
    is pinned; the original stays as it was.

    The copy has the strides of the original, so that its elements are not to share memory.
    """
    x = layout.build()
    pinned = x.pin_memory()
    assert pinned.is_pinned() or not x.numel()
    assert not x.is_pinned()
    assert torch.equal(pinned, x)
    assert pinned.pin_memory().data_ptr() == pinned.data_ptr()
    assert pinned.unsqueeze(0).is_pinned() or not x.numel()


context(
    "pinned.memory.dma",
    "GPUs read host memory by DMA, which needs stable addresses.",
    source="the document, section 10",
)

# ── copies ──


@holds("pinned.copy.faster")
@needs("cuda")
@pytest.mark.parametrize("mebibytes", [64, 256])
def test_a_copy_from_pinned_memory_is_faster(mebibytes):
    """Copies from pinned memory are more efficient.

    By a fifth at least, from 64 MiB up.
    """
    pinned, pageable = (Upload(mebibytes, memory).awaited() for memory in Host)
    seen = compare(pageable, pinned, Band(1.2, math.inf))
    within_band(seen, unit="times as fast", where={"MiB": mebibytes})


@also("pinned.copy.faster")
@needs("cuda")
@pytest.mark.parametrize("mebibytes", [1, 4, 16])
def test_a_smaller_copy_from_pinned_memory_is_no_slower(mebibytes):
    """Below, whatever it gains is noted, and it does not lose."""
    pinned, pageable = (Upload(mebibytes, memory).awaited() for memory in Host)
    seen = compare(pageable, pinned, Band(0.8, math.inf))
    within_band(seen, unit="times as fast", where={"MiB": mebibytes})


@holds("pinned.copy.overlaps")
@needs("cuda")
def test_a_copy_from_pinned_memory_runs_beside_products():
    """Copies from pinned memory can run while the GPU computes.

    A copy and products that take as long alone: on two streams they take three quarters at most of what they take one
    after the other.
    """
    together, in_turn = CopyAndCompute(Upload(256, Host.PINNED)).works()
    within_band(compare(together, in_turn, Band(0, 0.75)), rule=0.5, unit="of the time in turn")


@also("pinned.copy.overlaps")
@needs("cuda")
def test_a_copy_from_pageable_memory_holds_up_what_is_asked_for_after_it():
    """From ordinary memory the call of the copy does not return in time for the products to run beside it."""
    together, in_turn = CopyAndCompute(Upload(256, Host.PAGEABLE)).works()
    within_band(compare(together, in_turn, Band(0.8, 1.25)), rule=1, unit="of the time in turn")


# ── loaders ──


@holds_when(
    "pinned.dataloader",
    "there is an accelerator; without one the loader warns once an epoch and gives ordinary memory",
    environment=True,
)
@given(samples=batches.samples)
@example(samples=Samples(Container.TUPLE, (2, 3), count=3, batch=2))
@example(samples=Samples(Container.DICT, (2,), count=1, batch=1))
def test_a_loader_gives_pinned_batches(samples):
    """DataLoader(pin_memory=True) gives pinned batches.

    Every tensor of every batch, in whatever containers the samples are.
    """
    pins = devices.pins_memory()
    with warnings.catch_warnings(record=True, action="always") as warned:
        found = list(DataLoader(samples.build(), batch_size=samples.batch, pin_memory=True))
    tensors = [each for batch in found for each in batches.tensors(batch) if each.numel()]
    there = when(pins)
    assert [each.is_pinned() for each in tensors] == [there] * len(tensors)
    assert len([each for each in warned if "pin_memory" in str(each.message)]) == (not there)


@also("pinned.dataloader")
@given(samples=batches.samples)
@example(samples=Samples(Container.TUPLE, (2, 3), count=3, batch=2))
def test_a_loader_that_is_not_asked_neither_pins_nor_warns(samples):
    """By default batches are in ordinary memory, and nothing is said about it."""
    with warnings.catch_warnings(record=True, action="always") as warned:
        found = list(DataLoader(samples.build(), batch_size=samples.batch))
    assert not any(each.is_pinned() for batch in found for each in batches.tensors(batch))
    assert not warned


@also("pinned.dataloader")
@given(batch=batches.batches)
@example(batch=Batch(Container.OWN_DICT, (Part(Pinnable, 1), Part(str, 2))))
@example(batch=Batch(Container.NAMED_TUPLE, (Part(Pinnable, 1), Batch(Container.OWN_LIST, (Part(int, 2),)))))
def test_pinning_keeps_containers_and_pins_what_knows_how(batch):
    """Lists, tuples, named tuples and dictionaries come back as what they were, classes of one's own too, with what
    they carry beside their parts. A thing with a pin_memory method is replaced by what that gives, all else stays.
    """
    seen, due = pinning.pin_memory(batch.build()), batch.pinned()
    assert seen == due
    assert batches.types(seen) == batches.types(due)


@holds("pinned.non-blocking")
@needs("cuda")
def test_a_copy_from_pinned_memory_is_called_and_goes_on_by_itself():
    """x.pin_memory() and then .to('cuda', non_blocking=True) loads asynchronously.

    The call is back in a fifth of the time that the copy takes, or less.
    """
    upload = Upload(64, Host.PINNED)
    within_band(compare(upload.call(), upload.awaited(), Band(0, 0.2)), unit="of the copy's time", where=upload)


@also("pinned.non-blocking")
@needs("cuda")
def test_a_copy_from_pageable_memory_is_waited_for():
    """From ordinary memory the call comes back when most of the copy is done, however it was asked for."""
    upload = Upload(256, Host.PAGEABLE)
    within_band(
        compare(upload.call(), upload.awaited(), Band(0.5, 1.25)), rule=1, unit="of the copy's time", where=upload
    )


@also("pinned.non-blocking")
@needs("cuda")
@costly(cases=8, because="copies megabytes to the device and back")
@given(mebibytes=st.integers(1, 8), memory=st.sampled_from(Host))
def test_a_copy_that_was_waited_for_is_equal(mebibytes, memory):
    """After synchronising the values on the device are those of the host."""
    x = Upload(mebibytes, memory).source()
    y = x.to("cuda", non_blocking=True)
    torch.cuda.synchronize()
    assert torch.equal(y.cpu(), x)
