"""Shared by all packages: input checks, name lookup, files, result rows, timing, memory."""
