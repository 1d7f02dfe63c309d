"""Stories that cross domains, one file each, and the executor that runs them. A run's progress is a row: any worker can
go on with it."""
