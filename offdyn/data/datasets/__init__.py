"""Fixed sets of transitions: files of D4RL, Minari and LeRobot and our own, read and written."""

from .actions import with_action_bounds
from .dataset import COLUMNS, DataError, Dataset, join
from .lerobot import write as write_lerobot
from .minari import write as write_minari
from .native import full_card, load, made_here, save
from .opening import find, folder, open_dataset

__all__ = [
    "COLUMNS",
    "DataError",
    "Dataset",
    "find",
    "folder",
    "full_card",
    "join",
    "load",
    "made_here",
    "open_dataset",
    "save",
    "with_action_bounds",
    "write_lerobot",
    "write_minari",
]
