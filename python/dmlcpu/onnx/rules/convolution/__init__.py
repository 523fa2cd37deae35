"""Convolutions, transposed or not, of rows, images and volumes."""
