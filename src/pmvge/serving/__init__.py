"""A server that answers with a fitted model over HTTP; needs the extra ``serve``."""

from pmvge.serving.settings import Limits, Settings, check_access, is_loopback, read_token
from pmvge.serving.workers import listen, serve

__all__ = ["Limits", "Settings", "check_access", "is_loopback", "listen", "read_token", "serve"]
