"""An allocation explained: the questions its people ask, answered from the books in sentences."""
