"""Which options of a Python command line keep gpuconf's startup code from running: what comes after the program is its
own.
"""

from __future__ import annotations

import pytest
from gpuconf.jobs.descendants import isolating_option, why_isolated


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("-I train.py", "-I"),
        ("-u -E train.py", "-E"),
        ("-uBS train.py", "-uBS"),
        ("-X dev -S train.py", "-S"),
        ("-Wignore -W error -I train.py", "-I"),
        ("--check-hash-based-pycs never -I train.py", "-I"),
        ("-u train.py", ""),
        ("-u -W I train.py", ""),
        ("-WI train.py", ""),
        ("train.py -I", ""),
        ("- -I", ""),
        ("-m train -I", ""),
        ("-um train -I", ""),
        ("-c pass -E", ""),
        ("-Bcpass -S", ""),
        ("--help-all -I", "-I"),
        ("", ""),
    ],
)
def test_an_option_that_disables_startup_code(options: str, found: str) -> None:
    words = ["python3", *options.split()]
    assert isolating_option(words) == found
    assert why_isolated(words) == (f"Python's option {found} disables startup code" if found else "")
