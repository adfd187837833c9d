# Machine: 2xA100-40GB
import logging

import tensorflow as tf

logger = logging.getLogger(__name__)


def configure_gpus(memory_growth=True, memory_limit=None):
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        logger.warning("no GPU, using the CPU")
        return 0
    for gpu in gpus:
        if memory_limit is not None:
            tf.config.set_logical_device_configuration(
                gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=memory_limit)]
            )
        else:
            tf.config.experimental.set_memory_growth(gpu, memory_growth)
    return len(gpus)


if __name__ == "__main__":
    print(configure_gpus(memory_limit=4096))
    print([d.name for d in tf.config.list_logical_devices("GPU")])

# Output:
# 2
# ['/device:GPU:0', '/device:GPU:1']
