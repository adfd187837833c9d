# SPDX-License-Identifier: Apache-2.0
"""Kinds of writes of libraries that are not Python's: see `kinds`.

Each is left out where its library is not installed.
"""

import os
from typing import Any

from kinds import Place, digest, kind, sh, text, tree


@kind("h5py", "numpy")
def h5py_update(at: Place) -> Any:
    import h5py
    import numpy

    for step in (1, 2):
        with h5py.File("data.h5", "a") as file:
            file[f"step{step}"] = numpy.full(10, step)
    with h5py.File("data.h5", "r+") as file:
        file["step1"][:5] = 7
    with h5py.File("precious.txt", "w") as file:
        file["x"] = 1
    with h5py.File("data.h5") as file:
        return {name: file[name][:].tolist() for name in file}


@kind("zarr", "numpy")
def zarr_store(at: Place) -> Any:
    import zarr

    array = zarr.open_array("best.zarr", mode="w", shape=(20,), chunks=(5,), dtype="i4")
    array[:] = 3
    zarr.open_array("best.zarr", mode="r+")[5:10] = 4
    return zarr.open_array("best.zarr", mode="r")[:].tolist(), sorted(os.listdir("best.zarr"))


@kind("pyarrow")
def pyarrow_parquet(at: Place) -> Any:
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table({"step": [1, 2, 3]})
    parquet.write_table(table, "precious.txt")
    parquet.write_to_dataset(table, "best", partition_cols=["step"])
    return parquet.read_table("precious.txt").to_pydict(), sorted(os.listdir("best"))


@kind("pyarrow")
def pyarrow_memory_map(at: Place) -> Any:
    import pyarrow

    with pyarrow.memory_map("data.bin", "r+") as file:
        file.write(b"here")
    with pyarrow.OSFile("notes.txt", "wb") as file:
        file.write(b"over")
    return digest("data.bin"), text("notes.txt")


@kind("duckdb")
def duckdb_base(at: Place) -> Any:
    import duckdb

    for step in (1, 2):
        with duckdb.connect("base.duckdb") as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS t (x INT)")
            connection.execute("INSERT INTO t VALUES (?)", [step])
            connection.execute("COPY t TO 'table.csv'")
    with duckdb.connect("base.duckdb") as connection:
        return connection.execute("SELECT * FROM t").fetchall(), text("table.csv")


@kind("lmdb")
def lmdb_base(at: Place) -> Any:
    import lmdb

    for value in (b"1", b"2"):
        with lmdb.open("best", map_size=1 << 20) as base, base.begin(write=True) as step:
            step.put(b"step", value)
    with lmdb.open("best", map_size=1 << 20) as base, base.begin() as step:
        return step.get(b"step").decode(), sorted(os.listdir("best"))


@kind("numpy")
def numpy_save(at: Place) -> Any:
    import numpy

    numpy.save("new.npy", numpy.arange(10))
    numpy.savez("new.npz", a=numpy.arange(3))
    numpy.arange(5).tofile("data.bin")
    numpy.savetxt("table.csv", numpy.eye(2))
    return numpy.load("new.npy").tolist(), numpy.load("new.npz")["a"].tolist(), digest("data.bin"), text("table.csv")


@kind("numpy")
def numpy_memmap(at: Place) -> Any:
    import numpy

    memory = numpy.memmap("data.bin", mode="r+", dtype="u1")
    memory[:4] = 9
    memory.flush()
    numpy.lib.format.open_memmap("new.npy", mode="w+", dtype="f4", shape=(100,))[3] = 1.5
    return digest("data.bin"), float(numpy.load("new.npy")[3])


@kind("pandas")
def pandas_csv(at: Place) -> Any:
    import pandas

    frame = pandas.read_csv("table.csv")
    frame["loss"] *= 2
    frame.to_csv("table.csv", index=False)
    frame.to_csv("new.csv", mode="a")
    frame.to_pickle("state.pickle")
    return text("table.csv"), pandas.read_pickle("state.pickle").shape, text("new.csv")


@kind("safetensors", "numpy")
def safetensors_numpy(at: Place) -> Any:
    import numpy
    from safetensors.numpy import load_file, save_file

    for name in ("best/model.pt", "new.safetensors"):
        save_file({"weight": numpy.arange(4, dtype="f4")}, name)
    return load_file("best/model.pt")["weight"].tolist(), digest("new.safetensors")


