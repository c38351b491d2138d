"""The paper's experiments: recipes, the runs that follow them, and pages of what they found."""
