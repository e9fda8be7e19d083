"""What every package uses: input checks, name lookup, files, result rows, timing, memory."""
