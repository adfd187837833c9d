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
# module '...keras' has no attribute 'Sequential': gpuconf does not have tf.keras.Sequential: it needs TensorFlow. Keras 3 runs without it: set KERAS_BACKEND=torch or jax, and import keras
# No module named '...keras.layers': gpuconf does not have tf.keras.layers: it needs TensorFlow. Keras 3 runs without it: set KERAS_BACKEND=torch or jax, and import keras
