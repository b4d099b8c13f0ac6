"""Single studies beside the tables: more training, more objects, samplers, copies, training-free sums."""
