"""The benchmark of the ledger requests what the ledger reads. Speed is not tested."""

import runpy
from pathlib import Path

from gpuconf._core.native import core
from gpuconf.leases.ledger import open_ledger

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "ledger.py"


def test_its_request_is_granted(tmp_path: Path) -> None:
    """`make bench` once ended with an error there: the request had the form of an earlier version."""
    ledger = open_ledger(str(tmp_path / "ledger"))
    claim = core.pybind_LedgerClaim(ledger.number, runpy.run_path(str(BENCHMARK))["REQUEST"], False)
    (row,) = ledger.claims()
    core.pybind_LedgerRelease(claim)
    assert (row.cards[0].bytes, ledger.claims()) == (1 << 26, [])
