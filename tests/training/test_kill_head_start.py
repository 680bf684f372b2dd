"""A training of the default method, ended by kill -9 at random moments, ends with the bytes of one left alone."""

import random
from pathlib import Path

from .test_kill import killed_in_turn

SETTINGS = (
    "--task hopper-broken-joints --seeds 0 1 --head-start 1000 --domain-input flag --target-steps 200 "
    "--eval-interval 500 --eval-episodes 2 --checkpoint-interval 50 --set learns_from=both actor_widths=8 "
    "critic_widths=8,8 batch_size=8 learning_starts=8 random_steps=30 log_interval=100 final_episodes=2 "
    "eval_source_episodes=1"
)
ASKED = SETTINGS.split()


def test_a_training_with_a_head_start_that_is_killed_and_resumed_ends_with_the_same_bytes(tmp_path: Path) -> None:
    moments = [0.0, random.Random().uniform(0.0, 0.4)]  # the first one while actions are random still
    killed_in_turn(ASKED, moments, tmp_path)
