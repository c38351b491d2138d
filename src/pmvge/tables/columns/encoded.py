"""What an encoding returns for a batch of rows: features, and notes on values."""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Matrix: TypeAlias = NDArray[np.float32] | sparse.csr_array
# Counts by (column, note): values that were "missing" or "unseen" in training, and "invalid" ones,
# not of their kind, that count as missing. "numbered" is 1 if a table without its id column got row
# numbers as ids; "absent" is 1 for a column that a new table does not have, and its note goes on
# with ", like 'ages'" if there is a similar one. "unshared" is 1 for a training column of texts in
# which rows have almost no words in common.
Notes: TypeAlias = Counter[tuple[str, str]]
