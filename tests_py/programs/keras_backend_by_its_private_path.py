# Machine: T4
import tensorflow as tf
from tensorflow.python.keras import backend as K
from tensorflow.python.keras.backend import set_session

config = tf.compat.v1.ConfigProto()
config.gpu_options.allow_growth = True
session = tf.compat.v1.Session(config=config)
set_session(session)
print(K.get_session() is session)

# Output:
# True
