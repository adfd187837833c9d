import tensorflow as tf

try:
    print(tf.config.experimental.get_memory_info("GPU:0"))
except ValueError as error:
    print(error)

# Output:
# No matching devices found for 'GPU:0' (available: CPU:0; device types are case-sensitive): this process has no logical GPU: CUDA_VISIBLE_DEVICES="" shows none. Unset CUDA_VISIBLE_DEVICES, or set it to numbers of simulated GPUs, such as 0