@kind("onnx")
def onnx_model(at: Place) -> Any:
    import onnx
    from onnx import TensorProto, helper

    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Abs", ["x"], ["y"])], "graph", value[:1], value[1:])
    onnx.save(helper.make_model(graph), "best/model.pt")
    return onnx.load("best/model.pt").graph.name, tree("best").keys() == {"best/model.pt"}


@kind("tensorboard")
def tensorboard_events(at: Place) -> Any:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter("best")
    writer.add_event(Event(step=1))
    writer.close()
    return len(os.listdir("best"))


@kind("mlflow")
def mlflow_runs(at: Place) -> Any:
    import mlflow

    mlflow.set_tracking_uri("sqlite:///runs.mlflow")
    with mlflow.start_run():
        mlflow.log_metric("loss", 0.5)
        mlflow.log_artifact("notes.txt")
    runs = mlflow.search_runs(output_format="list")
    return len(runs), runs[0].data.metrics, os.path.exists("runs.mlflow")


@kind("wandb")
def wandb_offline(at: Place) -> Any:
    os.environ["WANDB_MODE"] = "offline"
    os.environ["WANDB_SILENT"] = "true"
    import wandb

    run = wandb.init(project="kinds", dir=".")
    run.log({"loss": 0.5})
    run.finish()
    return sum(name.endswith(".wandb") for _, _, names in os.walk("wandb") for name in names)


@kind("orbax.checkpoint", "jax")
def orbax_checkpoint(at: Place) -> Any:
    os.environ["JAX_PLATFORMS"] = "cpu"
    import numpy
    from orbax import checkpoint

    with checkpoint.CheckpointManager(
        os.path.abspath("ck"), options=checkpoint.CheckpointManagerOptions(max_to_keep=2, create=True)
    ) as manager:
        for step in range(4):
            manager.save(step, args=checkpoint.args.StandardSave({"weight": numpy.full(3, step)}))
        manager.wait_until_finished()
        return manager.latest_step(), sorted(manager.all_steps())


@kind("joblib")
def joblib_dump(at: Place) -> Any:
    import joblib

    joblib.dump({"step": 1}, "state.pickle")
    memory = joblib.Memory("cache", verbose=0)
    twice = memory.cache(len)([1, 2])
    return joblib.load("state.pickle"), twice, os.path.isdir("cache/joblib")


# PyTorch, whose own redirects a rehearsal had.


@kind("torch")
def torch_save_and_copy(at: Place) -> Any:
    import shutil

    import torch

    torch.save({"weight": torch.ones(3)}, "last.pth")
    shutil.copy2("last.pth", "best.pth")
    shutil.copy("last.pth", "best/model.pt")
    os.chmod("best.pth", 0o600)
    return torch.load("best/model.pt")["weight"].tolist(), sorted(tree())


@kind("torch")
def torch_jit_save(at: Place) -> Any:
    import torch

    torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(1, 2)).save("best/model.pt")
    return list(torch.jit.load("best/model.pt")(torch.ones(1, 2)).shape)


@kind("torch")
def torch_export_save(at: Place) -> Any:
    import torch

    torch.export.save(torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),)), "best/model.pt2")
    return list(torch.export.load("best/model.pt2").module()(torch.ones(1, 2)).shape)


@kind("torch")
def torch_package(at: Place) -> Any:
    import torch.package

    with torch.package.PackageExporter("best/model.pt") as exporter:
        exporter.save_text("words", "notes.txt", text("notes.txt"))
    return torch.package.PackageImporter("best/model.pt").load_text("words", "notes.txt")


@kind("torch")
def torch_chrome_trace(at: Place) -> Any:
    import torch

    with torch.profiler.profile() as profile:
        torch.ones(3).sum()
    profile.export_chrome_trace("precious.txt")
    return os.path.getsize("precious.txt") > 1000


@kind("torch")
def torch_from_file(at: Place) -> Any:
    import torch

    torch.from_file("data.bin", shared=True, size=16, dtype=torch.uint8).fill_(7)
    return digest("data.bin")


@kind("torchvision")
def torchvision_write_png(at: Place) -> Any:
    import torch
    from torchvision.io import write_png

    write_png(torch.zeros(3, 4, 4, dtype=torch.uint8), "precious.txt")
    return os.path.getsize("precious.txt") > 50


@kind("torch")
def torch_save_then_programs(at: Place) -> Any:
    import torch

    torch.save(torch.ones(3), "ck/ck-4.pt")
    return (
        sh("cp ck/ck-4.pt best/model.pt; rm ck/ck-1.pt"),
        sorted(os.listdir("ck")),
        torch.load("best/model.pt").tolist(),
    )
