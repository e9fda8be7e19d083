"""The benchmark graphs: what is known about them, and how they are loaded."""
