"""Swing-by dynamics (Yang et al. 2025): the closed form of its linear models, and a small diffusion model."""
