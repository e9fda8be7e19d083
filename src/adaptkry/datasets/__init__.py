"""Graphs to work on."""
