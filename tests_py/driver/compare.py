# SPDX-License-Identifier: Apache-2.0
"""How a library's answers differ from the committed ones of a driver, and which differences are meant."""

import json
from fnmatch import fnmatchcase
from pathlib import Path

from driver.observe import WAYS, Observation

ACCEPTED = Path(__file__).resolve().parent / "differences.json"


def differences(seen: Observation, driver: Observation) -> dict[str, str]:
    """Return what differs, as "call cuMemAlloc_v2 after cuInit, 0", and how.

    Where NVIDIA's driver crashes, any answer is right. Exports beyond the driver's are, too.
    """
    found = {f"export {name}": "missing" for name in driver.exports - seen.exports}
    for (name, flags), line in driver.resolver.items():
        if (answer := seen.resolver[name, flags]) != line:
            found[f"resolver {name} {flags}"] = f"{answer}, NVIDIA's: {line}"
    for name, results in driver.calls.items():
        for way, ours, theirs in zip(WAYS, seen.calls.get(name, ()), results, strict=False):
            if ours != theirs and not theirs.startswith("s"):
                found[f"call {name} {way}"] = f"{ours}, NVIDIA's: {theirs}"
    for number, error in driver.errors.items():
        if seen.errors and seen.errors[number] != error:
            found[f"error {number}"] = f"{seen.errors[number]}, NVIDIA's: {error}"
    for key, value in driver.process.items():
        if key != "library" and seen.process[key] != value:
            found[f"process {key}"] = f"{seen.process[key]}, NVIDIA's: {value}"
    return found


def accepted() -> dict[str, str]:
    """Return the patterns of the differences that are meant, each with its reason."""
    listed: dict[str, list[str]] = json.loads(ACCEPTED.read_text())
    return {pattern: reason for reason, patterns in listed.items() for pattern in patterns}


def unexpected(branch: str, found: dict[str, str]) -> dict[str, str]:
    """Return the differences from a driver's branch that are not listed: no pattern has "550 call cuInit before cuInit,
    0: how".
    """
    patterns = accepted()
    return {
        what: how
        for what, how in found.items()
        if not any(fnmatchcase(f"{branch} {what}: {how}", one) for one in patterns)
    }
