"""What the control plane asks of a node: typed, versioned, signed tasks."""
