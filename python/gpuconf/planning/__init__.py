"""Whether a recorded job would fit, and pictures of it. ``gpuconf.plan`` is the public name."""
