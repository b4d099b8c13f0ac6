"""CLEVR scenes: sampling, rendering, data sets and conditions."""
