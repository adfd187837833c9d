"""``gpuconf plan -- PROGRAM`` with libraries that save, log and push: a rehearsal changes no file, and sends
nothing.
"""

import contextlib
import importlib.util
import json
import socket
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import no_gpu
import pytest
import script

pytestmark = [
    pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed"),
    pytest.mark.simulated_programs,
]
MIB = 1 << 20


def needs(*names: str) -> pytest.MarkDecorator:
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


@contextlib.contextmanager
def network() -> Iterator[tuple[str, list[str]]]:
    """A server whose address stands for every other one. Yields it, and the requests that it got."""
    asked: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        asked.append(connection.recv(200).decode(errors="replace").partition("\r")[0])

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", asked
        server.shutdown(socket.SHUT_RDWR)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def rehearse(folder: Path, program: str, address: str = "http://127.0.0.1:9") -> dict[str, Any]:
    """Rehearse a program in a folder, whose files must stay as they are. Returns the answer."""
    (folder / "train.py").write_text(textwrap.dedent(program), encoding="utf-8")
    before = files(folder)
    kept = script.plain()
    # The path of this one is too long for that of a socket.
    temporary = folder.parent / f"{folder.name}-temporary-{'long' * 10}"
    temporary.mkdir(exist_ok=True)
    kept |= {"TMPDIR": str(temporary)}
    kept |= {
        "HTTP_PROXY": address,
        "HTTPS_PROXY": address,
        "HF_ENDPOINT": address,
        "WANDB_BASE_URL": address,
        "NO_PROXY": "",
    }
    options = ("--json", "--gpu", "A10", "--keep", str(folder.parent / f"{folder.name}-kept"))
    command = [sys.executable, "-W", "ignore", "-m", "gpuconf", "plan", *options, "--", "train.py", address]
    done = script.completed(command, timeout=170, cwd=folder, env=kept)
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["why_no_verdict"] == "", done.stderr
    assert files(folder) == before
    return found


def written(found: dict[str, Any]) -> Path:
    """Return the folder that the answer names."""
    return Path(found["outputs"][0].split(" is in ")[1].partition(" (")[0])


STEP = """
import sys
import torch
model = torch.nn.Linear(5000, 5000, device="cuda")
optimizer = torch.optim.SGD(model.parameters())
model(torch.zeros(1, 5000, device="cuda")).sum().backward()
optimizer.step()
"""


@needs("safetensors")
def test_safetensors_and_distributed_checkpoints(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"old")
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / ".metadata").write_bytes(b"old")
    program = """
    import torch.distributed.checkpoint as checkpoints
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file, save_model
    save_file(model.state_dict(), "model.safetensors")
    assert load_file("model.safetensors")["weight"].shape == (5000, 5000)
    save_model(model, "other.safetensors")
    with safe_open("other.safetensors", "pt") as file:
        assert sorted(file.keys()) == ["bias", "weight"]
    checkpoints.save(model.state_dict(), checkpoint_id="checkpoint")
    state = model.state_dict()
    checkpoints.load(state, checkpoint_id="checkpoint")
    """
    found = rehearse(tmp_path, STEP + textwrap.dedent(program))
    copies = {path.name: path for path in written(found).rglob("*") if path.is_file()}
    assert {"model.safetensors", "other.safetensors", ".metadata"} <= copies.keys()
    assert copies["model.safetensors"].stat().st_blocks * 512 < MIB < copies["model.safetensors"].stat().st_size
    assert sum(path.stat().st_blocks * 512 for path in copies.values()) < MIB  # of 300 MB
    assert any("model.safetensors" in one and "checkpoint" in one for one in found["outputs"])


@needs("wandb")
def test_weights_and_biases(tmp_path: Path) -> None:
    program = """
    import wandb
    run = wandb.init(project="p", mode="online", settings=wandb.Settings(base_url=sys.argv[1]))
    run.log({"loss": 1.0})
    artifact = wandb.Artifact("model", type="model")
    run.finish()
    """
    with network() as (address, asked):
        rehearse(tmp_path, STEP + textwrap.dedent(program), address)
    assert asked == []
    assert not (tmp_path / "wandb").exists()


@needs("mlflow")
def test_mlflow(tmp_path: Path) -> None:
    program = """
    import mlflow
    mlflow.set_tracking_uri(sys.argv[1])
    mlflow.set_experiment("mine")
    with mlflow.start_run():
        mlflow.log_param("lr", 0.1)
        mlflow.log_metric("loss", 1.0, step=1)
    """
    with network() as (address, asked):
        rehearse(tmp_path, STEP + textwrap.dedent(program), address)
    assert asked == []
    assert not (tmp_path / "mlruns").exists()


