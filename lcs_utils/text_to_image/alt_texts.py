"""Alternative texts of the figures of notebooks 09 and 10, for readers who do not see them."""

ALT = {
    "text_to_image_samples": (
        "Two pictures for each of eight captions: objects on gray floors, dark blue ones at night, pale "
        "ones in fog, white ones with black outlines as drawings. The styles are those told, colors "
        "nearly always, shapes mostly; sometimes one object is drawn twice, and two grow together."
    ),
    "text_to_image_success": (
        "Shares of pictures that show what was told, for one object, two, held-out pairs and held-out "
        "styles, at two guidances: T1, T2 and an untrained net, each beside the same pictures judged by "
        "another caption. Of T1 styles are always right, one object mostly, two objects seldom; of T2 one "
        "object less often, two never."
    ),
    "fig06": (
        "For each prompt the picture that was drawn, and four maps, from high to low noise, that color "
        "each place by its strongest dominant word where this is heard more than common words. Of two "
        "objects, red and yellow lie about their objects and none covers most; at the highest noise none or "
        "night covers nearly all. Brown, of a single object, lies at it there, and below covers most of the "
        "picture."
    ),
    "fig06_pixels": (
        "A picture with four targets, and the influence of all latents on each of them at four noise levels, "
        "with its 90% square. All maps are brightest at their target; squares on the empty floor are wide, "
        "up to the width of the picture, those at objects smaller, down to one latent at low noise."
    ),
    "word_to_mask": (
        "Above, how well the influence of a word finds its own object's mask, for four ways to take the word "
        "away at three noise levels: trained nets stand far right of one half, and so does the mask of "
        "the other object; another picture's stands near it, an untrained net between. Below, of "
        "what a word does inside two objects, the share inside its own, by noise level: T1 above T2, both "
        "above the dashed line of one half where embedding or attention is taken; an untrained net and the "
        "pooled embedding on it."
    ),
    "text_to_image_jacobian": (
        "The side of the square that holds nine tenths of what a place depends on, by noise level, inside "
        "objects and in the background, for T1, T2 and an untrained net: T1 and T2 lie below the untrained "
        "net inside objects and above it in the background."
    ),
    "fig07": (
        "Maps of attention to one word, a row for each prompt, at three noise levels: on the left minus "
        "the paper's baseline, where styles are mostly orange, on the right minus the mean over "
        "prompts; words of objects are purple around places; those of styles are so only at the highest "
        "noise."
    ),
    "fig13": (
        "Matrices of cosines between prompts for the down, mid and up blocks at three noise levels: "
        "purple blocks within shapes, colors and styles in the down and up blocks, in the mid block within "
        "styles, cube and sphere orange at lower noise; paler purple and orange between them, more orange "
        "without the paper's baseline. Below, cosines within kinds minus between by layer: the lines of "
        "three untrained nets and of the prompts' first words cross that of the model."
    ),
    "composite_prompts": (
        "Cosines of composite prompts at a word with the single prompt of that word and with the others, in "
        "the down, mid and up blocks under two baselines: high with its own; in the down and up blocks "
        "about as the single prompt's with itself from other noise, near zero with the others; in the mid "
        "block half of the words lie well below the former, and the others reach .3 either way. There an "
        "untrained net is mostly high with its own too, and with the others under the paper's baseline."
    ),
    "attention_to_mask": (
        "How well attention to a word finds its own object's mask, by part of the net and noise level: "
        "raw attention of the down and up blocks does, and stands far from the other object's mask; in "
        "the mid block it does not; T2 stands between T1 and one half, another picture's mask near it."
    ),
    "prompt_additivity": (
        "Additivity by noise level, for two objects and for an object and a style, of the denoiser and of "
        "the mid block, each net beside itself with permuted labels, which lies below minus one half: T1 is "
        "near one for styles, above an untrained net, and for two objects far below its permuted self in the "
        "denoiser; T2 about zero in the denoiser for two objects, below it in the mid block and for styles, "
        "above its permuted self throughout."
    ),
    "prompt_own_share": (
        "The share of a removal along its own direction by noise level, for two objects and for an object "
        "and a style, of the denoiser and of the mid block, beside a dashed line at one half: T1 far above "
        "it for styles and below it for two objects, T2 about it, an untrained net above it."
    ),
}


def said(figure: str, model: str) -> str:
    """The text of a figure of our small model; "" for another model, whose pictures it does not describe."""
    return ALT[figure] if model == "standin" else ""
