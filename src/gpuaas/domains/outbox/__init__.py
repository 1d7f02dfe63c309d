"""Events on their way: what is to be published, who has handled what, what could not be handled, and who looks after
what was lost on the way."""
