# Machine: 2xT4
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
print("Number of devices: {}".format(strategy.num_replicas_in_sync))
BATCH_SIZE = 64 * strategy.num_replicas_in_sync
print(BATCH_SIZE)

# Output:
# Number of devices: 2
# 128
