"""Programs of the kinds that people run, with libraries over PyTorch, on the CPU and on a simulated GPU.

``python libraries_on_simulated_gpus.py cpu|none NAME ...`` runs programs on simulated GPUs with these values, and with
"cpu" first on the CPU. It prints a line for each: its name, the numbers of both, and the peaks there. Weights come from
small configurations and fixed seeds.
"""

import contextlib
import gc
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator

import gpuconf

gpuconf.simulate("2xA100-40GB", values=sys.argv[1])
os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "TRANSFORMERS_VERBOSITY": "error"}

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402, N812
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

STEPS = 3


def _steps(
    model: nn.Module, device: str, loss_of: Callable[[nn.Module], torch.Tensor], lr: float = 1e-3
) -> list[float]:
    """Train some steps with AdamW. Returns the losses."""
    model.to(device).train()
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=lr)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def resnet50(device: str) -> list[float]:
    import torchvision

    x, y = torch.randn(4, 3, 64, 64).to(device), torch.tensor([1, 2, 3, 4]).to(device)
    model = torchvision.models.resnet50(num_classes=10)
    return _steps(model, device, lambda model: F.cross_entropy(model(x), y), lr=1e-4)


def resnet_channels_last(device: str) -> list[float]:
    import torchvision

    x = torch.randn(4, 3, 64, 64).to(device, memory_format=torch.channels_last)
    model = torchvision.models.resnet18(num_classes=10).to(memory_format=torch.channels_last)
    return _steps(model, device, lambda model: model(x).pow(2).mean(), lr=1e-4)


def detection(device: str) -> list[float]:
    import torchvision

    model = torchvision.models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(
        weights=None, weights_backbone=None, num_classes=4, box_detections_per_img=5
    ).to(device)
    image = torch.rand(3, 96, 96).to(device)
    model.eval()
    with torch.no_grad():
        found = model([image])[0]
    return [float(found["boxes"].sum().item()), float(found["scores"].sum().item())]


def detection_training(device: str) -> list[float]:
    import torchvision

    # So large samples have all anchors and proposals: none is drawn.
    model = torchvision.models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(
        weights=None,
        weights_backbone=None,
        num_classes=4,
        rpn_batch_size_per_image=1 << 20,
        box_batch_size_per_image=1 << 20,
    )
    images = list(torch.rand(2, 3, 96, 96).to(device))
    boxes = torch.tensor([[8.0, 8.0, 60.0, 70.0], [30.0, 20.0, 90.0, 88.0]])
    targets = [{"boxes": boxes.to(device), "labels": torch.tensor([1, 2]).to(device)} for _ in images]
    return _steps(model, device, lambda model: sum(model(images, targets).values()), lr=1e-5)


def segmentation(device: str) -> list[float]:
    import torchvision

    model = torchvision.models.segmentation.lraspp_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=4
    )
    x, y = torch.randn(2, 3, 64, 64).to(device), torch.randint(0, 4, (2, 64, 64)).to(device)
    return _steps(model, device, lambda model: F.cross_entropy(model(x)["out"], y), lr=1e-4)


def _ids(device: str, vocabulary: int = 64) -> torch.Tensor:
    return torch.randint(3, vocabulary, (2, 12)).to(device)


_SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
_QUIET = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def bert(device: str) -> list[float]:
    from transformers import BertConfig, BertForMaskedLM

    ids = _ids(device)
    return _steps(
        BertForMaskedLM(BertConfig(**_SMALL, **_QUIET)), device, lambda model: model(input_ids=ids, labels=ids).loss
    )


def _gpt2(**more: object) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    quiet = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": 0, "eos_token_id": 0}
    return GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=64, n_embd=32, n_layer=2, n_head=4, **quiet, **more))


def gpt2(device: str) -> list[float]:
    ids = _ids(device)
    return _steps(_gpt2(), device, lambda model: model(input_ids=ids, labels=ids).loss)


def gradient_checkpointing(device: str) -> list[float]:
    ids = _ids(device)
    model = _gpt2(use_cache=False)
    model.gradient_checkpointing_enable()
    return _steps(model, device, lambda model: model(input_ids=ids, labels=ids).loss)


def _llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(**_SMALL, num_key_value_heads=2, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    )


def llama(device: str) -> list[float]:
    ids = _ids(device)
    return _steps(_llama(), device, lambda model: model(input_ids=ids, labels=ids).loss)


