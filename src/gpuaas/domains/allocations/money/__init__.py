"""What an allocation costs: the deposit that is set aside for it, its meter, and what its people see of both."""
