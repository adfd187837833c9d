"""``gpu_peak`` names the line of a tensor more in each of 50 training programs, and raises no false alarm when they run
again.
"""

import no_gpu
import peaks_of_programs
import pytest

pytestmark = pytest.mark.simulated_programs


@pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed")
def test_a_tensor_more_is_named_and_nothing_else(capfd: pytest.CaptureFixture[str]) -> None:
    code = peaks_of_programs.main(reruns=100)
    out = capfd.readouterr().out
    assert out.splitlines()[-1] == "100 reruns, 0 false alarms; a tensor more: 50 of 50 reported, 50 with its line", out
    assert code == 0
