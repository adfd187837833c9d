# Machine: T4
import tensorflow as tf

if tf.__version__.startswith("1."):
    ConfigProto, Session = tf.ConfigProto, tf.Session
else:
    ConfigProto, Session = tf.compat.v1.ConfigProto, tf.compat.v1.Session
    tf.compat.v1.disable_eager_execution()

config = ConfigProto()
config.gpu_options.allow_growth = True
with Session(config=config) as session:
    print(session.run(tf.constant([1.0, 2.0])))

# Output:
# [1. 2.]
