"""The training loop: optimizer, schedule, checkpoints, history, callbacks, interrupts."""

from pmvge.training.callbacks import Callback, Callbacks, check_callbacks
from pmvge.training.checkpoints import Checkpoints, saved_seed
from pmvge.training.fingerprints import fingerprint, hash_graphs
from pmvge.training.generators import dropout_generator, private_rng
from pmvge.training.history import History, Record
from pmvge.training.loop import Trainer
from pmvge.training.loss import EncodedLoss, check_precision
from pmvge.training.optimizer import STABLE_SETTINGS
from pmvge.training.plan import Plan
from pmvge.training.progress import training_progress
from pmvge.training.schedule import SCHEDULES, Constant, Decay, Schedule, make_schedule
from pmvge.training.tensorboard import TensorBoard

__all__ = [
    "SCHEDULES",
    "STABLE_SETTINGS",
    "Callback",
    "Callbacks",
    "Checkpoints",
    "Constant",
    "Decay",
    "EncodedLoss",
    "History",
    "Plan",
    "Record",
    "Schedule",
    "TensorBoard",
    "Trainer",
    "check_callbacks",
    "check_precision",
    "dropout_generator",
    "fingerprint",
    "hash_graphs",
    "make_schedule",
    "private_rng",
    "saved_seed",
    "training_progress",
]
