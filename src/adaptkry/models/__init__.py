"""Models: recipes, methods, and stages that compute many members at once."""
