"""Run folders: files, settings, checkpoints and results, and reading many of them."""
