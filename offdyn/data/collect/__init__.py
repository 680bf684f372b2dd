"""Datasets of our own: the policies that act, and the episodes they play."""
