"""Plan whether a recorded job fits on a GPU, and plot the result. ``gpuconf.plan`` is the public name."""
