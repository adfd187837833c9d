"""Linear memory is charged with what the driver takes for a request.

The figures are public ones: see gocore/lease/guard/linear.c.
"""

from pathlib import Path

from conftest_guard import CARDS, KIB, MIB, job

TAKEN = {  # bytes of a request that is the only one, and of the card
    1: 2 * MIB,
    512: 2 * MIB,
    100 * KIB: 2 * MIB,
    MIB: 2 * MIB,
    MIB + 1: 2 * MIB,
    1536 * KIB: 2 * MIB,
    2 * MIB: 2 * MIB,
    2 * MIB + 1: 4 * MIB,
    6 * MIB: 6 * MIB,
}


def test_a_request_is_charged_with_what_it_takes(driver: Path) -> None:
    """As the program sees it, and as the driver does."""
    with job(driver, 512 * MIB, FAKECUDA_MEMORY=str(512 * MIB)) as one:
        told = one.python(f"""
            begin()
            for size in {list(TAKEN)}:
                before = info()[0]
                result, address = allocate(size)
                print(size, before - info()[0])
                assert result == 0 == free(address) and info()[0] == before
            pitch, address = c_size_t(), c_uint64()
            assert cuda.cuMemAllocPitch_v2(byref(address), byref(pitch), c_size_t(1000), c_size_t(1500), 4) == 0
            print(pitch.value * 1500, {512 * MIB} - info()[0])
            assert free(address.value) == 0 and info()[0] == {512 * MIB}
        """)
        assert {int(asked): int(taken) for asked, taken in (line.split() for line in told.splitlines())} == {
            **TAKEN,
            1024 * 1500: 2 * MIB,
        }


def test_many_small_requests_are_not_charged_a_page_each(driver: Path) -> None:
    """And requests that do not fill a page together are charged at least what the pages are that they fill."""
    with job(driver, 64 * MIB, FAKECUDA_MEMORY=str(64 * MIB)) as one:
        told = one.python("""
            begin()
            for size, count in ((4, 4096), (700 * 1024, 64), (5 * MIB, 10)):
                made = [allocate(size) for _ in range(count)]
                print(sum(result == 0 for result, _ in made), info()[0] // MIB)
                for result, address in made:
                    assert result or free(address) == 0
        """)
        assert told.splitlines() == ["4096 62", "64 0", "10 4"]
        assert one.budget.usage()[CARDS[0]].refused == 0
        told = one.python("begin(); print([allocate(2 * MIB + 1)[0] for _ in range(17)].count(0), allocate(1)[0])")
        assert told == "16 2\n"


def test_a_request_beyond_the_limit_does_not_reach_the_driver(driver: Path) -> None:
    """Other processes on the card would be short of the memory for a moment.

    A small one that a page has room for does.
    """
    with job(driver, 64 * MIB) as one:
        assert one.python("""
            begin()
            def calls(bytes):
                before = cuda.fakecuda_count(b"cuMemAlloc")
                return allocate(bytes)[0], cuda.fakecuda_count(b"cuMemAlloc") - before
            print(calls(62 * MIB), calls(MIB), calls(2 * MIB), calls(MIB), calls(KIB))
        """).splitlines() == ["(0, 1) (0, 1) (2, 0) (0, 1) (2, 0)"]


def test_rows_that_do_not_fit_with_what_the_driver_adds_are_refused(driver: Path) -> None:
    """Rows of 600 bytes take 1024 each: 8 MiB, and not 5."""
    with job(driver, 6 * MIB) as one:
        assert one.python("""
            begin()
            pitch, address = c_size_t(), c_uint64()
            for rows in (8192, 6144):
                print(cuda.cuMemAllocPitch_v2(byref(address), byref(pitch), c_size_t(600), c_size_t(rows), 4),
                      info()[0] // MIB)
        """).splitlines() == ["2 6", "0 0"]
