"""Color-conditioned nets: success, colors right and conditions obeyed, each beside its null (section 4,
Figs. 5, 11, App. E.4)."""
