"""Pieces that several methods use."""
