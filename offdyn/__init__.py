"""Off-dynamics reinforcement learning: a policy for a target you can touch little, from a source with other dynamics."""

__version__ = "0.1.0"
