# fits, cut, transformers, accelerate
"""transformers' Trainer, which evaluates each 30 of 200 steps."""

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Rows(Dataset):
    def __init__(self, count: int) -> None:
        self.rows = torch.randint(0, 500, (count, 64))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.rows[number], "labels": self.rows[number]}


model = GPT2LMHeadModel(GPT2Config(vocab_size=500, n_positions=64, n_embd=128, n_layer=2, n_head=2))
options = TrainingArguments(
    "out",
    num_train_epochs=2,
    per_device_train_batch_size=4,
    per_device_eval_batch_size=64,
    eval_strategy="steps",
    eval_steps=0.15,
    report_to=[],
    disable_tqdm=True,
)
trainer = Trainer(model, options, train_dataset=Rows(400), eval_dataset=Rows(256))
trainer.train()
trainer.predict(Rows(64))
