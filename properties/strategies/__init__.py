"""What to generate: descriptions of numbers, layouts, patterns and networks."""
