"""Graphs: the data structure, splits, benchmark graphs, synthetic graphs and readers for files."""
