# Machine: 2xT4
from tensorflow.compat.v1 import ConfigProto
from tensorflow.compat.v1 import InteractiveSession

config = ConfigProto()
config.gpu_options.allow_growth = True
session = InteractiveSession(config=config)
print(len([d for d in session.list_devices() if d.device_type == "GPU"]))

# Output:
# 2
