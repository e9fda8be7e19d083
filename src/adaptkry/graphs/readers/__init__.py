"""Readers for files: arrays and tables."""
