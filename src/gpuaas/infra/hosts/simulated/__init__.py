"""A host that is made up: any topology, real directories and processes of the user who started it, faults on tap."""
