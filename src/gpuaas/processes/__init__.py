"""The programs, one folder each: settings are read here, implementations chosen here, and nowhere below."""
