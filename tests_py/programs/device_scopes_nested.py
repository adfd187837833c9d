# Machine: 2xT4
import tensorflow as tf

with tf.device("/GPU:0"):
    with tf.device("/GPU:1"):
        inner = tf.constant(1.0)
    outer = tf.constant(1.0)
with tf.device(None):
    free = tf.constant(1.0)
print(inner.device[-5:], outer.device[-5:], free.device[-5:])

# Output:
# GPU:1 GPU:0 GPU:0
