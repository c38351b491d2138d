"""Best partners and similar entities, with indexes and names."""
