"""The limit of a GPU's pool."""

from __future__ import annotations

import gpuconf as tf
import pytest

from .helpers import GIB, MIB, L, gpus, initialize, limits

# One model of each generation, by the major version of its compute capability.
MODELS = {6: "P100", 7: "T4", 8: "A100-40GB", 9: "H100", 10: "B200"}

ANY = tuple(MODELS)


# Rows whose memory is not a multiple of 256 bytes, which no simulated card has, are in the Go test TestDefaultLimits.
@pytest.mark.parametrize(
    ("available", "generations", "limit", "shown"),
    [
        pytest.param(104_857_600, ANY, 104_857_600, 100, id="case 159: less than the reserve, which is left out"),
        pytest.param(235_929_600, ANY, 235_929_600, 225, id="case 159: exactly the reserve, which is left out"),
        pytest.param(235_929_856, ANY, 256, 0, id="case 159: just more than the reserve"),
        pytest.param(2_147_483_392, ANY, 1_911_553_792, 1822, id="case 159: just less than 2 GiB"),
        pytest.param(2_147_483_648, (6,), 1_623_195_648, 1548, id="case 159: 2 GiB on a Pascal"),
        pytest.param(2_147_483_648, (7,), 1_046_478_848, 998, id="case 159: 2 GiB on a Turing"),
        pytest.param(2_147_483_648, (8,), 536_870_912, 512, id="case 159: 2 GiB on an Ampere"),
        pytest.param(2_147_483_648, (9, 10), 260_046_848, 248, id="case 159: 2 GiB on a Hopper or Blackwell"),
        pytest.param(8_589_934_592, (7,), 7_488_929_792, 7142, id="case 159: 8 GiB"),
        pytest.param(17_179_869_184, (8,), 15_569_256_448, 14848, id="case 159: 16 GiB"),
        pytest.param(85_899_345_920, (8,), 84_288_733_184, 80384, id="case 159: 80 GiB on an Ampere"),
        pytest.param(85_899_345_920, (9,), 84_011_909_120, 80120, id="case 159: 80 GiB on a Hopper"),
        pytest.param(150_000_000_000, (9, 10), 148_112_563_200, 141251, id="case 159: 150 GB"),
    ],
)
def test_a_gpu_without_an_explicit_limit_keeps_a_reserve(
    available: int, generations: tuple[int, ...], limit: int, shown: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "gpuconf")
    for generation in generations:
        tf.simulate(f"{MODELS[generation]}:{available}B")
        assert tf.config.experimental.get_device_details(gpus()[0])["compute_capability"][0] == generation
        assert limits() == [limit]
        assert f"/device:GPU:0 with {shown} MB memory:  -> device: 0, name: " in caplog.text
        caplog.clear()


def test_the_limit_of_a_whole_h100_is_tensorflows() -> None:
    tf.simulate("H100-80GB")
    assert limits() == [84_011_909_120]


def test_case_159_two_gpus_are_sized_each_by_itself(unlike_gpus: None) -> None:
    assert limits() == [84_011_909_120, 16 * GIB - 1050 * MIB]


@pytest.mark.parametrize(
    ("value", "limit", "said"),
    [
        pytest.param("100", GIB - 100 * MIB, None, id="case 161: a reserve"),
        pytest.param("0", GIB, None, id="case 161: no reserve"),
        pytest.param("1024", 0, None, id="case 161: all of it"),
        pytest.param(
            "2048",
            GIB - 225 * MIB,
            "The requested reserved device memory 2.00GiB is larger than the available memory of 1.00GiB. The request "
            "is ignored.",
            id="case 161: more than there is",
        ),
        pytest.param("", GIB - 225 * MIB, None, id="case 161: set to nothing"),
        pytest.param(
            "abc",
            GIB - 225 * MIB,
            "The requested reserved device memory abc is invalid. The request will be ignored.",
            id="case 161: no number",
        ),
        pytest.param(
            "-1",
            GIB - 225 * MIB,
            "The requested reserved device memory -1 is invalid. The request will be ignored.",
            id="case 161: negative",
        ),
    ],
)
def test_the_environment_can_set_the_reserve(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, value: str, limit: int, said: str | None
) -> None:
    monkeypatch.setenv("TF_DEVICE_MIN_SYS_MEMORY_IN_MB", value)
    tf.simulate("H100:1GiB")
    assert limits() == [limit]
    warnings = [r.getMessage() for r in caplog.records if r.name == "gpuconf" and r.levelname == "WARNING"]
    assert warnings == ([] if said is None else [said])


def test_case_162_an_explicit_limit_ignores_reserve_and_available_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_DEVICE_MIN_SYS_MEMORY_IN_MB", "500")
    tf.simulate("H100:1GiB")
    tf.config.set_logical_device_configuration(gpus()[0], [L(1000), L(5000)])
    initialize()
    assert limits() == [1000 * MIB, 5000 * MIB]


def test_case_163_a_gpu_with_too_few_multiprocessors_is_not_listed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the variable the minimum is 8, and every simulated model has more.

    TestUsableGPUs in Go covers the rest.
    """
    caplog.set_level("INFO", "gpuconf")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    monkeypatch.setenv("TF_MIN_GPU_MULTIPROCESSOR_COUNT", "41")
    tf.simulate("T4,V100-16GB")  # 40 and 80 of them
    assert [d.name for d in gpus()] == ["/physical_device:GPU:1"]
    assert "Ignoring visible gpu device (device: 0, name: Tesla T4, " in caplog.text
    assert "with core count: 40. The minimum required count is 41. " in caplog.text
    monkeypatch.setenv("TF_MIN_GPU_MULTIPROCESSOR_COUNT", "40")
    tf.simulate("T4,V100-16GB")
    assert [d.name for d in gpus()] == ["/physical_device:GPU:0", "/physical_device:GPU:1"]


def test_case_163_a_gpu_in_front_that_is_not_listed_leaves_the_logical_numbers_without_a_gap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    monkeypatch.setenv("TF_MIN_GPU_MULTIPROCESSOR_COUNT", "41")
    tf.simulate("T4,H100-80GB")
    assert [d.name for d in tf.config.list_logical_devices("GPU")] == ["/device:GPU:0"]
    assert limits() == [84_011_909_120]


def test_case_164_a_single_weak_gpu_is_listed() -> None:
    tf.simulate("K20")  # 13 multiprocessors, the fewest
    assert [d.name for d in gpus()] == ["/physical_device:GPU:0"]
