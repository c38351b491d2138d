"""The explorer: a page on the model that the server answers with, and the data of its map."""

from pmvge.serving.explorer.routes import router

__all__ = ["router"]
