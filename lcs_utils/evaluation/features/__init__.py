"""Feature space of trained nets (section 4, eq. (3), App. E.4): rows, their controls, tables and figures."""
