# Machine: T4
import tensorflow as tf

x = tf.constant([1.0, 2.0])
gpus = tf.config.list_physical_devices("GPU")
try:
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
except RuntimeError as e:
    print(e)

# Output:
# Physical devices cannot be modified after being initialized: the runtime was initialized by ...growth_too_late.py:4 (constant). Set memory growth before the first call that needs a device, or call gpuconf.reset() first.
