"""How local trained nets are (eqs. (9)-(10), Figs. 2, 10): rows, statistics, figures and sentences."""
