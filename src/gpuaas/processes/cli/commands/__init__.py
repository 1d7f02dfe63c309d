"""The client's commands, one module per noun. Each holds its declarations as GROUP."""
