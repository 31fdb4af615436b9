"""What every test may use."""

from __future__ import annotations

import os

# A developer's own settings must not change what is tested.
for name in [name for name in os.environ if name.startswith("PENSTOCK_")]:
    del os.environ[name]
