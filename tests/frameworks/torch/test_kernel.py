"""The kernel that paints images, compiled for a GPU, which needs none. `benchmarks/gpu.py` runs it."""

import os
import subprocess
import sys

import pytest

# In a process of its own: the other tests have the kernel interpreted, which is decided when it is defined.
COMPILE = """
import sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from bushel.torch.kernel import paint_images

pixels = sys.argv[1]
types = {"out": f"*{pixels}", "table": "*i64", "scale": "*fp32", "height": "i32", "width": "i32", "fill": "fp32"}
fixed = {"CHANNELS": 3, "COLUMNS": 11, "IS_ROUNDED": True, "IS_SCALED": pixels != "u8", "BLOCK": 1024}
source = ASTSource(paint_images, signature=types | dict.fromkeys(fixed, "constexpr"), constexprs=fixed)
made = triton.compile(source, target=GPUTarget("cuda", 90, 32))
assert made.asm["cubin"]
"""


@pytest.mark.parametrize("pixels", ["u8", "fp32", "fp16"])
def test_it_compiles_for_a_gpu(pixels: str) -> None:
    compiled = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-c", COMPILE, pixels]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=compiled)
    assert done.returncode == 0, done.stderr[-2000:]
