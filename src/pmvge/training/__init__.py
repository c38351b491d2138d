"""The gradient loop: optimizer, schedule, checkpoints, history, progress, interrupts."""

from pmvge.training.checkpoints import Checkpoints, add_graphs, fingerprint, saved_seed
from pmvge.training.generators import generator_of, private_rng
from pmvge.training.history import History, Record
from pmvge.training.interrupts import terminate_as_interrupted
from pmvge.training.loop import Trainer
from pmvge.training.loss import EncodedLoss, check_precision
from pmvge.training.progress import Watcher, watcher
from pmvge.training.schedule import Plan

__all__ = [
    "Checkpoints",
    "EncodedLoss",
    "History",
    "Plan",
    "Record",
    "Trainer",
    "Watcher",
    "add_graphs",
    "check_precision",
    "fingerprint",
    "generator_of",
    "private_rng",
    "saved_seed",
    "terminate_as_interrupted",
    "watcher",
]
