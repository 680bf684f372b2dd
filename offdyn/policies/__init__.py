"""What acts: trained policies and base policies, in NumPy; no JAX."""
