import pytest

from adaptkry.common.memory import parse_bytes
from adaptkry.outofcore import propagate
from adaptkry.outofcore.memory_plan import BUFFER_BYTES, ProblemSize, plan_memory
from basis_on_disk import small_graph


def test_a_limit_too_small_for_a_column_is_refused_with_the_minimum(tmp_path):
    with pytest.raises(
        ValueError, match=r"one column of 60 nodes .* needs \d+\.\d+ MiB of memory.*Use --memory (\d+)MiB"
    ):
        propagate(small_graph(), tmp_path / "b", taus=[1.0], degree=2, memory="10MiB")
    size = ProblemSize(10**7, 10**8, 10**4, 64, 10**5, False, False)
    with pytest.raises(ValueError, match=r"--memory (\d+)MiB") as refused:
        plan_memory(size, 2**20)
    least = parse_bytes(str(refused.value).split("--memory ")[1].split(" ")[0])
    assert plan_memory(size, least).width == 1
    with pytest.raises(ValueError, match="one column"):
        plan_memory(size, least - 2**20)


@pytest.mark.parametrize("gib", [1, 1.5, 2.5, 3, 4, 8, 64])
@pytest.mark.parametrize("rows", [10**5, 10**7])
def test_a_plan_stays_within_its_limit(gib, rows):
    plan = plan_memory(ProblemSize(10**7, 10**8, 10**4, 64, rows, False, False), int(gib * 2**30))
    assert plan.peak_bytes <= gib * 2**30
    assert plan.width >= (1 if gib < 1.5 else 8 if gib < 2.5 else 16)
    assert (plan.entries_in_memory is None) == (gib >= 2.5)


def test_if_all_rows_are_stored_a_whole_hop_can_be_queued_for_writing():
    some, everything = (
        plan_memory(ProblemSize(10**7, 10**8, 10**4, 64, rows, False, False), 4 * 2**30) for rows in (10**5, 10**7)
    )
    assert (some.width, everything.width) == (32, 16)  # memory of a panel is used for rows that are queued
    assert everything.buffers * BUFFER_BYTES >= 4 * 16 * 10**7


@pytest.mark.parametrize("text", ["4 apples", "", "GiB", "1.2.3GB", "."])
def test_text_that_is_not_a_size_is_refused(text):
    with pytest.raises(ValueError, match="must be a size with a unit"):
        parse_bytes(text)
