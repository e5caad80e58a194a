"""ExecuTorch programs (``.pte``): read as data, by place; nothing is executed."""
