"""Fourier transforms, of axes and of windows that move along signals."""