def llama_bfloat16(device: str) -> list[float]:
    ids = _ids(device)
    model = _llama().to(torch.bfloat16)
    model.config._attn_implementation = "eager"
    return _steps(model, device, lambda model: model(input_ids=ids, labels=ids).loss)


def t5(device: str) -> list[float]:
    from transformers import T5Config, T5ForConditionalGeneration

    sizes = {
        "vocab_size": 64,
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 64,
        "num_layers": 2,
        "num_heads": 4,
        "dropout_rate": 0.0,
    }
    ids = _ids(device)
    model = T5ForConditionalGeneration(T5Config(**sizes, decoder_start_token_id=0))
    return _steps(model, device, lambda model: model(input_ids=ids, labels=ids).loss)


def vit(device: str) -> list[float]:
    from transformers import ViTConfig, ViTForImageClassification

    sizes = {name: value for name, value in _SMALL.items() if name != "vocab_size"}
    model = ViTForImageClassification(ViTConfig(**sizes, **_QUIET, image_size=32, patch_size=8, num_labels=5))
    x, y = torch.randn(2, 3, 32, 32).to(device), torch.tensor([1, 2]).to(device)
    return _steps(model, device, lambda model: model(pixel_values=x, labels=y).loss)


def generate_with_cache(device: str) -> list[float]:
    ids = torch.randint(3, 64, (2, 5)).to(device)
    model = _llama().to(device).eval()
    greedy = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, min_new_tokens=8, do_sample=False
    )
    return [float(one) for one in greedy.flatten().tolist()]


def generate_with_beams(device: str) -> list[float]:
    ids = torch.randint(3, 64, (2, 5)).to(device)
    model = _gpt2().to(device).eval()
    words = {"max_new_tokens": 6, "min_new_tokens": 6, "num_beams": 3, "do_sample": False, "pad_token_id": 0}
    found = model.generate(ids, attention_mask=torch.ones_like(ids), **words)
    return [float(one) for one in found.flatten().tolist()]


def trainer(device: str) -> list[float]:
    from transformers import Trainer, TrainingArguments

    rows = [{"input_ids": row, "labels": row} for row in torch.randint(3, 64, (8, 12))]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=4,
            per_device_train_batch_size=2,
            logging_steps=1,
            report_to=[],
            save_strategy="no",
            use_cpu=device == "cpu",
            disable_tqdm=True,
            seed=1,
        )
        if device != "cpu":
            arguments._n_gpu = 1  # not DataParallel over both GPUs
        own = Trainer(model=_gpt2(), args=arguments, train_dataset=rows)
        with contextlib.redirect_stdout(sys.stderr):
            own.train()
    return [row["loss"] for row in own.state.log_history if "loss" in row]


def lora(device: str) -> list[float]:
    from peft import LoraConfig, get_peft_model

    ids = _ids(device)
    model = get_peft_model(
        _llama(), LoraConfig(r=4, target_modules=["q_proj", "v_proj"], lora_dropout=0.0, init_lora_weights=False)
    )
    return _steps(model, device, lambda model: model(input_ids=ids, labels=ids).loss, lr=1e-2)


def diffusers_unet(device: str) -> list[float]:
    from diffusers import DDPMScheduler, UNet2DModel

    model = UNet2DModel(
        sample_size=16,
        in_channels=3,
        out_channels=3,
        layers_per_block=1,
        block_out_channels=(32, 64),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )
    scheduler = DDPMScheduler(num_train_timesteps=50)
    x, noise, times = (
        torch.randn(2, 3, 16, 16).to(device),
        torch.randn(2, 3, 16, 16).to(device),
        torch.tensor([3, 40]).to(device),
    )
    noisy = scheduler.add_noise(x, noise, times)
    return _steps(model, device, lambda model: F.mse_loss(model(noisy, times).sample, noise))


def diffusers_vae(device: str) -> list[float]:
    from diffusers import AutoencoderKL

    model = AutoencoderKL(
        block_out_channels=(32, 32),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        latent_channels=4,
        sample_size=16,
    )
    x = torch.randn(2, 3, 16, 16).to(device)
    # The gradient of a bias before a normalization is noise, of which AdamW makes whole steps: small ones here.
    return _steps(model, device, lambda model: F.mse_loss(model(x).sample, x), lr=1e-4)


