"""The timeline of an allocation: what happened to it, in order, from our side and from its nodes."""
