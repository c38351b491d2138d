"""Effects of new entities from their first links."""
