"""What the sharing instrument sees, and that it sees what it should."""

import numpy as np
import pytest
import torch

from properties.instruments import sharing
from properties.instruments.sharing import Allocation, same_storage, trace_allocations
from reference.strided import Strided


def test_a_view_shares_and_a_clone_does_not() -> None:
    x = torch.arange(6).reshape(2, 3)
    assert same_storage(x, x.t()[1:])
    assert not same_storage(x, x.clone())


def test_storages_without_bytes_are_told_apart() -> None:
    x, y = torch.empty(0), torch.empty(0)
    assert x.data_ptr() == y.data_ptr() == 0
    assert not same_storage(x, y)
    assert same_storage(x, x.view(0, 3))


def test_metadata_is_what_torch_reports() -> None:
    assert sharing.metadata(torch.arange(10)[2:8:2]) == Strided((3,), (2,), 2, 10)


def test_metadata_that_reaches_beyond_the_storage_is_refused() -> None:
    x = torch.from_numpy(np.arange(3))
    with pytest.raises(RuntimeError, match="not resizable"):
        x.resize_(10)
    with pytest.raises(ValueError, match="beyond a storage of 3"):
        sharing.metadata(x)


def test_addresses_are_in_bytes_from_the_start_of_the_storage() -> None:
    x = torch.arange(12, dtype=torch.int16).reshape(3, 4)[1:, ::2]
    assert sharing.address(x, (1, 1)) == 2 * 10
    assert sharing.addresses(x).tolist() == [[8, 12], [16, 20]]
    assert sharing.addresses(x[0, 0]) == 8


def test_memory_is_live_and_whole() -> None:
    x = torch.zeros(4, dtype=torch.int16)[1:2]
    sharing.memory(x)[2:4] = 1
    assert x.tolist() == [257]
    sharing.elements(x)[1] = 7
    assert x.tolist() == [7]
    assert sharing.elements(x).tolist() == [0, 7, 0, 0]
    assert sharing.memory(torch.empty(0)).size == 0


def test_elements_show_what_the_bytes_say() -> None:
    x = torch.tensor([1 + 2j]).conj()
    assert sharing.elements(x).tolist() == [1 + 2j]


def test_elements_leave_out_bytes_that_fill_none() -> None:
    assert sharing.elements(torch.empty(7, dtype=torch.uint8)[:4].view(torch.int32)).shape == (1,)


def test_a_view_allocates_nothing_and_a_copy_its_bytes() -> None:
    x = torch.zeros(8, 4)
    assert sharing.allocated(lambda: x.t()[1:].unsqueeze(0).expand(5, -1, -1)) == 0
    assert sharing.allocated(lambda: x.t().contiguous()) == 8 * 4 * 4
    assert sharing.allocated(lambda: x.expand(3, 8, 4).clone()) == 3 * 8 * 4 * 4


def test_every_output_counts_and_names_its_operator() -> None:
    x = torch.zeros(8)
    with trace_allocations() as trace:
        torch.sort(x)
        x.add_(1)
        torch.cat([x, x])
    assert trace.allocations == [
        Allocation("aten.sort.default", 8 * 4),
        Allocation("aten.sort.default", 8 * 8),
        Allocation("aten.cat.default", 16 * 4),
    ]
    assert "aten.add_.Tensor" in trace.operators
    assert trace.nbytes == 160


def test_reshape_is_seen_as_what_it_does() -> None:
    x = torch.zeros(2, 3)
    with trace_allocations() as viewed:
        x.reshape(3, 2)
    with trace_allocations() as copied:
        x.t().reshape(6)
    assert (viewed.nbytes, copied.nbytes) == (0, 24)
    assert any("clone" in operator for operator in copied.operators)


def test_growing_a_storage_counts_as_much_as_it_grows() -> None:
    x = torch.zeros(4)
    with trace_allocations() as trace:
        x.resize_(6)
    assert trace.nbytes == 8
    with trace_allocations() as trace:
        x.resize_(2)
    assert trace.nbytes == 0


def test_bytes_on_the_meta_device_are_counted_and_not_taken() -> None:
    x = torch.zeros(2**40, device="meta")
    assert sharing.allocated(lambda: x[1:]) == 0
    assert sharing.allocated(lambda: x.clone()) == 2**42


def test_sparse_outputs_are_not_counted() -> None:
    assert sharing.allocated(lambda: torch.eye(3).to_sparse()) == 3 * 3 * 4


def test_the_bare_storage_has_no_window() -> None:
    x = torch.arange(6).reshape(2, 3).t()[1:]
    assert sharing.bare(x).tolist() == [0, 1, 2, 3, 4, 5]
    assert same_storage(x, sharing.bare(x))


def test_elements_reached_are_counted_once() -> None:
    assert sharing.elements_reached(torch.arange(6).reshape(2, 3)[:, 1:]) == 4
    assert sharing.elements_reached(torch.arange(2).expand(3, 2)) == 2
    assert sharing.elements_reached(torch.arange(6).unfold(0, 3, 1)) == 6
    assert sharing.elements_reached(torch.arange(0)) == 0


def test_fresh_bytes_are_those_of_the_storage() -> None:
    assert sharing.fresh_bytes(3, torch.float64) == 24
    assert sharing.fresh_bytes(3, torch.complex32) == 12
