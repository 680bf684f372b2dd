"""From finished (and half-finished) runs to numbers, tables, figures and one page."""
