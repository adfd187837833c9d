"""The sizes of workspaces that the libraries below PyTorch answer, beside those that NVIDIA's answered on an H200."""

import json
import lzma
from pathlib import Path

import pytest
from recordings import Recording
from simulated_libraries import run

ACCURACY = Path(__file__).parents[3] / "benchmarks" / "accuracy"
RECORDING = Recording("accuracy/operators_h200.jsonl").path
# Of the shapes that were asked, how many have the same size, and how many one within 1 %. A rule that gets better
# raises them.
SAME = {
    "potrf": (1.0, 1.0),
    "Xpotrf": (1.0, 1.0),
    "getrf": (0.86, 0.86),  # others have more than 1024 rows and columns
    "geqrf": (1.0, 1.0),
    "Xgeqrf": (1.0, 1.0),
    "sytrf": (1.0, 1.0),
    "syevd": (0.77, 1.0),
    "Xsyevd": (0.77, 1.0),
    "syevBatched": (0.56, 1.0),
    "syevj": (0.96, 0.96),
    "orgqr": (0.92, 0.92),  # others have 100 or 127 columns
    "gesvdj": (0.73, 0.75),  # others are long, and their matrices full
    "gesvdjBatched": (1.0, 1.0),
    "dropout states": (1.0, 1.0),
    "rnn": (0.5, 0.95),
    "fft": (0.71, 0.83),  # the library's thresholds are not regular, and those of primes not known
    "fft2": (0.76, 0.8),
    "fft3": (1.0, 1.0),
}


def sizes(group: str, machine: str) -> dict[str, dict[str, int]]:
    """Ask the simulated libraries what was asked of NVIDIA's."""
    program = f"""
    sys.path.insert(0, {str(ACCURACY)!r})
    import json, library_sizes
    cuda.gpuconf_runtime_versions(13000, 91900, 22707, 130000)
    library_sizes.library = lambda name: cuda
    memory = c_void_p()
    assert cuda.cudaMalloc(byref(memory), c_size_t(1 << 20)) == 0
    for name, points in getattr(library_sizes, {group!r})(memory.value):
        print(json.dumps([name, [[repr(list(shape)), size] for shape, size in points]]))
    """
    return {name: dict(points) for name, points in map(json.loads, run(program, GPUCONF_SIMULATE=machine))}


def recorded() -> dict[str, dict[str, int]]:
    found = {}
    with lzma.open(RECORDING, "rt") as lines:
        for line in lines:
            if line.startswith('{"sizes"'):
                asked = json.loads(line)
                found[asked["sizes"]] = {repr(shape): size for shape, size in asked["points"]}
    return found


def family(name: str) -> str:
    """Return the name of a function without its types: potrf for Spotrf, syevd for Cheevd, rnn for rnn/2."""
    plain = name.split("/")[0]
    plain = plain[1:] if plain[0] in "SDCZ" else plain
    return plain.replace("ungqr", "orgqr").replace("heev", "syev").replace("XsyevBatched", "syevBatched")


def first(size: object) -> int:
    return size[0] if isinstance(size, list) else size  # type: ignore[return-value]


@pytest.mark.parametrize("group", ["solver", "networks", "fourier"])
def test_sizes_are_those_of_an_h200(group: str) -> None:
    counts: dict[str, list[int]] = {}
    real = recorded()
    for name, points in sizes(group, "H200-141GB").items():
        for shape, size in points.items():
            expected, found = first(real[name].get(shape, -1)), first(size)
            standard = not name.startswith("rnn") or (
                shape.startswith("[0,") and shape.split(", ")[-3:-1] == ["0", "0"]
            )
            if family(name) in SAME and expected >= 0 and standard:
                count = counts.setdefault(family(name), [0, 0, 0])
                count[0] += 1
                count[1] += expected == found
                count[2] += abs(expected - found) <= expected / 100
    rates = {name: (same / all_, near / all_) for name, (all_, same, near) in counts.items()}
    assert rates
    assert {name: rate for name, rate in rates.items() if rate[0] < SAME[name][0] or rate[1] < SAME[name][1]} == {}
