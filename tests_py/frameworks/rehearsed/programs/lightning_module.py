# fits, cut, lightning
"""Lightning's loops, which count a loader's batches: a validation follows each epoch."""

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(256, 256)

    def training_step(self, batch: list[torch.Tensor], _number: int) -> torch.Tensor:
        return self.layer(batch[0]).square().mean()

    def validation_step(self, batch: list[torch.Tensor], _number: int) -> None:
        self.log("loss", self.layer(batch[0]).square().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters())


loaders = (DataLoader(TensorDataset(torch.randn(8000, 256)), batch_size=size) for size in (32, 2000))
trainer = lightning.Trainer(max_epochs=2, logger=False, enable_progress_bar=False)
trainer.fit(Module(), *loaders)
