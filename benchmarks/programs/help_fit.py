"""``gpuconf plan --help-fit`` of public training programs that do not fit on a T4: ``rule.md`` says which and how.

python benchmarks/programs/help_fit.py FOLDER [NAME...] [--json FILE] [--draw]

FOLDER has the checkouts, as for ``run.py``, whose requirements these are, too. ``--draw`` prints the candidates.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from draw import RUNS, TRAINS
from run import HERE, gpuconf

SEED = 61
TRANSFORMERS = [
    "audio-classification/run_audio_classification.py",
    "contrastive-image-text/run_clip.py",
    "image-classification/run_image_classification.py",
    "image-classification/run_image_classification_no_trainer.py",
    "image-pretraining/run_mae.py",
    "image-pretraining/run_mim.py",
    "image-pretraining/run_mim_no_trainer.py",
    "instance-segmentation/run_instance_segmentation.py",
    "instance-segmentation/run_instance_segmentation_no_trainer.py",
    "language-modeling/run_clm.py",
    "language-modeling/run_clm_no_trainer.py",
    "language-modeling/run_fim.py",
    "language-modeling/run_fim_no_trainer.py",
    "language-modeling/run_mlm.py",
    "language-modeling/run_mlm_no_trainer.py",
    "language-modeling/run_plm.py",
    "multiple-choice/run_swag.py",
    "multiple-choice/run_swag_no_trainer.py",
    "object-detection/run_object_detection.py",
    "object-detection/run_object_detection_no_trainer.py",
    "question-answering/run_qa.py",
    "question-answering/run_qa_beam_search.py",
    "question-answering/run_qa_beam_search_no_trainer.py",
    "question-answering/run_qa_no_trainer.py",
    "question-answering/run_seq2seq_qa.py",
    "semantic-segmentation/run_semantic_segmentation.py",
    "semantic-segmentation/run_semantic_segmentation_no_trainer.py",
    "speech-pretraining/run_wav2vec2_pretraining_no_trainer.py",
    "speech-recognition/run_speech_recognition_ctc.py",
    "speech-recognition/run_speech_recognition_ctc_adapter.py",
    "speech-recognition/run_speech_recognition_seq2seq.py",
    "summarization/run_summarization.py",
    "summarization/run_summarization_no_trainer.py",
    "text-classification/run_classification.py",
    "text-classification/run_glue.py",
    "text-classification/run_glue_no_trainer.py",
    "text-classification/run_xnli.py",
    "token-classification/run_ner.py",
    "token-classification/run_ner_no_trainer.py",
    "translation/run_translation.py",
    "translation/run_translation_no_trainer.py",
]
VISION = [
    "classification",
    "depth/stereo",
    "detection",
    "optical_flow",
    "segmentation",
    "similarity",
    "video_classification",
]
OTHERS = [
    "litgpt litgpt/pretrain.py",
    "mae main_pretrain.py",
    "mae main_finetune.py",
    "DiT train.py",
    "guided-diffusion scripts/image_train.py",
    "guided-diffusion scripts/classifier_train.py",
    "guided-diffusion scripts/super_res_train.py",
]


def draw(checkouts: Path) -> list[str]:
    """Return the candidates in the order of the draw: the groups take turns."""
    import timm

    diffusers = checkouts / "diffusers"
    texts = {path: path.read_text(encoding="utf-8") for path in sorted((diffusers / "examples").rglob("*.py"))}
    trains = [path for path, text in texts.items() if TRAINS.search(text) and RUNS.search(text)]
    listed = json.loads((HERE / "programs.json").read_text(encoding="utf-8"))["programs"]
    groups = [
        [f"pytorch-image-models train.py --model {model}" for model in sorted(timm.list_models())],
        [f"transformers examples/pytorch/{path}" for path in TRANSFORMERS],
        [f"diffusers {path.relative_to(diffusers)}" for path in trains],
        [f"vision references/{path}/train.py" for path in VISION],
        [f"{Path(one['project']).name} {one['program']}" for one in listed if "image-models" not in one["project"]],
        OTHERS,
    ]
    for group in groups:
        random.Random(SEED).shuffle(group)
    return [one for turn in itertools.zip_longest(*groups) for one in turn if one]


def helped(one: dict[str, Any], checkouts: Path, seconds: int) -> dict[str, Any]:
    """Return what ``--help-fit`` says of a program."""
    begin = time.monotonic()
    words = ["plan", "--json", "--help-fit", "--gpu", "T4", "--seconds", str(seconds), "--", sys.executable]
    done = gpuconf(one, checkouts, *words, *one["words"], longest=1500)
    answer = json.loads(done.stdout or "{}")
    row: dict[str, Any] = {"seconds": round(time.monotonic() - begin)}
    if not answer.get("processes"):
        return {**row, "failed": answer.get("why_no_verdict") or done.stderr[-600:]}
    process = max(answer["processes"], key=lambda one: one["allocated"])
    row["peak"] = [process["allocated"], process["reserved"]]
    row["verdicts"] = {card["setting"]: card["verdict"] for card in answer["cards"]}
    return {**row, "remedies": answer["remedies"], "why": answer["why_no_verdict"], "unseen": answer["unseen"]}


def main() -> None:
    """Print a line for each program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--draw", action="store_true")
    options = parser.parse_args()
    if options.draw:
        print(*draw(options.folder), sep="\n")
        return
    found = json.loads(options.json.read_text(encoding="utf-8")) if options.json and options.json.exists() else {}
    for one in json.loads((HERE / "not_fitting.json").read_text(encoding="utf-8"))["programs"]:
        if options.names and not any(part in one["name"] for part in options.names):
            continue
        try:
            row = helped(one, options.folder, one.get("seconds", 120))
        except subprocess.TimeoutExpired as error:
            row = {"failed": f"not within {error.timeout:.0f} s"}
        print(one["name"], json.dumps(row), flush=True)
        found[one["name"]] = {**found.get(one["name"], {}), **row}
        if options.json:
            options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