@needs("tensorboard")
def test_tensorboard(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "events.out.tfevents.1").write_bytes(b"old")
    program = """
    from torch.utils.tensorboard import SummaryWriter
    with SummaryWriter("runs") as writer:
        writer.add_scalar("loss", 1.0, 1)
    with SummaryWriter("new/deep") as writer:
        writer.add_scalar("loss", 1.0, 1)
    """
    found = rehearse(tmp_path, STEP + textwrap.dedent(program))
    assert not (tmp_path / "new").exists()
    assert len([path for path in written(found).rglob("events.out.tfevents.*") if path.stat().st_size]) == 2


@needs("huggingface_hub")
def test_pushes_to_the_hub(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    program = """
    import huggingface_hub
    from huggingface_hub import HfApi, PyTorchModelHubMixin, create_repo, upload_folder
    class Mine(torch.nn.Linear, PyTorchModelHubMixin): pass
    create_repo("me/model", exist_ok=True)
    api = HfApi(token="hf_none")
    assert api.upload_file(path_or_fileobj="config.json", path_in_repo="config.json", repo_id="me/model").commit_url
    assert upload_folder(folder_path=".", repo_id="me/model").oid
    api.delete_repo("me/model")
    Mine(3, 3).push_to_hub("me/model", token="hf_none")
    """
    with network() as (address, asked):
        rehearse(tmp_path, STEP + textwrap.dedent(program), address)
    assert asked == []


@needs("torchvision")
def test_a_network_of_convolutions(tmp_path: Path) -> None:
    """Its parts, the range of cuDNN's workspaces, and that a batch twice as large needs more activations only."""
    program = """
    import torch, torchvision
    model = torchvision.models.resnet18().to("cuda", memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(5):
        images = torch.randn({batch}, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
        labels = torch.randint(0, 1000, ({batch},), device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """
    first, second = (rehearse(tmp_path, program.replace("{batch}", str(batch))) for batch in (16, 32))
    assert (first["ran"]["ended"], first["ran"]["batch"], second["ran"]["batch"]) == ("program", 16, 32)
    parts, more = first["processes"][0]["parts"], second["processes"][0]["parts"]
    assert parts["parameters and buffers"] == pytest.approx(11_699_112 * 4, rel=0.01)
    assert more["parameters and buffers"] == parts["parameters and buffers"]
    assert 1.8 < more["activations"] / parts["activations"] < 2.1  # the peak may be at another moment
    (workspaces,) = (one for one in first["beside"] if one["what"] == "workspaces of cuDNN")
    assert workspaces["low"] == 0 < workspaces["high"]


@pytest.mark.parametrize(
    ("package", "program", "what", "gets_it"),
    [
        (
            "transformers",
            "transformers.AutoModel.from_pretrained('me/tiny')",
            "the model me/tiny",
            "hf download me/tiny",
        ),
        (
            "transformers",
            "transformers.AutoTokenizer.from_pretrained('me/tiny')",
            "the model me/tiny",
            "hf download me/tiny",
        ),
        (
            "huggingface_hub",
            "huggingface_hub.snapshot_download('me/rows', repo_type='dataset')",
            "the data set me/rows",
            "hf download --repo-type dataset me/rows",
        ),
        (
            "datasets",
            "datasets.load_dataset('me/rows')",
            "the data set me/rows",
            "python -c \"import datasets; datasets.load_dataset('me/rows')\"",
        ),
        (
            "timm",
            "timm.create_model('resnet18', pretrained=True)",
            "the model timm/resnet18.a1_in1k",
            "hf download timm/",
        ),
        ("diffusers", "diffusers.UNet2DModel.from_pretrained('me/tiny')", "the model me/tiny", "hf download me/tiny"),
        (
            "torchvision",
            "torchvision.models.resnet18(weights='DEFAULT')",
            "requests https://download.pytorch.org/",
            "--network",
        ),
        ("torchvision", "torchvision.datasets.MNIST('.', download=True)", "/mnist/", "--network"),
        (
            "torch",
            "torch.hub.load('pytorch/vision', 'resnet18')",
            "requests https://github.com/pytorch/vision",
            "--network",
        ),
    ],
)
def test_what_is_not_on_this_machine(tmp_path: Path, package: str, program: str, what: str, gets_it: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"not installed: {package}")
    (tmp_path / "load.py").write_text(f"import {package}\n{program}\n")
    kept = script.plain()
    kept |= {"HF_HOME": str(tmp_path / "none"), "TORCH_HOME": str(tmp_path / "none")}
    command = [sys.executable, "-W", "ignore", "-m", "gpuconf", "plan", "--gpu", "A10", "--", "load.py"]
    done = script.completed(command, timeout=170, cwd=tmp_path, env=kept)
    last = done.stderr.splitlines()[-1]
    assert what in last, done.stderr
    assert gets_it in last
    assert last.endswith("(load.py:2)")
