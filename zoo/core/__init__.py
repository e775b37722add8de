"""How any model is trained; it knows no domain."""