def diffusers_denoising(device: str) -> list[float]:
    from diffusers import DDIMScheduler, UNet2DConditionModel

    model = UNet2DConditionModel(
        sample_size=8,
        in_channels=4,
        out_channels=4,
        layers_per_block=1,
        block_out_channels=(32, 32),
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=16,
    ).to(device)
    scheduler = DDIMScheduler(num_train_timesteps=50)
    scheduler.set_timesteps(4, device=device)
    x, words = torch.randn(1, 4, 8, 8).to(device), torch.randn(1, 5, 16).to(device)
    with torch.no_grad():
        for time in scheduler.timesteps:
            x = scheduler.step(model(x, time, encoder_hidden_states=words).sample, time, x).prev_sample
    return x.flatten()[:16].tolist()


def timm_vit(device: str) -> list[float]:
    import timm

    model = timm.create_model("vit_tiny_patch16_224", img_size=32, patch_size=8, depth=2, num_classes=5)
    x, y = torch.randn(2, 3, 32, 32).to(device), torch.tensor([1, 2]).to(device)
    return _steps(model, device, lambda model: F.cross_entropy(model(x), y))


def timm_efficientnet(device: str) -> list[float]:
    import timm

    model = timm.create_model("efficientnet_b0", num_classes=5, drop_rate=0.0, drop_path_rate=0.0)
    x, y = torch.randn(4, 3, 64, 64).to(device), torch.tensor([1, 2, 0, 3]).to(device)
    return _steps(model, device, lambda model: F.cross_entropy(model(x), y), lr=1e-5)


def timm_convnext(device: str) -> list[float]:
    import timm

    model = timm.create_model("convnext_atto", num_classes=5)
    x, y = torch.randn(2, 3, 64, 64).to(device), torch.tensor([1, 2]).to(device)
    return _steps(model, device, lambda model: F.cross_entropy(model(x), y))


def accelerate_loop(device: str) -> list[float]:
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, GradientState, PartialState

    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()
    accelerator = Accelerator(cpu=device == "cpu", gradient_accumulation_steps=2)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    data = TensorDataset(torch.randn(16, 8), torch.randn(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=4))
    losses = []
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = F.mse_loss(model(x), y)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def lightning_fit(device: str) -> list[float]:
    import lightning

    losses: list[float] = []

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))

        def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
            loss = F.mse_loss(self.layers(batch[0]), batch[1])
            losses.append(loss.item())
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), lr=1e-2)

    loader = DataLoader(TensorDataset(torch.randn(16, 8), torch.randn(16, 1)), batch_size=4)
    kind = "cpu" if device == "cpu" else "gpu"
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    with contextlib.redirect_stdout(sys.stderr):
        lightning.Trainer(max_epochs=2, accelerator=kind, devices=1, **quiet).fit(Module(), loader)
    return losses


def data_loader(device: str) -> list[float]:
    """Workers, and batches that a thread pins."""
    data = TensorDataset(torch.arange(64.0).reshape(16, 4))
    loader = DataLoader(data, batch_size=4, num_workers=2, pin_memory=device != "cpu", persistent_workers=False)
    return [batch.to(device, non_blocking=True).pow(2).sum().item() for (batch,) in loader]


def several_streams(device: str) -> list[float]:
    x = torch.randn(64, 64).to(device)
    if device == "cpu":
        return [(x @ x).sum().item(), (x + 1).sin().sum().item()]
    streams = [torch.cuda.Stream() for _ in range(2)]
    current = torch.cuda.current_stream()
    found = []
    for stream, work in zip(streams, (lambda: x @ x, lambda: (x + 1).sin()), strict=True):
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            found.append(work().sum())
        current.wait_stream(stream)
    return [one.item() for one in found]


def save_and_load(device: str) -> list[float]:
    model = nn.Linear(8, 4).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    x = torch.randn(3, 8).to(device)
    for _ in range(2):
        model(x).pow(2).sum().backward()
        optimizer.step()
    with tempfile.NamedTemporaryFile() as file:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file.name)
        loaded = torch.load(file.name, map_location=device, weights_only=True)
    other = nn.Linear(8, 4).to(device)
    other.load_state_dict(loaded["model"])
    again = torch.optim.Adam(other.parameters(), lr=0.1)
    again.load_state_dict(loaded["optimizer"])
    other(x).pow(2).sum().backward()
    again.step()
    return [other(x).sum().item()]


