"""Duo: two members on one budget of target steps, one that learns with the source and one that learns without.

The first is SAC on both domains whose networks see which domain a transition is of; the second is SAC on the target
alone. Target episodes are shared out between the two (training/cohort.py) and both learn from all of them; the one
whose recent target episodes went better is deployed. So the source can help, and cannot hold back by much.
"""

from .method import Method, Preset

DUO = Method(
    "duo",
    "two members, one with the source and one without; the better one is deployed",
    pads=True,
    compares_domains=True,
    presets={"simba": Preset({"backbone": "simba", "domain_input": "flag"})},
    others=("target",),
)
