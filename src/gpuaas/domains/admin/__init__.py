"""Operating an installation: what must hold, what is behind, how a program fares."""
