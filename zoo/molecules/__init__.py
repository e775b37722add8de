"""Molecules as graphs."""
