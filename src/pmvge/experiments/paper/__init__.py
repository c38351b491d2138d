"""The experiments of the paper: citations, attributes, theory, relations to other methods."""
