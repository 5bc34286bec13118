import atexit
import importlib.util
import os
import shutil
import tempfile

from hypothesis import HealthCheck, settings

# The same examples in every run, so that a red run is a change's own; HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile(
    "fixed",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("explore", settings.get_profile("fixed"), derandomize=False, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

# Where what they need is missing, these are not collected: `make test-frameworks` has it, and runs them. They are
# not `tests/torch` and `tests/jax`: this folder is on the path, and programs would take them for the packages.
NEEDED = {
    "frameworks/torch": ("torch", "lightning", "accelerate", "transformers", "torchdata", "triton"),
    "frameworks/jax": ("jax", "grain"),
}
collect_ignore = [folder for folder, modules in NEEDED.items() if not all(map(importlib.util.find_spec, modules))]

# Indexes of files that a test only reads go to the user's cache: to one that is removed afterwards.
if "XDG_CACHE_HOME" not in os.environ:
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="bushel-cache-")
    atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)
