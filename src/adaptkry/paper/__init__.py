"""Reproducing the paper: measurements, tables and documents."""
