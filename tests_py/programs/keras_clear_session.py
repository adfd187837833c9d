# Machine: T4
# TensorFlow: since 2.16 it has Keras 3, which has no sessions
import tensorflow.compat.v1 as tf
from tensorflow.compat.v1.keras import backend as K

tf.disable_v2_behavior()


def reset_keras():
    sess = K.get_session()
    K.clear_session()
    sess.close()
    config = tf.ConfigProto()
    config.gpu_options.per_process_gpu_memory_fraction = 1
    config.gpu_options.visible_device_list = "0"
    K.set_session(tf.Session(config=config))
    return sess


old = reset_keras()
print(K.get_session() is not old)

# Output:
# True
