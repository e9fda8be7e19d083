"""Graphs: the data structure, splits, benchmarks and readers for files."""
