"""What the programs use of Horovod, by the variables that mpirun sets."""

import os


def init():
    pass


def size():
    return int(os.environ["OMPI_COMM_WORLD_SIZE"])


def local_rank():
    return int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"])
