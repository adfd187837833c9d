"""Public code that configures GPUs, drawn by a rule, on gpuconf and on TensorFlow: see ``rule.md``."""
