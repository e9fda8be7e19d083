"""What is trained: recipes, methods, and models of many members at once."""
