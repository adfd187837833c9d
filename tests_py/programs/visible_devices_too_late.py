# Machine: 2xT4
import tensorflow as tf

gpus = tf.config.list_physical_devices("GPU")
with tf.device("/GPU:1"):
    tf.constant(1.0)
try:
    tf.config.set_visible_devices(gpus[1:], "GPU")
except RuntimeError as e:
    print(e)

# Output:
# Visible devices cannot be modified after being initialized: the runtime was initialized by ...visible_devices_too_late.py:5 (device). Set visible devices before the first call that needs a device, or call gpuconf.reset() first.
