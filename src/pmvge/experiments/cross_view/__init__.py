"""Retrieval across views of unseen scans."""
