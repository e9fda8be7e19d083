"""Benchmark graphs: dataset cards, raw files and loaders."""
