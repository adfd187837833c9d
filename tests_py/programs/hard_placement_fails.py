# Machine: T4
# TensorFlow: the text of TensorFlow 2; gpuconf has that of TensorFlow 1
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
with tf.device("/gpu:7"):
    a = tf.constant(1.0, name="a")
with tf.Session() as sess:
    try:
        sess.run(a)
    except tf.errors.InvalidArgumentError as error:
        print(error.message.splitlines()[0])

# Output:
# Invalid argument: Cannot assign a device to node 'a': Could not satisfy explicit device specification '/gpu:7'
