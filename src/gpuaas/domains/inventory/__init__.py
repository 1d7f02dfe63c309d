"""What is sold and what it is made of. Prices are versions in time; slots are what inspection found, never assumed."""
