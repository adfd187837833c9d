import tensorflow as tf

for kind in (tf.errors.InvalidArgumentError, tf.errors.NotFoundError, tf.errors.ResourceExhaustedError):
    print(kind.__name__, issubclass(kind, tf.errors.OpError))
try:
    with tf.device("/GPU:0"):
        tf.config.set_soft_device_placement(False)
        tf.matmul([[1.0]], [[2.0]])
except tf.errors.InvalidArgumentError as error:
    print(error.error_code == tf.errors.INVALID_ARGUMENT, error.op)

# Output:
# InvalidArgumentError True
# NotFoundError True
# ResourceExhaustedError True
# True None