def volumes(device: str) -> list[float]:
    model = nn.Sequential(
        nn.Conv3d(1, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ReLU(), nn.ConvTranspose3d(4, 1, 2, stride=2)
    )
    x = torch.randn(2, 1, 6, 6, 6).to(device)
    return _steps(model, device, lambda model: model(x).pow(2).mean())


def linear_algebra(device: str) -> list[float]:
    a = torch.randn(2, 6, 6).to(device).requires_grad_()
    spd = a @ a.mT + 6 * torch.eye(6, device=device)
    loss = (
        torch.linalg.cholesky(spd).sum()
        + torch.linalg.solve(spd, a).sum()
        + torch.linalg.eigvalsh(spd).sum()
        + torch.linalg.svdvals(a).sum()
        + torch.linalg.slogdet(spd).logabsdet.sum()
        + torch.linalg.inv(spd).sum()
        + torch.linalg.qr(a).R.abs().sum()
    )
    loss.backward()
    return [loss.item(), a.grad.abs().sum().item()]


def fourier(device: str) -> list[float]:
    x = torch.randn(2, 16, 16).to(device).requires_grad_()
    spectrum = torch.fft.rfft2(x)
    loss = (
        torch.fft.irfft2(spectrum * spectrum.abs()).pow(2).sum()
        + torch.stft(x.reshape(2, -1), 32, window=torch.hann_window(32, device=device), return_complex=True).abs().sum()
    )
    loss.backward()
    return [loss.item(), x.grad.abs().sum().item()]


def sparse(device: str) -> list[float]:
    dense = torch.randn(8, 8).to(device) * (torch.rand(8, 8) > 0.6).to(device)
    y = torch.randn(8, 3).to(device)
    found = [(form(dense) @ y).sum().item() for form in (torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr)]
    summed = torch.sparse.sum(dense.to_sparse(), 0).to_dense().sum()
    return [*found, summed.item()]


def embeddings(device: str) -> list[float]:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.bags = nn.Embedding(32, 8), nn.EmbeddingBag(32, 8, mode="mean")

        def forward(self, ids: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
            return self.one(ids).mean() + self.bags(ids, starts).pow(2).mean()

    ids, starts = torch.randint(0, 32, (12,)).to(device), torch.tensor([0, 4, 7]).to(device)
    losses = _steps(Words(), device, lambda model: model(ids, starts), lr=1e-2)
    table = nn.Embedding(32, 8, sparse=True).to(device)
    optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.1)
    table(ids).pow(2).sum().backward()
    optimizer.step()
    return [*losses, table(ids).sum().item()]


def half_with_a_scaler(device: str) -> list[float]:
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
    scaler = torch.amp.GradScaler(device, init_scale=256.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = torch.randn(8, 16).to(device), torch.randint(0, 4, (8,)).to(device)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x).float(), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


def optimizers(device: str) -> list[float]:
    found = []
    x = torch.randn(8, 16).to(device)
    kinds = ("SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adagrad", "Adadelta", "RMSprop", "Adamax", "Rprop", "ASGD")
    for kind in kinds:
        model = nn.Linear(16, 4).to(device)
        optimizer = getattr(torch.optim, kind)(model.parameters(), lr=0.01)
        for _ in range(2):
            optimizer.zero_grad()
            model(x).pow(2).sum().backward()
            optimizer.step()
        found.append(model(x).sum().item())
    model = nn.Linear(16, 4).to(device)
    fused = torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)
    model(x).pow(2).sum().backward()
    fused.step()
    return [*found, model(x).sum().item()]


def memory_snapshot(device: str) -> list[float]:
    """The history of allocations. The CPU has none: it gives what must be found."""
    if device == "cpu":
        return [1.0, 1.0]
    torch.cuda.memory._record_memory_history(max_entries=1000)
    x = torch.ones(1 << 20, device=device)
    del x
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    actions = [(one["action"], one["size"]) for trace in snapshot["device_traces"] for one in trace]
    return [float(actions.count(("alloc", 4 << 20))), float(actions.count(("free_completed", 4 << 20)))]


