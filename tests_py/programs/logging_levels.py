import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import logging

import tensorflow as tf

tf.get_logger().setLevel("ERROR")
tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
print(tf.get_logger().level == logging.ERROR, tf.compat.v1.logging.get_verbosity() == tf.compat.v1.logging.ERROR)

# Output:
# True True
