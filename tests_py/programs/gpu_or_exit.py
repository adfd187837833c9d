import sys

import tensorflow as tf

gpus = tf.config.list_physical_devices("GPU")
if not gpus:
    sys.exit("No GPU found, aborting.")
print("never here")

# Errors:
# No GPU found, aborting.
# Exit: 1
