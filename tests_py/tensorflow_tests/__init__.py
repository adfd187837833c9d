"""TensorFlow's own tests of device configuration, read from a checkout and run over gpuconf:
``make test-suites WHAT=tensorflow``.
"""
