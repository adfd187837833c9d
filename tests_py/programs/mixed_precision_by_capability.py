# Machine: P100-16GB,T4
import tensorflow as tf


def policy(gpu):
    major, _ = tf.config.experimental.get_device_details(gpu)["compute_capability"]
    return "mixed_float16" if major >= 7 else "float32"


print([policy(gpu) for gpu in tf.config.list_physical_devices("GPU")])

# Output:
# ['float32', 'mixed_float16']
