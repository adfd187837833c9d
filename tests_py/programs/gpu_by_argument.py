# Machine: 4xA100-40GB
# Arguments: --gpu 2 --epochs 1
import argparse

import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--gpu", type=int, default=0)
parser.add_argument("--epochs", type=int, default=10)
args = parser.parse_args()

gpus = tf.config.experimental.list_physical_devices("GPU")
tf.config.experimental.set_visible_devices(devices=gpus[args.gpu], device_type="GPU")
tf.config.experimental.set_memory_growth(device=gpus[args.gpu], enable=True)
print(tf.config.get_visible_devices("GPU"), args.epochs)
print(tf.config.list_logical_devices("GPU"))

# Output:
# [PhysicalDevice(name='/physical_device:GPU:2', device_type='GPU')] 1
# [LogicalDevice(name='/device:GPU:0', device_type='GPU')]
