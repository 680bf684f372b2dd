"""The learning: networks, backbones, SAC, and each method in a file of its own (registry.py names them)."""
