"""A training of VGDF ended by kill -9 at random moments ends with the same bytes as one that nobody disturbed."""

import random
from pathlib import Path

from .small import SHORT
from .test_kill import killed_in_turn

OWN = "ensemble_widths=8 ensemble_batch=8 optimist_widths=8 members=3 warm_up=500"
PARS = ("encoder_widths", "code_size", "encoder_batch")
SHARED = " ".join(word for word in SHORT.split() if not word.startswith(PARS))
ASKED = f"--method vgdf --task hopper-broken-joints --seeds 0 1 {SHARED} {OWN}".split()


def test_a_vgdf_training_that_is_killed_and_resumed_ends_with_the_same_bytes(tmp_path: Path) -> None:
    dice = random.Random()
    killed_in_turn(ASKED, [dice.uniform(0.0, 0.4) for _ in range(2)], tmp_path)
