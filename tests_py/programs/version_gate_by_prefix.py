import tensorflow as tf

assert tf.__version__.startswith("2."), "TensorFlow 2 is required"
print(tf.version.VERSION == tf.__version__, tf.compat.v1.__version__ == tf.__version__)

# Output:
# True True
