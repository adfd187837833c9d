import logging

import tensorflow as tf

logger = tf.get_logger()
logger.setLevel(logging.FATAL)
logger.warning("nobody sees this")
print(logger.name, logging.getLogger("tensorflow") is logger)

# Output:
# tensorflow True
