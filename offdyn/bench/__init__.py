"""How fast this machine learns, steps and trains, and how fast it could: what is measured, in one place."""
