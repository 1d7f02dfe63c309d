"""From a certificate to the node that holds it."""
