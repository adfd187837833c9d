# TensorFlow: it has Keras
import tensorflow as tf

try:
    model = tf.keras.Sequential([tf.keras.layers.Dense(10)])
except AttributeError as error:
    print(error)
try:
    import tensorflow.keras.layers
except ImportError as error:
    print(error)

# Output:
# module 'gpuconf.compat.v2' has no attribute 'keras': gpuconf does not have tf.keras: it needs TensorFlow. gpuconf.compat.v1.keras.backend has set_session, get_session and clear_session
# No module named '...keras': gpuconf does not have tf.keras: it needs TensorFlow. gpuconf.compat.v1.keras.backend has set_session, get_session and clear_session
