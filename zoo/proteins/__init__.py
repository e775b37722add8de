"""Proteins as sequences of residues."""
