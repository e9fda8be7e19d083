"""Choosing settings: grids, search spaces, tuning and comparison."""
