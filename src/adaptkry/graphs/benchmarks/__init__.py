"""Benchmark graphs: their cards, their raw files and their loaders."""
