# SPDX-License-Identifier: Apache-2.0
"""Run CP-SAT so that Ctrl-C ends it at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from ortools.sat.python import cp_model

from ..._typing import Any


def solve(model: Any, seconds: float) -> Any:
    """Return the solver with the best solution that it found in this time, or None without one.

    False if there is none.
    """
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = max(seconds, 0.1)
    solver.parameters.catch_sigint_signal = False  # it would end the search only, and the program would go on
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(solver.solve, model)
        try:
            status = answer.result()
        except BaseException:  # Ctrl-C, which no handler sees while the solver has this thread
            solver.stop_search()
            raise
    if status == cp_model.INFEASIBLE:
        return False
    return solver if status in (cp_model.OPTIMAL, cp_model.FEASIBLE) else None
