"""Rules: one file a kernel, in `torch/`. The files are parsed, never executed; `loader` reads them."""
