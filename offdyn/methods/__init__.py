"""How each method differs from SAC: one file each, one registry line each (recipes.py)."""
