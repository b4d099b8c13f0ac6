"""The order in which `training.queue` trains nets, most valuable first: (experiment, seed)."""

QUEUE = (
    ("exp1", 0), ("exp2", 0), ("exp3_r2", 0), ("exp3", 0), ("exp1_1", 0), ("exp3_1", 0),
    ("exp1", 1), ("exp2", 1), ("exp1", 2), ("exp2", 2), ("low_noise", 0),
    ("color_1-3", 0), ("color_single_1-3", 0), ("color_1-5", 0), ("color_1", 0),
    ("exp1_1-2", 0), ("exp1_1-6", 0), ("exp2_1-6", 0), ("drop_one_1-3", 0), ("random_1-3", 0),
    # text-to-CLEVR stands here: no Experiment takes text yet
    ("exp2_1-2", 0), ("exp1_1-4", 0), ("exp2_1-4", 0), ("exp1_1-5", 0), ("exp2_1-5", 0), ("exp3_1-5", 0),
    ("random_1-2", 0), ("random_1-4", 0), ("random_1-5", 0), ("random_1-6", 0),
    ("drop_one_1-4", 0), ("drop_one_1-5", 0), ("drop_one_1-6", 0),
    ("exp3_r1", 0), ("exp3_r4", 0), ("background_empty", 0), ("background_one", 0),
    ("background_cluttered", 0), ("exp1_normalized", 0), ("exp3_1-5_r2", 0), ("exp3_1_r2", 0),
    ("exp3", 1), ("exp3", 2), ("exp1_1-6_x3", 0), ("exp3_r5", 0), ("exp3_r15", 0),
)  # fmt: skip
ON_A_GPU = ("exp3_r5", "exp3_r15")  # patches of most of the image: hours of sampling on a CPU
