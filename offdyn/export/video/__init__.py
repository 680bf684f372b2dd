"""Films of a policy at work in its source and its target, side by side."""
