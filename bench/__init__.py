"""Speed, as ratios to a limit measured in the same run. `make bench`, `make bench ONLY=api`, `make bench JSON=1`."""
