"""The tests of this folder and its script share the package ``fuzzing`` beside them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
