"""Which GPUs a program sees, and how CUDA_VISIBLE_DEVICES changes it."""

from __future__ import annotations

import os

import gpuconf


def show(visible: str | None) -> None:
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    if visible is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = visible
    with gpuconf.simulate("H100-80GB,A100-40GB,T4"):
        names = [
            gpuconf.config.experimental.get_device_details(gpu)["device_name"]
            for gpu in gpuconf.config.list_physical_devices("GPU")
        ]
        print(f"CUDA_VISIBLE_DEVICES={'(not set)' if visible is None else visible!r}: {', '.join(names) or 'no GPU'}")


if __name__ == "__main__":
    for value in (None, "2,0", "1,-1,0", ""):
        show(value)
