"""How to log in on an allocation's nodes, sealed at rest."""
