"""Text-to-image models as our denoisers: a prompt as a condition, word by word (section 4, App. G)."""
