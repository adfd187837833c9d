import tensorflow as tf

print(tf.distribute.MirroredStrategy().num_replicas_in_sync)
print(tf.distribute.get_strategy().num_replicas_in_sync, tf.distribute.has_strategy())

# Output:
# 1
# 1 False
