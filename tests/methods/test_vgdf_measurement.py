"""The measurement of VGDF's ensemble runs from end to end, in miniature."""

import csv
import json
import math
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SMALL = "ensemble_widths=8 members=3 ensemble_batch=8 optimist_widths=8 actor_widths=8 critic_widths=8 batch_size=16"
ASKED = (
    "--tasks halfcheetah-no-thighs --seeds 0 1 --checkpoints 60 --eval-interval 300 --episodes 1 --fresh-rows 50 "
    f"--batches 3 --most-epochs 3 --threads 1 --set minimum_rows=20 warm_up=200 {SMALL}"
)


def test_the_measurement_compares_our_ensemble_with_references_and_writes_curves(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "results" / "vgdf-ensemble" / "measure.py"), *ASKED.split()]
    surroundings = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [*command, "--out", str(tmp_path)], capture_output=True, text=True, timeout=240, env=surroundings, check=False
    )
    assert ended.returncode == 0, ended.stderr
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert [(row["target_rows"], row["seed"]) for row in summary["rows"]] == [(60, 0), (60, 1)]
    for row in summary["rows"]:
        assert row["chance"] == 0.25
        assert row["reference_epochs"] == [3, 3]
        for name in ("overlap_with_reference", "overlap_of_references", "overlap_with_itself_other_draws"):
            assert 0 <= row[name] <= 1
        for name in ("error", "reference_error", "log_likelihood", "reference_log_likelihood"):
            assert math.isfinite(row[name])
    for seed in (0, 1):
        (path,) = tmp_path.glob(f"halfcheetah-no-thighs.*seed-{seed}/curve.csv")
        with open(path, newline="") as file:
            lines = list(csv.DictReader(file))
        assert [int(line["source_steps"]) for line in lines] == [300, 600]
        assert float(lines[-1]["mean_weight_of_source_rows"]) < 1
