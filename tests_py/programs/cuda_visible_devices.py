# Machine: 2xT4
import os

os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
os.environ["CUDA_VISIBLE_DEVICES"] = "1"

import tensorflow as tf

print(tf.config.list_physical_devices("GPU"))

# Output:
# [PhysicalDevice(name='/physical_device:GPU:0', device_type='GPU')]
