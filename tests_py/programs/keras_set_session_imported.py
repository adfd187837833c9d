# Machine: T4
# TensorFlow: since 2.16 it has Keras 3, which has no sessions
import tensorflow.compat.v1 as tf
from tensorflow.compat.v1.keras.backend import set_session

tf.disable_v2_behavior()
config = tf.ConfigProto()
config.gpu_options.allow_growth = True  # dynamically grow the memory used on the GPU
config.log_device_placement = False
set_session(tf.Session(config=config))  # set this TensorFlow session as the default session for Keras
print(tf.keras.backend.get_session().list_devices()[-1].device_type)

# Output:
# GPU
