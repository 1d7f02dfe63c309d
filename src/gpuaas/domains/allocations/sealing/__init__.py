"""The data keys that seal sensitive fields: which there are, a new one by hand or by age, what old ones still seal."""
