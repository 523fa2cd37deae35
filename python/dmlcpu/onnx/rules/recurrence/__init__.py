"""Recurrent layers, and sequences that are shorter than their tensor."""
