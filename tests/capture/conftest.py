"""Networks this small are trained by one thread: several on few cores only wait for each other."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
