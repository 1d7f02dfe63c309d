"""Who there is and who belongs where: people, organisations, projects, members, service accounts, keys and sessions.
One folder per noun; `authority` turns a credential into an actor for every request."""
