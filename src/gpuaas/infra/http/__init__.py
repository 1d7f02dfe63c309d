"""HTTP: operations are declared here and nowhere coded; the pipeline around each handler is compiled from it."""
