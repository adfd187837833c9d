"""The machine of this process: simulated GPUs, starting over, and the GPUs that are visible. ``gpuconf`` has the public names."""