def audio(device: str) -> list[float]:
    class Recognizer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv1d(4, 8, 3, padding=1)
            self.cells = nn.LSTM(8, 8, bidirectional=True, batch_first=True)
            self.out = nn.Linear(16, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            packed = nn.utils.rnn.pack_padded_sequence(self.first(x).mT, [20, 14], batch_first=True)
            states, _ = nn.utils.rnn.pad_packed_sequence(self.cells(packed)[0], batch_first=True)
            return self.out(states).log_softmax(-1).transpose(0, 1)

    x, words = torch.randn(2, 4, 20).to(device), torch.randint(1, 5, (2, 6)).to(device)
    lengths = torch.tensor([20, 14]), torch.tensor([6, 5])
    return _steps(Recognizer(), device, lambda model: F.ctc_loss(model(x), words, *lengths))


def graph_network(device: str) -> list[float]:
    """Messages along edges, summed with scatter and index_add."""
    edges = torch.randint(0, 10, (2, 30)).to(device)
    x = torch.randn(10, 8).to(device)

    def loss(model: nn.Module) -> torch.Tensor:
        messages = model(x)[edges[0]]
        summed = torch.zeros(10, 8, device=device).index_add(0, edges[1], messages)
        highest = torch.full((10, 8), -9.0, device=device).scatter_reduce(
            0, edges[1, :, None].expand(-1, 8), messages, "amax"
        )
        return (summed + highest).pow(2).mean()

    return _steps(nn.Linear(8, 8), device, loss)


def gan(device: str) -> list[float]:
    maker, judge = (
        nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8)),
        nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(), nn.Linear(16, 1)),
    )
    maker.to(device)
    judge.to(device)
    optimizers = [torch.optim.Adam(one.parameters(), lr=1e-3) for one in (maker, judge)]
    real, noise = torch.randn(16, 8).to(device), torch.randn(16, 4).to(device)
    losses = []
    for _ in range(STEPS):
        mixed = (real + maker(noise).detach()).mul(0.5).requires_grad_()
        (slope,) = torch.autograd.grad(judge(mixed).sum(), mixed, create_graph=True)
        loss = judge(maker(noise).detach()).mean() - judge(real).mean() + (slope.norm(dim=1) - 1).pow(2).mean()
        optimizers[1].zero_grad()
        loss.backward()
        optimizers[1].step()
        optimizers[0].zero_grad()
        (-judge(maker(noise)).mean()).backward()
        optimizers[0].step()
        losses.append(loss.item())
    return losses


def policy_gradient(device: str) -> list[float]:
    policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
    states, rewards = torch.randn(16, 4).to(device), torch.randn(16).to(device)
    actions = torch.randint(0, 3, (16,)).to(device)

    def loss(model: nn.Module) -> torch.Tensor:
        choices = torch.distributions.Categorical(logits=model(states))
        return -(choices.log_prob(actions) * rewards).mean() - 0.01 * choices.entropy().mean()

    return _steps(policy, device, loss)


def compiled(device: str) -> list[float]:
    """``torch.compile``, which computes without compiling on simulated GPUs."""
    model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 2)).to(device)
    fast = model if device == "cpu" else torch.compile(model)
    x = torch.randn(4, 8).to(device)
    return _steps(fast, device, lambda model: model(x).pow(2).mean())


def quantized_weights(device: str) -> list[float]:
    weight = torch.randn(16, 8).to(device)
    scale = weight.abs().amax(1, keepdim=True) / 127
    packed = (weight / scale).round().to(torch.int8)
    x = torch.randn(4, 8).to(device)
    faked = torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127)
    return [(x @ (packed.float() * scale).T).sum().item(), faked.sum().item()]


def data_parallel(device: str) -> list[float]:
    """``nn.DataParallel`` over both GPUs: copies of a module, threads, and gradients that are summed."""
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).to(device)
    x = torch.randn(8, 8).to(device)
    spread = model if device == "cpu" else nn.DataParallel(model)
    return _steps(spread, device, lambda model: model(x).pow(2).mean())


def two_gpus(device: str) -> list[float]:
    """A model whose halves are on two GPUs."""
    other = device if device == "cpu" else "cuda:1"
    first, second = nn.Linear(8, 16).to(device), nn.Linear(16, 2).to(other)
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
    x = torch.randn(4, 8).to(device)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = second(first(x).relu().to(other)).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


PROGRAMS = {
    name: one
    for name, one in list(globals().items())
    if callable(one) and getattr(one, "__module__", "") == __name__ and not name.startswith("_")
}


def _run(name: str, device: str) -> list[float]:
    torch.manual_seed(1)
    return [float(one) for one in PROGRAMS[name](device)]


def _main() -> Iterator[list[object]]:
    values, *names = sys.argv[1:]
    torch.set_num_threads(1)
    for name in names or PROGRAMS:
        expected = _run(name, "cpu") if values == "cpu" else []
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        found = _run(name, "cuda")
        yield [name, expected, found, torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for row in _main():
        print(json.dumps(row), flush=True)
